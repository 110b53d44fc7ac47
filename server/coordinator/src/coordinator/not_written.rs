//! Undoes the effects of records that the log refused.
//!
//! A handler changes volatile state before its records are replayed: it takes slots, starts timers,
//! parks requests, feeds the assignors. If the records are not written, this state is wrong. Then
//! the group is rebuilt from its durable state, as if it were loaded: its parked requests are
//! answered, and its sessions start again.

use super::Coordinator;
use crate::classic::ClassicGroup;
use crate::context::Context;
use crate::group::{Entry, Group};
use crate::group::{group_records, replay_in};
use crate::output::Output;
use crate::turn::Turn;
use muster_codec::records::GroupRecord;
use muster_codec::{ErrorCode, Wall};

impl Coordinator {
    /// Called instead of [`Self::replay`] for records of an [`Output`] that were not written. The
    /// caller replaces the answers of that output by errors. The answers that this returns are for
    /// other, parked requests.
    pub fn not_written(
        &mut self,
        context: &Context<'_>,
        records: &[GroupRecord<'_>],
    ) -> Output<'static> {
        let mut output = Output::default();
        for of_group in records.chunk_by(|a, b| a.group_id() == b.group_id()) {
            let group_id = of_group[0].group_id();
            // A refused commit does not affect a group that it did not create.
            let is_commit = of_group.iter().all(|it| matches!(it, GroupRecord::OffsetCommit(..)));
            if !is_commit {
                self.rebalances.forget(group_id);
            }
            self.with(context.around(), &mut output, group_id, |turn, entry| match entry {
                Some(entry) if !is_commit || is_unwritten(turn, entry) => make_again(turn, entry),
                Some(_) | None => {}
            });
            self.remove_if_vacant(group_id);
        }
        debug_assert!(output.records.is_empty(), "a load writes nothing");
        output
    }
}

/// Whether the group exists only for the refused records: it has no other record, no member and no
/// offset.
fn is_unwritten(turn: &Turn<'_, '_>, entry: &Entry) -> bool {
    match &entry.group {
        Some(Group::Classic(group)) => group.is_unwritten() && !has_offsets(turn, entry),
        Some(Group::Consumer(_) | Group::Share(_) | Group::Streams(_)) | None => false,
    }
}

fn has_offsets(turn: &Turn<'_, '_>, entry: &Entry) -> bool {
    !entry.offsets.is_empty() || turn.pending.of(&entry.id).is_some()
}

fn make_again(turn: &mut Turn<'_, '_>, entry: &mut Entry) {
    let mut again = Entry::new(entry.id.clone());
    for record in group_records(entry) {
        replay_in(&mut again, turn.timers, &record);
    }
    let replaced = [entry.successor.take().map(|group| *group), entry.group.take()];
    for mut group in replaced.into_iter().flatten() {
        group.dismiss_all(turn, ErrorCode::RebalanceInProgress);
        group.removed(turn.timers);
    }
    // A simple group has no record, and its timestamp does not matter for retention.
    let simple = || Group::Classic(ClassicGroup::new(entry.id.clone(), Wall(0)));
    entry.group = again.group.or_else(|| has_offsets(turn, entry).then(simple));
    if let Some(group) = &mut entry.group {
        group.loaded(turn);
    }
}
