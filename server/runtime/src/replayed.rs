//! The records of a batch that was found in a log.

use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, Record};
use muster_faults::Fault;

/// The records of a batch, for [`Machine::replay`](crate::Machine::replay).
///
/// # Errors
/// The batch is compressed.
pub fn replayed<'a>(
    batch: &Batch<'a>,
) -> Result<impl Iterator<Item = Result<Record<'a>, DecodeError>> + use<'a>, DecodeError> {
    Ok(batch.records()?.filter(|record| !is_lost(record)))
}

/// Reads the records of a batch, and passes them to `act` with their offsets. Skips records without
/// a key, and records of a kind that `read` does not know.
///
/// # Errors
/// The batch is compressed, or this version cannot read a record. The records before it were passed
/// to `act`.
pub fn replay_each<'a, R>(
    batch: &Batch<'a>,
    read: impl Fn(&'a [u8], Option<&'a [u8]>) -> Result<Option<R>, DecodeError>,
    mut act: impl FnMut(R, i64),
) -> Result<(), DecodeError> {
    for record in replayed(batch)? {
        let record = record?;
        let Some(key) = record.key else { continue };
        if let Some(read) = read(key, record.value)? {
            act(read, batch.offset(&record));
        }
    }
    Ok(())
}

/// Whether an injected fault loses the record: see [`Fault::LostTombstone`] and
/// [`Fault::LostTarget`].
fn is_lost(record: &Result<Record<'_>, DecodeError>) -> bool {
    let is_tombstone = |record: &Record<'_>| {
        record.value.is_none() && record.key.is_some_and(|key| key.len() % 4 == 1)
    };
    let is_target = |record: &Record<'_>| {
        let is_of_some =
            |key: &[u8]| key.starts_with(&[0, 21]) && key.last().is_some_and(|last| last % 4 == 1);
        record.value.is_some() && record.key.is_some_and(is_of_some)
    };
    record.as_ref().is_ok_and(|record| {
        (Fault::LostTombstone.is_injected() && is_tombstone(record))
            || (Fault::LostTarget.is_injected() && is_target(record))
    })
}
