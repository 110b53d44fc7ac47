//! The maximum length of a request, which depends on its API. Only requests with records may be as
//! long as `socket.request.max.bytes`. Most other maxima are far smaller.
//!
//! The first six bytes of a request contain its API. If the request is too long for its API, the
//! connection is closed.

use muster_codec::ApiKey;
use muster_codec::frame::{FrameError, frame_length};
use std::fmt;

/// The reason why a frame is refused, after which its connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestError {
    Frame(FrameError),
    TooLong {
        api: ApiKey,
        bytes: usize,
    },
    /// A client that is not authenticated sent a frame above `sasl.server.max.receive.size`.
    Token {
        bytes: i32,
        max_bytes: u32,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(error) => error.fmt(f),
            Self::TooLong { api, bytes } => {
                let (name, max) = (api.name(), api.request_bytes_max());
                write!(f, "a request of {bytes} bytes is too long for {name}: it may have {max}")
            }
            Self::Token { bytes, max_bytes } => write!(
                f,
                "a frame of {bytes} bytes before authentication: sasl.server.max.receive.size is \
                 {max_bytes}"
            ),
        }
    }
}

/// The length of the frame at the start of `bytes`. None if too few bytes have arrived to know it.
/// If `bytes` also contains the API of the request, the length may not exceed the maximum of that
/// API.
///
/// # Errors
/// The frame is too long or too short for a request.
pub(crate) fn request_length(bytes: &[u8], max_bytes: u32) -> Result<Option<usize>, RequestError> {
    let length = frame_length(bytes, max_bytes).map_err(RequestError::Frame)?;
    match (length, api_of(bytes)) {
        (Some(bytes), Some(api)) if bytes > api.request_bytes_max() => {
            Err(RequestError::TooLong { api, bytes })
        }
        (length, _) => Ok(length),
    }
}

/// Whether the request at the start of `bytes` may have an answer that is much larger than the
/// request.
pub(crate) fn may_have_large_answer(bytes: &[u8]) -> bool {
    api_of(bytes).is_some_and(ApiKey::has_large_answers)
}

/// The API of the frame at the start of `bytes`.
fn api_of(bytes: &[u8]) -> Option<ApiKey> {
    let key = bytes.get(4..6)?;
    ApiKey::from_key(i16::from_be_bytes([key[0], key[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::limits::SHORT_REQUEST_BYTES_MAX as SHORT;

    fn start(bytes: usize, api: ApiKey) -> Vec<u8> {
        let length = (bytes as u32 - 4).to_be_bytes();
        length.into_iter().chain((api as i16).to_be_bytes()).collect()
    }

    #[test]
    fn each_api_has_a_length_of_its_own() {
        for api in ApiKey::ALL.iter().copied().filter(|api| *api != ApiKey::Produce) {
            let max = api.request_bytes_max();
            assert_eq!(request_length(&start(max, api), u32::MAX), Ok(Some(max)));
            let refused = request_length(&start(max + 1, api), u32::MAX);
            assert_eq!(refused, Err(RequestError::TooLong { api, bytes: max + 1 }));
        }
        let produce = start(1 << 30, ApiKey::Produce);
        assert_eq!(request_length(&produce, i32::MAX as u32), Ok(Some(1 << 30)));
        assert!(
            request_length(&produce, 1 << 20).is_err(),
            "socket.request.max.bytes holds for all"
        );
    }

    #[test]
    fn a_frame_is_refused_before_it_is_there() {
        let long = start(SHORT + 1, ApiKey::Heartbeat);
        assert_eq!(request_length(&long[..5], u32::MAX), Ok(Some(SHORT + 1)), "of any API so far");
        let words = request_length(&long, u32::MAX).unwrap_err().to_string();
        assert_eq!(
            words,
            "a request of 262145 bytes is too long for Heartbeat: it may have 262144"
        );
    }
}
