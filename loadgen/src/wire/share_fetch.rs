//! ShareFetch with the acquire mode of version 2 (KIP-1206), which `kafka-protocol` 0.18 lacks.

use kafka_protocol::messages::{ShareFetchRequest, ShareFetchResponse};
use kafka_protocol::protocol::{Message, VersionRange};

use super::{Header, Malformed, Unwritable, read_other, write_other};
use crate::member::ShareFetch;

/// The version that `kafka-protocol` has. The next one has two fields more in the request, and the
/// same answer.
const KNOWN: i16 = ShareFetchRequest::VERSIONS.max;
pub const SHARE_FETCH_VERSIONS: VersionRange = VersionRange { min: KNOWN, max: KNOWN + 1 };
/// The numbers between the strings in front and the topics: session epoch, times, sizes and counts.
const NUMBERS: usize = 6 * size_of::<i32>();
/// The length of a frame, and where in it the version of its API is.
const LENGTH: usize = 4;
const VERSION_AT: usize = LENGTH + 2;

/// Appends the frame of the request.
///
/// # Errors
/// If it cannot be encoded.
pub(super) fn write_share_fetch(
    out: &mut Vec<u8>,
    header: &Header<'_>,
    fetch: &ShareFetch,
) -> Result<(), Unwritable> {
    let start = out.len();
    write_other(out, &Header { version: KNOWN, ..*header }, &fetch.request)?;
    if header.version > KNOWN {
        let at = start + LENGTH + header_length(header) + before_mode(&fetch.request);
        let is_renewal = 0;
        out.splice(at..at, [fetch.acquire as u8, is_renewal]);
        let length = (out.len() - start - LENGTH) as u32;
        out[start..start + LENGTH].copy_from_slice(&length.to_be_bytes());
        let version = header.version.to_be_bytes();
        out[start + VERSION_AT..start + VERSION_AT + 2].copy_from_slice(&version);
    }
    Ok(())
}

/// # Errors
/// If it is not an answer to the request.
pub(super) fn read_share_fetch(
    version: i16,
    frame: &[u8],
) -> Result<ShareFetchResponse, Malformed> {
    read_other::<ShareFetchRequest>(version.min(KNOWN), frame)
}

/// API key, version, correlation id, client id, no tags.
fn header_length(header: &Header<'_>) -> usize {
    2 + 2 + 4 + 2 + header.client_id.len() + 1
}

/// The length of what precedes the fields of version 2.
fn before_mode(request: &ShareFetchRequest) -> usize {
    let group = request.group_id.as_ref().map_or(0, |group| group.len());
    let member = request.member_id.as_ref().map_or(0, |member| member.len());
    compact(group) + compact(member) + NUMBERS
}

/// The length of a string of this number of bytes: one more than it precedes them, in seven bits a
/// byte.
fn compact(bytes: usize) -> usize {
    let bits = (bytes + 1).ilog2() as usize + 1;
    bits.div_ceil(7) + bytes
}
