//! Kafka's records of `__transaction_state`: one for each transactional id.

use super::{KEY, Schema};
use crate::declare::message;
use crate::field::Field;
use crate::types::Str;
use crate::wire::{Reader, Result};

/// The topic of the transaction coordinator's records.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

message! {
    /// Type 0.
    pub struct TransactionLogKey<'a> {
        transactional_id: Str<'a>, 0..;
    }

    /// The whole state of a transactional id. Versions 0 and 1; version 1 is written.
    pub struct TransactionLogValue<'a> {
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        /// `i32::MAX`: no timeout (two-phase commit).
        transaction_timeout_ms: i32, 0..;
        transaction_status: i8, 0..;
        /// None if, and only if, the state is Empty.
        transaction_partitions: Option<Vec<TransactionPartitions<'a>>>, 0..;
        transaction_last_update_timestamp_ms: i64, 0..;
        /// -1 in the state Empty.
        transaction_start_timestamp_ms: i64, 0..;
        /// The producer id in the state before this record.
        previous_producer_id: i64 = -1, 1.., tag 0;
        /// The producer id that the next transaction will use, if the epochs of the current
        /// producer id are used up; otherwise -1.
        next_producer_id: i64 = -1, 1.., tag 1;
        /// 2 if the producer epoch increases with each transaction (KIP-890).
        client_transaction_version: i16, 1.., tag 2;
        /// Reserved by Kafka (KIP-939).
        next_producer_epoch: i16 = -1, 1.., tag 3;
        /// muster's own field; Kafka skips its tag.
        kept_commits: Vec<KeptCommit>, 1.., tag 1000;
    }

    /// An earlier transaction that was committed. Partitions that were offline may still lack its
    /// marker.
    pub struct KeptCommit {
        producer_id: i64, 1..;
        producer_epoch: i16, 1..;
        transaction_version: i8, 1..;
    }

    pub struct TransactionPartitions<'a> {
        topic: Str<'a>, 0..;
        partition_ids: Vec<i32>, 0..;
    }
}

const TRANSACTION: Schema = Schema { record_type: 0, versions: 0..=1, flexible_from: 1 };

/// The version in which values are written, as with `transaction.version` 1 and later.
const WRITTEN: i16 = 1;

/// The record of a transactional id. It is a tombstone if its value is None: the id has expired.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TransactionRecord<'a> {
    pub key: TransactionLogKey<'a>,
    pub value: Option<TransactionLogValue<'a>>,
}

impl<'a> TransactionRecord<'a> {
    /// Reads a record. None if the type of its key or the version of its value is unknown; Kafka
    /// skips such records.
    ///
    /// # Errors
    /// The key or the value cannot be read.
    pub fn read(key: &'a [u8], value: Option<&'a [u8]>) -> Result<Option<Self>> {
        let mut reader = Reader::new(key);
        if reader.i16()? != TRANSACTION.record_type || !is_known(value)? {
            return Ok(None);
        }
        let key = Field::read(&mut reader, KEY)?;
        Ok(Some(Self { key, value: TRANSACTION.read_value(value)? }))
    }

    /// Appends the key.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        TRANSACTION.write_key(&self.key, out);
    }

    /// Appends the value and returns true. For a tombstone, appends nothing and returns false.
    pub fn write_value(&self, out: &mut Vec<u8>) -> bool {
        if let Some(value) = &self.value {
            TRANSACTION.write_value(value, WRITTEN, out);
        }
        self.value.is_some()
    }
}

fn is_known(value: Option<&[u8]>) -> Result<bool> {
    let Some(value) = value else { return Ok(true) };
    Ok(TRANSACTION.versions.contains(&Reader::new(value).i16()?))
}
