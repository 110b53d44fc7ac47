//! The 4-byte length in front of each request and response.

/// The reason why a frame length is refused. The server then closes the connection, as Kafka does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Negative, or shorter than the smallest request header.
    TooShort(i32),
    /// Longer than `socket.request.max.bytes`.
    TooLong(i32),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooShort(length) => write!(f, "a frame of {length} bytes holds no request"),
            Self::TooLong(length) => {
                write!(f, "a frame of {length} bytes is over socket.request.max.bytes")
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Bytes of API key, version and correlation id.
const SMALLEST_REQUEST: i32 = 8;

/// The length in bytes of the frame at the start of `bytes`, including its 4-byte length field.
/// None if `bytes` is shorter than this field.
///
/// # Errors
/// The length is below that of the smallest request header, or above `max_bytes`.
pub fn frame_length(bytes: &[u8], max_bytes: u32) -> Result<Option<usize>, FrameError> {
    let Some(length) = bytes.first_chunk::<4>().map(|length| i32::from_be_bytes(*length)) else {
        return Ok(None);
    };
    match u32::try_from(length) {
        Ok(positive) if positive > max_bytes => Err(FrameError::TooLong(length)),
        Ok(positive) if length >= SMALLEST_REQUEST => Ok(Some(positive as usize + 4)),
        _ => Err(FrameError::TooShort(length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_at_the_edges() {
        assert_eq!(frame_length(&[0, 0, 0], 100), Ok(None));
        assert_eq!(frame_length(&[0, 0, 0, 8], 100), Ok(Some(12)));
        assert_eq!(frame_length(&[0, 0, 0, 7], 100), Err(FrameError::TooShort(7)));
        assert_eq!(frame_length(&[0xff; 4], 100), Err(FrameError::TooShort(-1)));
        assert_eq!(frame_length(&[0, 0, 0, 101], 100), Err(FrameError::TooLong(101)));
    }
}
