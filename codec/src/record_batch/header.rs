//! The 61-byte header of a batch, and the checks on a batch as a whole.

use super::{MAGIC, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP};
use crate::limits::RECORD_BATCH_HEADER_BYTES;
use crate::wire::{DecodeError, Reader, Result};

const LENGTH_AT: usize = 8;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
/// The byte position of the attributes. The checksum covers all bytes from here on.
pub(super) const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;

/// The base sequence of all batches that Kafka's coordinators write, inside and outside of
/// transactions. Only the markers of transactions have no sequence number.
pub(super) const COORDINATOR_SEQUENCE: i32 = 0;

/// Bytes that the length field does not count: the base offset and the length field.
const LENGTH_OVERHEAD: usize = 12;

const COMPRESSION_MASK: i16 = 0x07;
const LOG_APPEND_TIME_BIT: i16 = 0x08;
pub(super) const TRANSACTIONAL_BIT: i16 = 0x10;
pub(super) const CONTROL_BIT: i16 = 0x20;
/// If set, the base timestamp is the batch's delete horizon (KIP-534).
const DELETE_HORIZON_BIT: i16 = 0x40;

/// How the records of a batch are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    /// The type with Kafka's number; None for an undefined number.
    pub fn of(number: i16) -> Option<Self> {
        let all = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];
        all.get(usize::try_from(number).ok()?).copied()
    }
}

/// Decides which side sets the timestamps of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer sets the timestamp of each record.
    CreateTime,
    /// The broker sets it: each record has the batch's max timestamp.
    LogAppendTime,
}

/// All fields of the header except the magic, which is always 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: i64,
    /// The number of bytes after the length field. [`Self::read`] refuses a length that does not
    /// cover the rest of the header; [`Self::write`] computes the length.
    pub batch_length: i32,
    pub partition_leader_epoch: i32,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    /// In ms since the epoch, as is `max_timestamp`.
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub records_count: i32,
}

impl BatchHeader {
    /// The header of a batch that has one offset and no record.
    pub fn empty(offset: i64) -> Self {
        Self {
            base_offset: offset,
            batch_length: 0,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            records_count: 0,
        }
    }

    /// Reads the header at the start of `bytes`. The records may be missing.
    ///
    /// # Errors
    /// `bytes` has fewer than 61 bytes, the magic is not 2, or the length is shorter than the
    /// header.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let header = bytes.first_chunk::<RECORD_BATCH_HEADER_BYTES>();
        let mut reader = Reader::new(header.ok_or(DecodeError::UnexpectedEnd)?);
        let base_offset = reader.i64()?;
        let batch_length = reader.i32()?;
        let partition_leader_epoch = reader.i32()?;
        if reader.i8()? != MAGIC {
            return Err(DecodeError::InvalidBatch("the magic is not 2"));
        }
        if batch_length < (RECORD_BATCH_HEADER_BYTES - LENGTH_OVERHEAD) as i32 {
            return Err(DecodeError::InvalidBatch("the length is shorter than a header"));
        }
        Ok(Self {
            base_offset,
            batch_length,
            partition_leader_epoch,
            crc: reader.array().map(u32::from_be_bytes)?,
            attributes: reader.i16()?,
            last_offset_delta: reader.i32()?,
            base_timestamp: reader.i64()?,
            max_timestamp: reader.i64()?,
            producer_id: reader.i64()?,
            producer_epoch: reader.i16()?,
            base_sequence: reader.i32()?,
            records_count: reader.i32()?,
        })
    }

    /// Checks the rules for a producer's batch (`LogValidator.validateBatch`): at least one record,
    /// as many records as offsets, a known compression type, no control batch, and a sequence
    /// number if there is a producer id.
    ///
    /// # Errors
    /// `InvalidBatch`; the producer gets INVALID_RECORD.
    pub fn validate_from_client(&self) -> Result<()> {
        let broken = if self.last_offset_delta < 0 {
            "the last offset is before the first"
        } else if self.records_count <= 0 {
            "no records"
        } else if i64::from(self.records_count) != i64::from(self.last_offset_delta) + 1 {
            "the count of records is not that of the offsets"
        } else if self.compression().is_none() {
            "unknown compression"
        } else if self.is_control() {
            "a control batch of a client"
        } else if self.has_producer_id() && self.base_sequence < 0 {
            "a producer id without a sequence number"
        } else {
            return Ok(());
        };
        Err(DecodeError::InvalidBatch(broken))
    }

    /// The length of the whole batch in bytes.
    pub fn total_len(&self) -> usize {
        self.batch_length.max(0) as usize + LENGTH_OVERHEAD
    }

    /// The last offset of the batch. A client may send any numbers, so the addition wraps if it
    /// overflows.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta))
    }

    /// The offset after the batch.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// The sequence number of the last record; -1 if the batch has no sequence number. Wraps to 0
    /// after `i32::MAX` (`DefaultRecordBatch.incrementSequence`).
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        (self.base_sequence.wrapping_add(self.last_offset_delta)) & i32::MAX
    }

    /// The compression type; None if Kafka does not define it.
    pub fn compression(&self) -> Option<Compression> {
        Compression::of(self.attributes & COMPRESSION_MASK)
    }

    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Makes the batch a part of a transaction of this producer.
    pub fn set_transaction(&mut self, producer_id: i64, producer_epoch: i16) {
        self.attributes |= TRANSACTIONAL_BIT;
        (self.producer_id, self.producer_epoch) = (producer_id, producer_epoch);
    }

    /// Removes the batch from its transaction; it is then like a batch that a coordinator writes
    /// outside of transactions.
    pub fn clear_transaction(&mut self) {
        self.attributes &= !(TRANSACTIONAL_BIT | CONTROL_BIT);
        (self.producer_id, self.producer_epoch) = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH);
        self.base_sequence = COORDINATOR_SEQUENCE;
    }

    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// The time from which compaction may drop the tombstones or the marker of the batch, in ms
    /// since the epoch; None until a compaction sets it (KIP-534,
    /// `DefaultRecordBatch.deleteHorizonMs`).
    pub fn delete_horizon(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON_BIT != 0).then_some(self.base_timestamp)
    }

    /// Sets the delete horizon. It replaces the base timestamp, to which the timestamps of the
    /// records are relative. The caller therefore has to rewrite the records.
    pub fn set_delete_horizon(&mut self, horizon: i64) {
        self.attributes |= DELETE_HORIZON_BIT;
        self.base_timestamp = horizon;
    }

    /// Marks the batch as empty; it keeps its offsets (`DefaultRecordBatch.writeEmptyHeader`).
    pub fn clear_records(&mut self) {
        self.attributes &= !DELETE_HORIZON_BIT & !COMPRESSION_MASK;
        self.base_timestamp = NO_TIMESTAMP;
        self.records_count = 0;
    }

    /// Writes the header over the first 61 bytes of `batch`; the records follow these bytes. The
    /// length and the checksum are computed from `batch`, not taken from `self`.
    ///
    /// # Panics
    /// `batch` is shorter than a header.
    pub fn write(&self, batch: &mut [u8]) {
        put(batch, 0, self.base_offset.to_be_bytes());
        put(batch, LENGTH_AT, ((batch.len() - LENGTH_OVERHEAD) as i32).to_be_bytes());
        set_partition_leader_epoch(batch, self.partition_leader_epoch);
        put(batch, MAGIC_AT, MAGIC.to_be_bytes());
        put(batch, ATTRIBUTES_AT, self.attributes.to_be_bytes());
        put(batch, 23, self.last_offset_delta.to_be_bytes());
        put(batch, 27, self.base_timestamp.to_be_bytes());
        put(batch, MAX_TIMESTAMP_AT, self.max_timestamp.to_be_bytes());
        put(batch, 43, self.producer_id.to_be_bytes());
        put(batch, 51, self.producer_epoch.to_be_bytes());
        put(batch, 53, self.base_sequence.to_be_bytes());
        put(batch, 57, self.records_count.to_be_bytes());
        set_checksum(batch);
    }
}

