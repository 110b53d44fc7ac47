//! Transactional ids before and after startup.

use muster_codec::records::TransactionRecord;
use std::collections::BTreeSet;

/// Compares the transactional ids before and after startup, except the ids in `written`. These had
/// a transaction that partitions reported, but whose record was lost: recovery wrote them again.
pub(super) fn compare_ids(
    mut before: Vec<TransactionRecord<'static>>,
    mut after: Vec<TransactionRecord<'static>>,
    written: &BTreeSet<&str>,
) -> Result<(), String> {
    for ids in [&mut before, &mut after] {
        ids.retain(|record| !written.contains(&*record.key.transactional_id));
    }
    match (0..before.len().max(after.len())).find(|at| before.get(*at) != after.get(*at)) {
        Some(at) => {
            let (before, after) = (before.get(at), after.get(at));
            Err(format!("a transactional id is {after:?}, and was {before:?}"))
        }
        None => Ok(()),
    }
}
