//! Frames: encodes requests, and decodes answers of a server that is not trusted.
//!
//! The messages themselves are those of the crate `kafka-protocol`. It reserves memory for as many
//! elements as a frame claims, so `shape` walks each answer before it is decoded.

mod call;
mod frames;
mod layouts;
mod shape;
mod share_fetch;
mod streams_heartbeat;

pub use call::Call;
pub use frames::Frames;
pub use share_fetch::SHARE_FETCH_VERSIONS;
pub use streams_heartbeat::STREAMS_HEARTBEAT_VERSIONS;

use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ConsumerGroupHeartbeatRequest,
    EndTxnRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest, InitProducerIdRequest,
    JoinGroupRequest, LeaveGroupRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest, RequestHeader, ResponseHeader, ShareAcknowledgeRequest,
    ShareFetchRequest, ShareGroupHeartbeatRequest, SyncGroupRequest, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request as Message, StrBytes};

use muster_codec::header::{self as codec, read_response_header};
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::{ApiKey, DecodeError, Field, Reader};

use crate::member::{Request, Response};

const STREAMS_HEARTBEAT: i16 = ApiKey::StreamsGroupHeartbeat as i16;

/// The longest answer that is read. JoinGroup's to the leader of 10,000 members is some MB.
pub const FRAME_BYTES_MAX: usize = 64 << 20;

/// The maximum of elements in all arrays of an answer together, so that a frame of many tiny
/// elements does not take a hundred times its size of memory.
pub const ELEMENTS_MAX: usize = 4 << 20;

/// The memory that the arrays of an answer may take in all, so that a frame of many tiny elements
/// does not take a hundred times its size.
pub const ARRAY_BYTES_MAX: usize = 256 << 20;

const _: () = assert!(FRAME_BYTES_MAX <= i32::MAX as usize);

/// The header of a request, without its API key.
pub struct Header<'a> {
    pub version: i16,
    pub correlation: i32,
    pub client_id: &'a str,
}

/// Why a request could not be encoded: a value that its version does not have, or a string that is
/// too long.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unwritable(String);

/// Why bytes are no answer.
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

/// Appends the frame of a request: length, header, body. Nothing is appended on error.
///
/// # Errors
/// If the request cannot be encoded in this version.
pub fn write<R: Call>(
    out: &mut Vec<u8>,
    header: &Header<'_>,
    request: &R,
) -> Result<(), Unwritable> {
    let version = R::API.version(header.version).map_err(unwritable)?;
    let longest = request.longest_string();
    framed(out, R::API, header, longest, |out| request.write(out, version))
}

/// Decodes the answer in a frame (without its length).
///
/// # Errors
/// If it is not an answer to `R` in this version.
pub fn read<R: Call>(version: i16, frame: &[u8]) -> Result<R::Response<'_>, Malformed> {
    let mut reader = reader(R::API, version, frame)?;
    Ok(R::Response::read(&mut reader, R::API.version(version)?)?)
}

/// A cursor over the body of an answer.
fn reader(api: ApiKey, version: i16, frame: &[u8]) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::limited(frame, ARRAY_BYTES_MAX);
    read_response_header(api, version, &mut reader)?;
    Ok(reader)
}

/// Appends the frame of a request: length, header, body. Nothing is appended on error.
///
/// # Errors
/// If the request cannot be encoded in this version.
fn write_other<R: Message>(
    out: &mut Vec<u8>,
    header: &Header<'_>,
    request: &R,
) -> Result<(), Unwritable> {
    framed_other(out, |out| {
        let head = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(header.version)
            .with_correlation_id(header.correlation)
            .with_client_id(Some(StrBytes::from_string(header.client_id.to_owned())));
        head.encode(out, R::header_version(header.version))?;
        request.encode(out, header.version)
    })
}

/// Decodes the answer in a frame (without its length).
///
/// # Errors
/// If it is not an answer to `R` in this version.
fn read_other<R: Message>(version: i16, frame: &[u8]) -> Result<R::Response, Malformed> {
    let mut rest = frame;
    ResponseHeader::decode(&mut rest, R::Response::header_version(version)).map_err(body)?;
    shape::check(R::KEY, version, rest).map_err(|error| Malformed::Body(error.into()))?;
    R::Response::decode(&mut rest, version).map_err(body)
}

/// The correlation id at the start of a frame.
///
/// # Errors
/// If the frame is too short for one.
pub fn correlation(frame: &[u8]) -> Result<i32, Malformed> {
    let id = frame.first_chunk::<4>().ok_or(Malformed::Length(frame.len() as i32))?;
    Ok(i32::from_be_bytes(*id))
}

