//! Control batches: the markers that end a transaction in a partition (`EndTransactionMarker`,
//! `ControlRecordType`).

use super::header::{CONTROL_BIT, TRANSACTIONAL_BIT};
use super::{Batch, BatchHeader, NO_SEQUENCE, Record};
use crate::limits::RECORD_BATCH_HEADER_BYTES;
use crate::wire::{DecodeError, Reader, Result};

/// How a transaction ended. The discriminant is the type of Kafka's control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i16)]
pub enum TransactionOutcome {
    Abort = 0,
    Commit = 1,
}

impl TransactionOutcome {
    /// The outcome that the key of a control record names; None for a control record of another
    /// type.
    ///
    /// # Errors
    /// The key is too short.
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

/// The size of a marker's record. Its bytes are: length, attributes, timestamp delta, offset delta;
/// the key (its length and two numbers); the value (its length and two numbers); the number of
/// headers.
const RECORD_BYTES: usize = 17;

/// The size of a batch with one marker.
pub const MARKER_BATCH_BYTES: usize = RECORD_BATCH_HEADER_BYTES + RECORD_BYTES;

impl EndTxnMarker {
    /// Encodes a batch whose only record is this marker, for the given producer. `timestamp` is in
    /// ms since the epoch. The log later sets the base offset and the leader epoch, which are 0
    /// here.
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
        // Varints are zigzag: 32 means 16, 8 means 4, 12 means 6.
        [32, 0, 0, 0, 8, 0, 0, type_high, type_low, 12, 0, 0, a, b, c, d, 0]
    }

    /// Reads the marker of a control batch. None if its control record is of another type, or was
    /// removed by compaction.
    ///
    /// # Errors
    /// The batch is compressed, or its record cannot be read.
    pub fn of_batch(batch: &Batch<'_>) -> Result<Option<Self>> {
        match batch.records()?.next() {
            Some(record) => Self::of_record(&record?),
            None => Ok(None),
        }
    }

    /// Reads the marker of a control record; None if the record is of another type.
    ///
    /// # Errors
    /// The key or the value cannot be read.
    pub fn of_record(record: &Record<'_>) -> Result<Option<Self>> {
        let key = record.key.ok_or(DecodeError::UnexpectedNull)?;
        let Some(outcome) = TransactionOutcome::of_key(key)? else { return Ok(None) };
        let mut value = Reader::new(record.value.ok_or(DecodeError::UnexpectedNull)?);
        let _version = value.i16()?;
        Ok(Some(Self { outcome, coordinator_epoch: value.i32()? }))
    }
}
