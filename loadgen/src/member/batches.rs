//! The batches of records in an answer, with what readers and share members need of them.

use bytes::Bytes;

/// The bytes of a batch before its records; the length field does not count the first 12.
const HEADER: usize = 61;
const BEFORE_LENGTH: usize = 12;
const MAGIC: u8 = 2;
const COMPRESSION: i16 = 0b111;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
/// The key of a control record that ends a transaction by aborting it: version and type.
const ABORT: [u8; 4] = [0, 0, 0, 0];

pub(super) struct Batch {
    pub(super) base: i64,
    pub(super) last: i64,
    attributes: i16,
    pub(super) producer: i64,
    pub(super) count: u32,
    pub(super) records: Bytes,
}

impl Batch {
    /// Takes the next batch. The last one of an answer may be cut off: then there is none.
    pub(super) fn next(rest: &mut Bytes) -> Result<Option<Self>, &'static str> {
        let Some(header) = rest.first_chunk::<HEADER>() else { return Ok(None) };
        let length = usize::try_from(i32_at(header, 8)).map_err(|_| "a batch without a length")?;
        let length = length + BEFORE_LENGTH;
        if header[16] != MAGIC || length < HEADER {
            return Err("a batch of an unknown format");
        }
        if rest.len() < length {
            return Ok(None);
        }
        let base = i64_at(header, 0);
        let attributes = i16::from_be_bytes([header[21], header[22]]);
        if attributes & COMPRESSION != 0 {
            return Err("a compressed batch, which is not read here (compression.type)");
        }
        let batch = Self {
            base,
            last: base.saturating_add(i32_at(header, 23).max(0).into()),
            attributes,
            producer: i64_at(header, 43),
            count: u32::try_from(i32_at(header, 57)).unwrap_or(0),
            records: rest.slice(HEADER..length),
        };
        *rest = rest.slice(length..);
        Ok(Some(batch))
    }

    pub(super) fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    pub(super) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub(super) fn ends_by_abort(&self) -> bool {
        let mut records = &self.records[..];
        self.is_control() && record(&mut records).is_some_and(|(_, key)| key == ABORT)
    }
}

fn i32_at(header: &[u8; HEADER], at: usize) -> i32 {
    header[at..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes))
}

fn i64_at(header: &[u8; HEADER], at: usize) -> i64 {
    header[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Takes a record: its offset after the first one's, and its key, which is empty if it has none.
pub(super) fn record<'a>(records: &mut &'a [u8]) -> Option<(i64, &'a [u8])> {
    let length = usize::try_from(varint(records)?).ok()?;
    let (mut body, rest) = records.split_at_checked(length)?;
    *records = rest;
    body = body.get(1..)?;
    varint(&mut body)?;
    let delta = varint(&mut body)?;
    let key = usize::try_from(varint(&mut body)?).unwrap_or(0);
    Some((delta, body.get(..key)?))
}

/// A number of variable length, zigzag-encoded.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}
