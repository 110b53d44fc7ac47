//! Validates producers and readers. An error is one sentence about the first mistake.

use super::checks::{bounded, require, validate_load as validate_any};
use super::file::{Load, Producer};
use super::values::{Amount, Span};

/// The maximum size of a batch's records: the default of `max.message.bytes`, rounded down. The
/// rest is more than enough for the header of the batch.
const BATCH_BYTES: u64 = 1_000_000;
/// The maximum overhead of a record in bytes: lengths, and deltas of time and offset.
const RECORD_BYTES: u64 = 32;

/// Validates a producer. `partitions` is the number of partitions to which it may write.
pub(super) fn validate(table: &Producer, partitions: u64) -> Result<(), String> {
    validate_records(table)?;
    validate_transactions(table, partitions)?;
    validate_backoff(table.backoff, table.backoff_max)?;
    validate_load(Some(table.produce))
}

pub(super) fn validate_backoff(backoff: Span, max: Span) -> Result<(), String> {
    bounded("backoff-max", Some(max))?;
    require(!backoff.0.is_zero() && backoff.0 <= max.0, || {
        format!("backoff = {backoff} is 0 or above backoff-max = {max}")
    })
}

/// Validates the load of a producer. A producer waits for the answers to one transaction before it
/// begins the next.
pub(super) fn validate_load(load: Option<Load>) -> Result<(), String> {
    validate_any("produce", load)?;
    require(load.is_none_or(|load| load.in_flight == 1), || {
        "produce has one transaction in flight: more of them are more producers (count)".into()
    })
}

fn validate_records(table: &Producer) -> Result<(), String> {
    require(table.records > 0, || "a transaction has at least one record (records)".into())?;
    require(table.record_size > 0, || "record-size is at least one byte".into())?;
    let bytes = u64::from(table.records) * (u64::from(table.record_size) + RECORD_BYTES);
    require(bytes <= BATCH_BYTES, || {
        format!(
            "{} records of {} bytes are more than the {BATCH_BYTES} bytes of a batch",
            table.records, table.record_size
        )
    })
}

fn validate_transactions(table: &Producer, partitions: u64) -> Result<(), String> {
    require(table.idempotent || !table.transactional, || {
        "a transactional producer is idempotent, too: idempotent = false needs \
         transactional = false"
            .into()
    })?;
    let of_transactions =
        table.abort.is_some() || table.offsets > 0 || table.transaction_version.is_some();
    require(table.transactional || !of_transactions, || {
        "abort, offsets and transaction-version are for transactional producers".into()
    })?;
    require(matches!(table.transaction_version, None | Some(1 | 2)), || {
        "transaction-version is 1 or 2".into()
    })?;
    require(!matches!(table.abort, Some(Amount::Count(_))), || {
        "abort is a share of the transactions, as in \"5%\"".into()
    })?;
    require(u64::from(table.offsets) <= partitions, || {
        format!("offsets of {} partitions are committed, and there are {partitions}", table.offsets)
    })?;
    let millis = table.transaction_timeout.0.as_millis();
    require((1..=i32::MAX as u128).contains(&millis), || {
        format!("transaction-timeout = {} is 0 or too long", table.transaction_timeout)
    })
}
