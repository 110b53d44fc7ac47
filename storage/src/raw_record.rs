//! A record as compaction reads and writes it: its bytes, and the parts that decide on it.

use muster_codec::record_batch::BatchHeader;
use muster_codec::wire::{
    DecodeError, Reader, Result, put_i8, put_varint, put_varlong, varlong_len,
};

/// The parts of a record that compaction needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawRecord<'a> {
    /// The whole record, with its length.
    pub(crate) bytes: &'a [u8],
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) is_tombstone: bool,
    /// The bytes before and after the timestamp.
    pub(crate) attributes: i8,
    pub(crate) rest: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Its offset in the batch with this header.
    pub(crate) fn offset(&self, header: &BatchHeader) -> i64 {
        header.base_offset.wrapping_add(i64::from(self.offset_delta))
    }

    /// The records in `bytes`, up to the first that cannot be read.
    pub(crate) fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let record = Self::read(bytes).ok()?;
            bytes = &bytes[record.bytes.len()..];
            Some(record)
        })
    }

    /// The record at the front of `bytes`.
    ///
    /// # Errors
    /// Bytes that are not a record.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let len = length(&mut reader)?.ok_or(DecodeError::UnexpectedEnd)?;
        let mut body = Reader::new(reader.take(len)?);
        let attributes = body.i8()?;
        let timestamp_delta = body.varlong()?;
        let rest = body.rest();
        let offset_delta = body.varint()?;
        let key = length(&mut body)?.map(|len| body.take(len)).transpose()?;
        let is_tombstone = body.varint()? < 0;
        let bytes = &bytes[..bytes.len() - reader.remaining()];
        Ok(Self { bytes, timestamp_delta, offset_delta, key, is_tombstone, attributes, rest })
    }
}

/// Rewrites the records in `records` with another base timestamp.
///
/// # Errors
/// Bytes that are not records.
pub(crate) fn move_times(records: &[u8], old: i64, new: i64, out: &mut Vec<u8>) -> Result<()> {
    let mut rest = records;
    while !rest.is_empty() {
        let record = RawRecord::read(rest)?;
        let delta = old.wrapping_add(record.timestamp_delta).wrapping_sub(new);
        put_varint(out, (1 + varlong_len(delta) + record.rest.len()) as i32);
        put_i8(out, record.attributes);
        put_varlong(out, delta);
        out.extend_from_slice(record.rest);
        rest = &rest[record.bytes.len()..];
    }
    Ok(())
}

/// A length as a varint; None if it is negative.
fn length(reader: &mut Reader<'_>) -> Result<Option<usize>> {
    Ok(usize::try_from(reader.varint()?).ok())
}
