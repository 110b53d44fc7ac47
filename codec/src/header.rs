//! Request headers (versions 1 and 2) and response headers (versions 0 and 1).
//!
//! Version 0 of the request header is not implemented: only ControlledShutdown v0 used it, and
//! Kafka has removed that API.

use crate::api::{ApiKey, Response};
use crate::field::{Nullable, Version, put_length, read_tagged};
use crate::limits::RESPONSE_BYTES_MAX;
use crate::types::Str;
use crate::wire::{DecodeError, Reader, Result, put_i16, put_i32};

/// The header of a request. The response repeats its correlation id.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestHeader<'a> {
    pub api_key: i16,
    pub api_version: i16,
    pub correlation_id: i32,
    pub client_id: Option<Str<'a>>,
}

impl<'a> RequestHeader<'a> {
    /// Reads the header. If muster does not serve the API or the version, only the first three
    /// fields are read, because the layout of the rest is unknown.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let api_key = reader.i16()?;
        let api_version = reader.i16()?;
        let correlation_id = reader.i32()?;
        let mut header = Self { api_key, api_version, correlation_id, client_id: None };
        if let Some(api) = header.api().filter(|api| api.versions().contains(&api_version)) {
            header.client_id = read_client_id(reader)?;
            if api.flexible_request_header(api_version) {
                read_tagged(reader, |_, _| Ok(()))?;
            }
        }
        Ok(header)
    }

    /// The API; None if muster does not serve it.
    pub fn api(&self) -> Option<ApiKey> {
        ApiKey::from_key(self.api_key)
    }

    /// Appends the header in the header version that belongs to the API version.
    pub fn write(&self, out: &mut Vec<u8>) {
        put_i16(out, self.api_key);
        put_i16(out, self.api_version);
        put_i32(out, self.correlation_id);
        Str::write_nullable(self.client_id.as_ref(), out, CLIENT_ID_VERSION);
        if self.api().is_some_and(|api| api.flexible_request_header(self.api_version)) {
            out.push(0);
        }
    }
}

/// The encoding of the client id. It has a 16-bit length in header version 2, too. A server can
/// therefore read the client id before it knows whether it serves the version of the request.
const CLIENT_ID_VERSION: Version = Version { number: 2, flexible: false };

fn read_client_id<'a>(reader: &mut Reader<'a>) -> Result<Option<Str<'a>>> {
    Str::read_nullable(reader, CLIENT_ID_VERSION)
}

/// Reads the header of a response and returns its correlation id.
///
/// # Errors
/// `reader` does not begin with a whole header.
pub fn read_response_header(api: ApiKey, version: i16, reader: &mut Reader<'_>) -> Result<i32> {
    let correlation_id = reader.i32()?;
    if api.flexible_response_header(version) {
        read_tagged(reader, |_, _| Ok(()))?;
    }
    Ok(correlation_id)
}

/// Appends a whole response frame: length, header, body. The length includes the records that the
/// sender inserts later ([`Gap`](crate::types::Gap)).
///
/// # Errors
/// `UnsupportedVersion` if muster does not serve this version of the API; `ResponseTooLong` above
/// [`RESPONSE_BYTES_MAX`]. Nothing is appended then.
pub fn write_response(
    correlation_id: i32,
    version: i16,
    response: &Response<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let api = response.api_key();
    api.version(version)?;
    let start = out.len();
    put_i32(out, 0);
    put_i32(out, correlation_id);
    if api.flexible_response_header(version) {
        out.push(0);
    }
    response.write(version, out)?;
    finish_frame(start, RESPONSE_BYTES_MAX, bytes_elsewhere(response), out)
}

/// The list of a response, encoded before the rest of the response.
#[derive(Debug, Clone)]
pub struct EncodedList {
    /// The number of elements.
    pub count: usize,
    pub elements: Vec<u8>,
    /// The encoded size of the response's fields after the list, without tagged fields.
    pub bytes_after: usize,
}

/// Like [`write_response`], for a response whose list was encoded beforehand. The list in
/// `response` itself is empty. If `out` is empty, it takes over the memory of the elements.
///
/// # Errors
/// The errors of [`write_response`].
pub fn write_list_response(
    correlation_id: i32,
    version: i16,
    response: &Response<'_>,
    list: EncodedList,
    out: &mut Vec<u8>,
) -> Result<()> {
    let EncodedList { count, mut elements, bytes_after } = list;
    let layout = response.api_key().version(version)?;
    let mut head = Vec::new();
    write_response(correlation_id, version, response, &mut head)?;
    let (no_count, tags) = if layout.flexible { (1, 1) } else { (4, 0) };
    let tail = head.split_off(head.len() - bytes_after - tags);
    head.truncate(head.len() - no_count);
    put_length(&mut head, layout, Some(count));
    let start = out.len();
    if out.is_empty() {
        elements.splice(0..0, head);
        *out = elements;
    } else {
        out.append(&mut head);
        out.append(&mut elements);
    }
    out.extend_from_slice(&tail);
    finish_frame(start, RESPONSE_BYTES_MAX, 0, out)
}

