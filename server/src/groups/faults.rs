//! Injects faults of streams groups into the records that are written and replayed.

use muster_codec::records::GroupRecord;
use muster_faults::Fault;

/// A faulty copy of the records; None if no fault of streams groups is injected.
pub(super) fn faulty<'r>(records: &[GroupRecord<'r>]) -> Option<Vec<GroupRecord<'r>>> {
    let (is_early, is_stuck) = (Fault::EarlyTask.is_injected(), Fault::StuckEpoch.is_injected());
    if !is_early && !is_stuck {
        return None;
    }
    let mut records = records.to_vec();
    for record in &mut records {
        if let GroupRecord::StreamsGroupCurrentMemberAssignment(_, Some(value)) = record
            && is_early
        {
            value.active_tasks_pending_revocation.clear();
        } else if let GroupRecord::StreamsGroupMetadata(_, Some(value)) = record
            && is_stuck
            && value.epoch % 4 == 0
        {
            value.epoch -= 1;
        }
    }
    Some(records)
}
