//! Finds TLS records in received bytes, and checks whether the bytes are records at all.

use crate::limits::RECORD_BYTES_MAX;

/// The size of type, version and length.
const HEADER_BYTES: usize = 5;

/// The record type of a client's first record.
const HANDSHAKE: u8 = 22;

/// The valid record types: ChangeCipherSpec, alert, handshake, application data.
const TYPES: std::ops::RangeInclusive<u8> = 20..=23;

/// The bytes are not a TLS record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRecord;

/// The length of the record at the start of the bytes, header included. None if the header is
/// incomplete.
pub(crate) fn record_length(bytes: &[u8]) -> Result<Option<usize>, NoRecord> {
    let Some(header) = bytes.get(..HEADER_BYTES) else { return Ok(None) };
    let length = HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]]));
    let is_record = TYPES.contains(&header[0]) && header[1] == 3 && length <= RECORD_BYTES_MAX;
    if is_record { Ok(Some(length)) } else { Err(NoRecord) }
}

/// Whether these bytes can be the beginning of a connection with TLS.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|it| *it == HANDSHAKE) && bytes.get(1).is_none_or(|it| *it == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_known_with_the_header() {
        assert_eq!(record_length(&[22, 3, 1, 1]), Ok(None));
        assert_eq!(record_length(&[22, 3, 1, 1, 2]), Ok(Some(5 + 258)));
        assert_eq!(record_length(&[23, 3, 3, 0x48, 0]), Ok(Some(RECORD_BYTES_MAX)));
        for other in [[23, 3, 3, 0x48, 1], [24, 3, 3, 0, 1], [22, 2, 3, 0, 1], *b"GET /"] {
            assert_eq!(record_length(&other), Err(NoRecord), "{other:?}");
        }
    }

    #[test]
    fn a_connection_begins_with_a_handshake() {
        for bytes in [&[][..], &[22], &[22, 3], &[22, 3, 1]] {
            assert!(may_begin(bytes));
        }
        for bytes in [&b"\0\0\0\x10"[..], b"GET", &[23, 3, 3], &[22, 2]] {
            assert!(!may_begin(bytes), "{bytes:?}");
        }
    }
}
