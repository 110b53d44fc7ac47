//! Control batches: the markers that end a transaction in a partition (`EndTransactionMarker`,
//! `ControlRecordType`).

use super::header::{CONTROL_BIT, TRANSACTIONAL_BIT};
use super::{Batch, BatchHeader, NO_SEQUENCE, Record};
use crate::limits::RECORD_BATCH_HEADER_BYTES;
use crate::wire::{DecodeError, Reader, Result};

/// The end of a transaction; the number is the type of Kafka's control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i16)]
pub enum TransactionOutcome {
    Abort = 0,
    Commit = 1,
}

impl TransactionOutcome {
    /// The outcome in the key of a control record; None if it is of another type.
    ///
    /// # Errors
    /// A key that is too short.
    pub fn of_key(key: &[u8]) -> Result<Option<Self>> {
        let mut key = Reader::new(key);
        let _version = key.i16()?;
        Ok(match key.i16()? {
            0 => Some(Self::Abort),
            1 => Some(Self::Commit),
            _ => None,
        })
    }
}

/// A marker: the only record of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTxnMarker {
    pub outcome: TransactionOutcome,
    pub coordinator_epoch: i32,
}

/// Length, attributes, timestamp and offset; a key of two numbers and a value of two; no headers.
const RECORD_BYTES: usize = 17;

/// The bytes of a batch with a marker.
pub const MARKER_BATCH_BYTES: usize = RECORD_BATCH_HEADER_BYTES + RECORD_BYTES;

impl EndTxnMarker {
    /// The batch of a marker of this producer; `timestamp` is in ms since the epoch. Its base
    /// offset and leader epoch are 0 until the log sets them.
    pub fn batch(
        self,
        producer_id: i64,
        producer_epoch: i16,
        timestamp: i64,
    ) -> [u8; MARKER_BATCH_BYTES] {
        let mut batch = [0; MARKER_BATCH_BYTES];
        batch[RECORD_BATCH_HEADER_BYTES..].copy_from_slice(&self.record());
        let header = BatchHeader {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: TRANSACTIONAL_BIT | CONTROL_BIT,
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id,
            producer_epoch,
            base_sequence: NO_SEQUENCE,
            records_count: 1,
        };
        header.write(&mut batch);
        batch
    }

    fn record(self) -> [u8; RECORD_BYTES] {
        let [type_high, type_low] = (self.outcome as i16).to_be_bytes();
        let [a, b, c, d] = self.coordinator_epoch.to_be_bytes();
        // Varints are zigzag: 32 is a length of 16, 8 of 4, 12 of 6.
        [32, 0, 0, 0, 8, 0, 0, type_high, type_low, 12, 0, 0, a, b, c, d, 0]
    }

    /// The marker of a control batch; None if the batch has control records of another type, or its
    /// record was dropped by compaction.
    ///
    /// # Errors
    /// A batch that is compressed, or whose record cannot be read.
    pub fn of_batch(batch: &Batch<'_>) -> Result<Option<Self>> {
        match batch.records()?.next() {
            Some(record) => Self::of_record(&record?),
            None => Ok(None),
        }
    }

    /// The marker of a control record; None if it is of another type.
    ///
    /// # Errors
    /// A key or value that cannot be read.
    pub fn of_record(record: &Record<'_>) -> Result<Option<Self>> {
        let key = record.key.ok_or(DecodeError::UnexpectedNull)?;
        let Some(outcome) = TransactionOutcome::of_key(key)? else { return Ok(None) };
        let mut value = Reader::new(record.value.ok_or(DecodeError::UnexpectedNull)?);
        let _version = value.i16()?;
        Ok(Some(Self { outcome, coordinator_epoch: value.i32()? }))
    }
}
