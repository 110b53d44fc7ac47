//! The batches of records in an answer, with what readers and share members need of them.

use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, Batches};

/// The key of a control record that ends a transaction by aborting it: version and type.
const ABORT: &[u8] = &[0, 0, 0, 0];

/// The batches, up to the last one if that is cut off.
pub(super) fn batches(bytes: &[u8]) -> impl Iterator<Item = Result<Batch<'_>, DecodeError>> {
    Batches::new(bytes).take_while(|batch| !matches!(batch, Err(DecodeError::UnexpectedEnd)))
}

pub(super) fn ends_by_abort(batch: &Batch<'_>) -> bool {
    let first = || batch.records().ok()?.next()?.ok();
    batch.header.is_control() && first().is_some_and(|record| record.key == Some(ABORT))
}