/// Checks that the batch at the start of `bytes` is complete and matches its checksum
/// (`DefaultRecordBatch.ensureValid`). Returns its header.
///
/// # Errors
/// The bytes are not a valid batch; the producer gets CORRUPT_MESSAGE.
pub fn validate(bytes: &[u8]) -> Result<BatchHeader> {
    let header = BatchHeader::read(bytes)?;
    let batch = bytes.get(..header.total_len()).ok_or(DecodeError::UnexpectedEnd)?;
    if checksum(batch) != header.crc {
        return Err(DecodeError::InvalidBatch("the checksum does not match"));
    }
    Ok(header)
}

/// Sets the base offset of a batch. The checksum does not cover it.
///
/// # Panics
/// `batch` is shorter than a header: it was not validated.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) {
    put(batch, 0, base_offset.to_be_bytes());
}

/// Sets the base offset, the length and the magic. The checksum covers none of these fields, but a
/// reader needs them to find the next batch.
///
/// # Panics
/// `batch` is shorter than a header.
pub fn restore_framing(batch: &mut [u8], base_offset: i64) {
    set_base_offset(batch, base_offset);
    put(batch, LENGTH_AT, ((batch.len() - LENGTH_OVERHEAD) as i32).to_be_bytes());
    put(batch, MAGIC_AT, MAGIC.to_be_bytes());
}

/// Sets the partition leader epoch of a batch. The checksum does not cover it.
///
/// # Panics
/// `batch` is shorter than a header: it was not validated.
pub fn set_partition_leader_epoch(batch: &mut [u8], epoch: i32) {
    put(batch, LEADER_EPOCH_AT, epoch.to_be_bytes());
}

/// Sets the timestamp type and the max timestamp of a batch, and updates the checksum if this
/// changes the batch (`DefaultRecordBatch.setMaxTimestamp`). `batch` is exactly one batch.
///
/// # Panics
/// `batch` is shorter than a header: it was not validated.
pub fn set_max_timestamp(batch: &mut [u8], by: TimestampType, max_timestamp: i64) {
    assert!(batch.len() >= RECORD_BATCH_HEADER_BYTES, "not a validated batch");
    let before = [batch[ATTRIBUTES_AT], batch[ATTRIBUTES_AT + 1]];
    let attributes = match by {
        TimestampType::CreateTime => i16::from_be_bytes(before) & !LOG_APPEND_TIME_BIT,
        TimestampType::LogAppendTime => i16::from_be_bytes(before) | LOG_APPEND_TIME_BIT,
    };
    let timestamp = &batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8];
    if attributes.to_be_bytes() == before && timestamp == max_timestamp.to_be_bytes() {
        return;
    }
    put(batch, ATTRIBUTES_AT, attributes.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, max_timestamp.to_be_bytes());
    set_checksum(batch);
}

/// Computes the checksum of a batch and writes it into the header.
fn set_checksum(batch: &mut [u8]) {
    let crc = checksum(batch);
    put(batch, CRC_AT, crc.to_be_bytes());
}

fn checksum(batch: &[u8]) -> u32 {
    batch.get(ATTRIBUTES_AT..).map_or(0, crc32c::crc32c)
}

fn put<const N: usize>(batch: &mut [u8], at: usize, value: [u8; N]) {
    assert!(batch.len() >= RECORD_BATCH_HEADER_BYTES, "not a validated batch");
    batch[at..at + N].copy_from_slice(&value);
}
