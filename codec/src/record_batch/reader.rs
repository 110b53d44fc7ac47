//! Reads the batches of a buffer, and the records of an uncompressed batch.

use super::{BatchHeader, Compression, TimestampType, validate};
use crate::limits::RECORD_BATCH_HEADER_BYTES;
use crate::wire::{DecodeError, Reader, Result};

/// One complete batch of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    pub header: BatchHeader,
    /// The header and the records.
    pub bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Reads the batch at the start of `bytes`; more bytes may follow. The checksum is not checked.
    ///
    /// # Errors
    /// `bytes` does not start with a valid header, or ends within the batch.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        let header = BatchHeader::read(bytes)?;
        let bytes = bytes.get(..header.total_len()).ok_or(DecodeError::UnexpectedEnd)?;
        Ok(Self { header, bytes })
    }

    /// Compares the batch with its checksum.
    ///
    /// # Errors
    /// The checksum does not match.
    pub fn validate(&self) -> Result<()> {
        validate(self.bytes).map(drop)
    }

    /// The bytes after the header: the records, or their compressed form.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[RECORD_BATCH_HEADER_BYTES..]
    }

    /// The records, in order.
    ///
    /// # Errors
    /// `InvalidBatch` if the batch is compressed.
    pub fn records(&self) -> Result<Records<'a>> {
        if self.header.compression() != Some(Compression::None) {
            return Err(DecodeError::InvalidBatch("the records are compressed"));
        }
        Ok(Records::new(self.payload(), self.header.records_count))
    }

    /// The timestamp of a record, in ms since the epoch.
    pub fn timestamp(&self, record: &Record<'_>) -> i64 {
        match self.header.timestamp_type() {
            TimestampType::CreateTime => {
                self.header.base_timestamp.wrapping_add(record.timestamp_delta)
            }
            TimestampType::LogAppendTime => self.header.max_timestamp,
        }
    }

    /// The offset of a record in its partition.
    pub fn offset(&self, record: &Record<'_>) -> i64 {
        self.header.base_offset.wrapping_add(i64::from(record.offset_delta))
    }
}

/// Iterates over the batches of a buffer, without a check of their checksums. The iterator ends at
/// the end of the buffer or after the first batch that cannot be read. [`Batches::consumed`] then
/// returns the byte position at which it ended.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    consumed: usize,
    failed: bool,
}

impl<'a> Batches<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, consumed: 0, failed: false }
    }

    /// The total length in bytes of the batches returned so far.
    pub fn consumed(&self) -> usize {
        self.consumed
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.consumed == self.bytes.len() {
            return None;
        }
        let batch = Batch::read(&self.bytes[self.consumed..]);
        match &batch {
            Ok(batch) => self.consumed += batch.bytes.len(),
            Err(_) => self.failed = true,
        }
        Some(batch)
    }
}

/// A record. Its headers were checked, but are not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset_delta: i32,
    pub timestamp_delta: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let mut body = Reader::new(read_body(reader)?);
        let _attributes = body.i8()?;
        let timestamp_delta = body.varlong()?;
        let offset_delta = body.varint()?;
        let key = nullable_bytes(&mut body)?;
        let value = nullable_bytes(&mut body)?;
        skip_headers(&mut body)?;
        if body.remaining() > 0 {
            return Err(DecodeError::InvalidBatch("a record longer than its fields"));
        }
        Ok(Self { offset_delta, timestamp_delta, key, value })
    }
}

/// Reads the length of a record and returns the bytes that it counts.
#[inline]
fn read_body<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let length = usize::try_from(reader.varint()?)
        .map_err(|_| DecodeError::InvalidBatch("a record of negative length"))?;
    reader.take(length)
}

/// Iterates over the records of a batch. The batch must have exactly as many records as its header
/// says: fewer records are an error, and so are bytes after the last record. The iterator ends
/// after its first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    reader: Reader<'a>,
    left: i32,
    failed: bool,
}

impl<'a> Records<'a> {
    /// Iterates over the `count` records of an uncompressed payload.
    pub fn new(payload: &'a [u8], count: i32) -> Self {
        Self { reader: Reader::new(payload), left: count, failed: false }
    }

    /// Checks that all records can be read and that their offset deltas are 0, 1, 2 and so on
    /// (`LogValidator.validateMessagesAndAssignOffsets`).
    ///
    /// # Errors
    /// The error of the first invalid record; the producer gets INVALID_RECORD.
    pub fn validate(self) -> Result<()> {
        for (expected, record) in (0..).zip(self) {
            if record?.offset_delta != expected {
                return Err(DecodeError::InvalidBatch("offsets that do not count up"));
            }
        }
        Ok(())
    }

    /// The size of the longest record in bytes, without its length field.
    ///
    /// # Errors
    /// The bytes end before the last record does, or a length is invalid.
    pub fn longest(mut self) -> Result<usize> {
        let mut longest = 0;
        for _ in 0..self.left {
            longest = longest.max(read_body(&mut self.reader)?.len());
        }
        Ok(longest)
    }

    #[inline]
    fn read_next(&mut self) -> Option<Result<Record<'a>>> {
        if self.left > 0 {
            self.left -= 1;
            return Some(Record::read(&mut self.reader));
        }
        (self.reader.remaining() > 0)
            .then_some(Err(DecodeError::InvalidBatch("bytes after the last record")))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = self.read_next();
        self.failed = matches!(record, Some(Err(_)));
        record
    }
}

/// Reads bytes after a varint length; a negative length is null (`DefaultRecord.readFrom`).
#[inline]
fn nullable_bytes<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    match usize::try_from(reader.varint()?) {
        Ok(length) => reader.take(length).map(Some),
        Err(_) => Ok(None),
    }
}

#[inline]
fn skip_headers(reader: &mut Reader<'_>) -> Result<()> {
    let count = reader.varint()?;
    // A header takes at least two bytes. A count above the remaining bytes is refused at once, and
    // a smaller count that is wrong is detected at the end of the record.
    if count < 0 || count as usize > reader.remaining() {
        return Err(DecodeError::InvalidBatch("an impossible count of headers"));
    }
    for _ in 0..count {
        if nullable_bytes(reader)?.is_none() {
            return Err(DecodeError::InvalidBatch("a header without a key"));
        }
        nullable_bytes(reader)?;
    }
    Ok(())
}