/// Fills in the length of the frame that begins at `start`. The length includes `elsewhere` bytes
/// that are not in `out`.
fn finish_frame(start: usize, bytes_max: usize, elsewhere: usize, out: &mut Vec<u8>) -> Result<()> {
    let bytes = out.len() - start;
    if bytes > bytes_max {
        out.truncate(start);
        return Err(DecodeError::ResponseTooLong(bytes));
    }
    out[start..start + 4].copy_from_slice(&((bytes - 4 + elsewhere) as i32).to_be_bytes());
    Ok(())
}

fn bytes_elsewhere(response: &Response<'_>) -> usize {
    let Response::Fetch(body) = response else { return 0 };
    body.gaps().map(|gap| gap.len as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::messages::{
        ApiVersionsResponse, HeartbeatResponse, MetadataResponse, MetadataResponseTopic,
    };

    #[test]
    fn a_header_of_each_version_round_trips() {
        for api_version in [3, 4] {
            let header = RequestHeader {
                api_key: 12,
                api_version,
                correlation_id: 7,
                client_id: Some("c".into()),
            };
            let mut out = Vec::new();
            header.write(&mut out);
            assert_eq!(out.len(), if api_version == 4 { 12 } else { 11 });
            assert_eq!(RequestHeader::read(&mut Reader::new(&out)), Ok(header));
        }
    }

    #[test]
    fn the_header_of_a_response_is_read_back() {
        for (version, behind) in [(3, 6), (4, 7)] {
            let mut out = Vec::new();
            let response = HeartbeatResponse { error_code: 27, ..Default::default() };
            write_response(9, version, &response.into(), &mut out).unwrap();
            let mut reader = Reader::new(&out[4..]);
            assert_eq!(read_response_header(ApiKey::Heartbeat, version, &mut reader), Ok(9));
            assert_eq!(reader.remaining(), behind);
        }
        // The tag is unknown to this codec; its value has two bytes.
        let mut reader = Reader::new(&[0, 0, 0, 9, 1, 7, 2, 0xff, 0xff, 5]);
        assert_eq!(read_response_header(ApiKey::Heartbeat, 4, &mut reader), Ok(9));
        assert_eq!(reader.rest(), [5]);
        let cut = read_response_header(ApiKey::Heartbeat, 4, &mut Reader::new(&[0, 0, 0, 9]));
        assert_eq!(cut, Err(DecodeError::UnexpectedEnd));
    }

    #[test]
    fn api_versions_is_always_answered_with_header_version_zero() {
        let mut out = Vec::new();
        write_response(1, 3, &ApiVersionsResponse::default().into(), &mut out).unwrap();
        assert_eq!(out[..10], [0, 0, 0, 12, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn a_response_that_is_too_long_is_not_appended() {
        let mut out = vec![7; 100];
        assert_eq!(finish_frame(80, 20, 0, &mut out), Ok(()));
        assert_eq!(out[80..84], [0, 0, 0, 16]);
        assert_eq!(finish_frame(79, 20, 0, &mut out), Err(DecodeError::ResponseTooLong(21)));
        assert_eq!(out, [7; 79]);
    }

    #[test]
    fn elements_that_are_written_apart_make_the_same_frame() {
        let topic = |name: &'static str| MetadataResponseTopic {
            name: Some(name.into()),
            ..Default::default()
        };
        let topics: Vec<_> = ["a", "b", "c"].map(topic).to_vec();
        for version in ApiKey::Metadata.versions() {
            let layout = ApiKey::Metadata.version(version).unwrap();
            let empty = MetadataResponse { cluster_id: Some("c".into()), ..Default::default() };
            let whole = MetadataResponse { topics: topics.clone(), ..empty.clone() };
            let (mut expected, mut found) = (vec![7], vec![7]);
            write_response(5, version, &whole.into(), &mut expected).unwrap();
            let mut elements = Vec::new();
            topics.iter().for_each(|topic| topic.write(&mut elements, layout));
            let bytes_after = match version {
                8..=10 => 4,
                13.. => 2,
                _ => 0,
            };
            let (empty, list) = (empty.into(), EncodedList { count: 3, elements, bytes_after });
            write_list_response(5, version, &empty, list.clone(), &mut found).unwrap();
            assert_eq!(found, expected, "version {version}");
            found.clear();
            write_list_response(5, version, &empty, list, &mut found).unwrap();
            assert_eq!(found, expected[1..], "version {version}");
        }
    }

    #[test]
    fn a_flexible_response_has_tagged_fields_in_its_header() {
        let mut out = Vec::new();
        write_response(1, 4, &HeartbeatResponse::default().into(), &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
