//! Frames: encodes requests and decodes answers. Servers are not trusted: an answer with an
//! impossible length is refused before memory is reserved for it.

mod call;
mod frames;

pub use call::Call;
pub use frames::Frames;

use std::ops::RangeInclusive;

use muster_codec::header::{RequestHeader, read_response_header};
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::{ApiKey, DecodeError, Field, Reader};

use crate::member::{Request, Response};

/// The maximum length of an answer. JoinGroup's answer to the leader of 10,000 members has some MB.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// The maximum memory for all arrays of an answer. Decoding a frame with very many tiny array
/// elements could otherwise take a hundred times the size of the frame.
pub const ARRAY_BYTES_MAX: usize = 256 << 20;

const _: () = assert!(FRAME_BYTES_MAX <= i32::MAX as usize);

/// The header of a request, without its API key.
pub struct Header<'a> {
    pub version: i16,
    pub correlation: i32,
    pub client_id: &'a str,
}

/// Why a request could not be encoded: the version does not exist, a string is too long, or the
/// frame is larger than 2 GiB.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritable(String);

/// The reason why bytes are not a valid answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    #[error("a frame of {0} bytes is announced")]
    Length(i32),
    #[error("correlation id {got} where {expected} was expected")]
    Correlation { expected: i32, got: i32 },
    #[error("an answer without a request")]
    Unasked,
    #[error("{0}")]
    Body(String),
}

impl From<DecodeError> for Malformed {
    fn from(error: DecodeError) -> Self {
        Self::Body(error.to_string())
    }
}

/// The versions of an API that muster-load uses. Requests about offsets stay at the last version
/// with topic names, because later versions have topic ids instead.
pub fn versions(api: ApiKey) -> RangeInclusive<i16> {
    let all = api.versions();
    let newest = match api {
        ApiKey::OffsetCommit | ApiKey::OffsetFetch => 9,
        ApiKey::TxnOffsetCommit => 5,
        _ => *all.end(),
    };
    *all.start()..=newest
}

/// Appends the frame of a request: length, header, body. Appends nothing on error.
///
/// # Errors
/// The request cannot be encoded in this version, contains a string that is too long, or is larger
/// than 2 GiB.
pub fn write<R: Call>(
    out: &mut Vec<u8>,
    header: &Header<'_>,
    request: &R,
) -> Result<(), Unwritable> {
    let version = R::API.version(header.version).map_err(unwritable)?;
    framed(out, R::API, header, request.longest_string(), |out| {
        request.write(out, version);
        Ok(())
    })
}

/// [`write()`] for the requests of members.
///
/// # Errors
/// The errors of [`write()`].
pub fn write_request(
    out: &mut Vec<u8>,
    header: &Header<'_>,
    request: &Request,
) -> Result<(), Unwritable> {
    framed(out, request.api_key(), header, request.longest_string(), |out| {
        request.write(header.version, out)
    })
}

/// Decodes the answer in a frame (without its length).
///
/// # Errors
/// The frame is not an answer to `R` in this version.
pub fn read<R: Call>(version: i16, frame: &[u8]) -> Result<R::Response<'_>, Malformed> {
    let mut reader = reader(R::API, version, frame)?;
    Ok(R::Response::read(&mut reader, R::API.version(version)?)?)
}

/// [`read`] for the answers to members.
///
/// # Errors
/// The errors of [`read`].
pub fn read_response(api: ApiKey, version: i16, frame: &[u8]) -> Result<Response<'_>, Malformed> {
    let mut reader = reader(api, version, frame)?;
    Ok(Response::read(api, version, &mut reader)?)
}

/// The correlation id at the start of a frame.
///
/// # Errors
/// The frame is too short.
pub fn correlation(frame: &[u8]) -> Result<i32, Malformed> {
    let id = frame.first_chunk::<4>().ok_or(Malformed::Length(frame.len() as i32))?;
    Ok(i32::from_be_bytes(*id))
}

/// A cursor over the body of an answer.
fn reader(api: ApiKey, version: i16, frame: &[u8]) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::limited(frame, ARRAY_BYTES_MAX);
    read_response_header(api, version, &mut reader)?;
    Ok(reader)
}

/// Appends a frame: length, header, and the bytes that `body` appends. Appends nothing on error.
fn framed(
    out: &mut Vec<u8>,
    api: ApiKey,
    header: &Header<'_>,
    longest_string: usize,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), DecodeError>,
) -> Result<(), Unwritable> {
    if longest_string.max(header.client_id.len()) > STRING_BYTES_MAX {
        return Err(unwritable(DecodeError::StringTooLong));
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let head = RequestHeader {
        api_key: api as i16,
        api_version: header.version,
        correlation_id: header.correlation,
        client_id: Some(header.client_id.into()),
    };
    head.write(out);
    let written = body(out).map_err(unwritable);
    let length = i32::try_from(out.len() - start - 4);
    let length = length.map_err(|_| Unwritable("a request of more than 2 GiB".into()));
    match written.and(length) {
        Ok(length) => {
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

fn unwritable(error: DecodeError) -> Unwritable {
    Unwritable(error.to_string())
}

#[cfg(test)]
mod tests;
