//! The record batches in the answer to a fetch.

use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, Batches};

/// The key (version and type) of a control record that aborts a transaction.
const ABORT: &[u8] = &[0, 0, 0, 0];

/// The batches in these bytes. A last batch that is cut off is left out.
pub(super) fn batches(bytes: &[u8]) -> impl Iterator<Item = Result<Batch<'_>, DecodeError>> {
    Batches::new(bytes).take_while(|batch| !matches!(batch, Err(DecodeError::UnexpectedEnd)))
}

pub(super) fn ends_by_abort(batch: &Batch<'_>) -> bool {
    let first = || batch.records().ok()?.next()?.ok();
    batch.header.is_control() && first().is_some_and(|record| record.key == Some(ABORT))
}
