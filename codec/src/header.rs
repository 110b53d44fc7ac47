//! Request headers (versions 1 and 2) and response headers (0 and 1).
//!
//! Version 0 of the request header belonged to ControlledShutdown v0 alone and is gone.

use crate::api::{ApiKey, Response};
use crate::field::{Nullable, Version, read_tagged};
use crate::limits::RESPONSE_BYTES_MAX;
use crate::types::Str;
use crate::wire::{DecodeError, Reader, Result, put_i16, put_i32};

/// Who asks what, in which version, and under which number the answer is expected.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestHeader<'a> {
    pub api_key: i16,
    pub api_version: i16,
    pub correlation_id: i32,
    pub client_id: Option<Str<'a>>,
}

impl<'a> RequestHeader<'a> {
    /// Reads the header. Of an API or version that is not served only the first three fields are
    /// read, for it cannot be known how the rest is laid out.
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

    /// The API, if it is one that is served.
    pub fn api(&self) -> Option<ApiKey> {
        ApiKey::from_key(self.api_key)
    }

    /// Appends the header in the version that the API's version calls for.
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

/// The client id keeps its 16-bit length in header version 2, so that a server can read it before
/// it knows the version.
const CLIENT_ID_VERSION: Version = Version { number: 2, flexible: false };

fn read_client_id<'a>(reader: &mut Reader<'a>) -> Result<Option<Str<'a>>> {
    Str::read_nullable(reader, CLIENT_ID_VERSION)
}

/// Appends a whole response frame: length, header, body. The length counts the records that are
/// elsewhere, too.
///
/// # Errors
/// `UnsupportedVersion` if the API is not served in that version, `ResponseTooLong` past
/// [`RESPONSE_BYTES_MAX`]; nothing is appended then.
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

/// Fills in the length of the frame that begins at `start`, of which `elsewhere` bytes are not in it.
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
    match response {
        Response::Fetch(body) => body.gaps().map(|gap| gap.len as usize).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{ApiVersionsResponse, HeartbeatResponse};

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
    fn a_flexible_response_has_tagged_fields_in_its_header() {
        let mut out = Vec::new();
        write_response(1, 4, &HeartbeatResponse::default().into(), &mut out).unwrap();
        assert_eq!(out, [0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