/// Appends a frame: length, header, and what `body` appends. Nothing is appended on error.
fn framed(
    out: &mut Vec<u8>,
    api: ApiKey,
    header: &Header<'_>,
    longest_string: usize,
    body: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Unwritable> {
    if longest_string.max(header.client_id.len()) > STRING_BYTES_MAX {
        return Err(unwritable(DecodeError::StringTooLong));
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let head = codec::RequestHeader {
        api_key: api as i16,
        api_version: header.version,
        correlation_id: header.correlation,
        client_id: Some(header.client_id.into()),
    };
    head.write(out);
    body(out);
    let Ok(length) = i32::try_from(out.len() - start - 4) else {
        out.truncate(start);
        return Err(Unwritable("a request of more than 2 GiB".into()));
    };
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn unwritable(error: DecodeError) -> Unwritable {
    Unwritable(error.to_string())
}

impl From<DecodeError> for Malformed {
    fn from(error: DecodeError) -> Self {
        Self::Body(error.to_string())
    }
}

/// Appends a frame: the length of what `write` appends, and that. Nothing is appended on error.
fn framed_other<E: std::fmt::Display>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), Unwritable> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let written = write(out);
    let length = i32::try_from(out.len() - start - 4);
    match (written, length) {
        (Ok(()), Ok(length)) => {
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        (Err(error), _) => {
            out.truncate(start);
            Err(Unwritable(error.to_string()))
        }
        (_, Err(_)) => {
            out.truncate(start);
            Err(Unwritable("a request of more than 2 GiB".into()))
        }
    }
}

fn body(error: impl std::fmt::Display) -> Malformed {
    Malformed::Body(error.to_string())
}

macro_rules! member_apis {
    ($($name:ident => $message:ty),* $(,)?) => {
        /// [`write()`] for the requests of members.
        ///
        /// # Errors
        /// Those of [`write()`].
        pub fn write_request(
            out: &mut Vec<u8>,
            header: &Header<'_>,
            request: &Request,
        ) -> Result<(), Unwritable> {
            match request {
                $(Request::$name(request) => write_other(out, header, request),)*
                Request::ShareFetch(fetch) => share_fetch::write_share_fetch(out, header, fetch),
                Request::StreamsHeartbeat(request) => {
                    streams_heartbeat::write_streams_heartbeat(out, header, request)
                }
            }
        }

        /// [`read`] for the answers to members.
        ///
        /// # Errors
        /// Those of [`read`], and if members do not use the API.
        pub fn read_response(
            api_key: i16,
            version: i16,
            frame: &[u8],
        ) -> Result<Response, Malformed> {
            match api_key {
                $(<$message>::KEY => read_other::<$message>(version, frame).map(Response::$name),)*
                ShareFetchRequest::KEY => {
                    share_fetch::read_share_fetch(version, frame).map(Response::ShareFetch)
                }
                STREAMS_HEARTBEAT => {
                    let read = streams_heartbeat::read_streams_heartbeat(version, frame);
                    read.map(Response::StreamsHeartbeat)
                }
                _ => Err(Malformed::Body(format!("members do not use API {api_key}"))),
            }
        }

        /// The API key of a member's request.
        pub fn api_key(request: &Request) -> i16 {
            match request {
                $(Request::$name(_) => <$message>::KEY,)*
                Request::ShareFetch(_) => ShareFetchRequest::KEY,
                Request::StreamsHeartbeat(_) => STREAMS_HEARTBEAT,
            }
        }
    };
}

member_apis! {
    FindCoordinator => FindCoordinatorRequest,
    JoinGroup => JoinGroupRequest,
    SyncGroup => SyncGroupRequest,
    Heartbeat => HeartbeatRequest,
    LeaveGroup => LeaveGroupRequest,
    ConsumerGroupHeartbeat => ConsumerGroupHeartbeatRequest,
    OffsetCommit => OffsetCommitRequest,
    OffsetFetch => OffsetFetchRequest,
    Metadata => MetadataRequest,
    InitProducerId => InitProducerIdRequest,
    AddPartitionsToTxn => AddPartitionsToTxnRequest,
    AddOffsetsToTxn => AddOffsetsToTxnRequest,
    Produce => ProduceRequest,
    TxnOffsetCommit => TxnOffsetCommitRequest,
    EndTxn => EndTxnRequest,
    ListOffsets => ListOffsetsRequest,
    Fetch => FetchRequest,
    ShareGroupHeartbeat => ShareGroupHeartbeatRequest,
    ShareAcknowledge => ShareAcknowledgeRequest,
}

#[cfg(test)]
mod tests;
