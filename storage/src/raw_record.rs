//! Records in the form that compaction needs: raw bytes, and the fields that decide whether a
//! record is kept.

use muster_codec::record_batch::BatchHeader;
use muster_codec::wire::{
    DecodeError, Reader, Result, put_i8, put_varint, put_varlong, varlong_len,
};

/// A record as compaction sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawRecord<'a> {
    /// The whole record, length field included.
    pub(crate) bytes: &'a [u8],
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) is_tombstone: bool,
    /// The attributes, which precede the timestamp. `rest` has the bytes after the timestamp.
    pub(crate) attributes: i8,
    pub(crate) rest: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// The record's offset; `header` is the header of its batch.
    pub(crate) fn offset(&self, header: &BatchHeader) -> i64 {
        header.base_offset.wrapping_add(i64::from(self.offset_delta))
    }

    /// Iterates over the records in `bytes`, up to the first unreadable one.
    pub(crate) fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let record = Self::read(bytes).ok()?;
            bytes = &bytes[record.bytes.len()..];
            Some(record)
        })
    }

    /// Reads the record at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a record.
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

/// Rewrites the records for another base timestamp.
///
/// # Errors
/// The bytes are not records.
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

/// Reads a length as a varint. None if it is negative.
fn length(reader: &mut Reader<'_>) -> Result<Option<usize>> {
    Ok(usize::try_from(reader.varint()?).ok())
}
