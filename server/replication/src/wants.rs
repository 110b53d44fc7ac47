//! The parts of a log that raft asked for, and that are not in memory: old entries, and snapshots
//! for replicas that need entries from before the base.
//!
//! raft asks again with each answer to a heartbeat. The caller is asked for each part only once.

use crate::ranks::ELECTION_TICKS;
use crate::{Base, Entry, Index, ReplicaId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

#[derive(Debug, Default)]
pub(crate) struct Wants {
    /// The index of the first entry of each range that is being read. If several followers wait for
    /// this entry, one read serves them all.
    reads: BTreeSet<Index>,
    /// The entries that the caller could not read, and the ticks until they may be asked for again.
    failed: BTreeMap<Index, u32>,
    /// The ranges among `reads` that the caller has not heard of.
    new_reads: Vec<RangeInclusive<Index>>,
    /// The entries that were read, until raft has taken them.
    read: Vec<Entry>,
    /// The replicas that need a snapshot.
    snapshots: BTreeSet<ReplicaId>,
    /// The replicas of `snapshots` for which the caller was not asked yet.
    new_snapshots: Vec<ReplicaId>,
    /// The snapshots that their receivers have, until raft has sent the message that installs them.
    offers: BTreeMap<ReplicaId, Base>,
}

impl Wants {
    /// Asks for entries, unless a read that begins there is in progress, or has failed lately.
    pub(crate) fn read(&mut self, first: Index, last: Index) {
        if !self.failed.contains_key(&first) && self.reads.insert(first) {
            self.new_reads.push(first..=last);
        }
    }

    /// The entries that the caller has read, beginning with the one at `first`.
    pub(crate) fn fetched(&self, first: Index) -> &[Entry] {
        let place = self.read.iter().position(|it| it.index == first);
        place.map_or(&[], |place| &self.read[place..])
    }

    /// The read that began at `first` has ended, and found these entries. They are fewer than asked
    /// for, or none, if the others are no longer in the log.
    pub(crate) fn end_read(&mut self, first: Index, entries: Vec<Entry>) {
        self.reads.remove(&first);
        self.read = entries;
    }

    /// A read that began with this entry has failed. raft asks again with each answer to a
    /// heartbeat, so the next read waits.
    pub(crate) fn fail_read(&mut self, first: Index) {
        self.reads.remove(&first);
        self.failed.insert(first, ELECTION_TICKS);
    }

    pub(crate) fn tick(&mut self) {
        self.failed.retain(|_, ticks| {
            *ticks -= 1;
            *ticks > 0
        });
    }

    pub(crate) fn drop_fetched(&mut self) {
        self.read = Vec::new();
    }

    /// The snapshot that was offered for a replica. Asks for one if there is none.
    pub(crate) fn snapshot(&mut self, to: ReplicaId, at_least: Index) -> Option<Base> {
        match self.offers.remove(&to) {
            Some(base) if base.index >= at_least => Some(base),
            // The log was cut after the snapshot was begun, so it lacks the entries that follow it.
            Some(_) | None => {
                if self.snapshots.insert(to) {
                    self.new_snapshots.push(to);
                }
                None
            }
        }
    }

    /// The receiver has this snapshot. If the snapshot does not name the receiver as a member, it
    /// is useless: the receiver's raft would ignore the message, and raft here would wait for ever.
    /// A snapshot from the middle of a change of members is useful. Without it, a group whose log
    /// was cut during the change could wait for the end of the change for ever.
    pub(crate) fn offer(&mut self, to: ReplicaId, base: Base) {
        self.snapshots.remove(&to);
        if base.members.contains(to) {
            self.offers.insert(to, base);
        }
    }

    /// Messages and snapshots on their way to the replica's node are lost. When raft asks for the
    /// snapshot again, the caller is asked again, too.
    pub(crate) fn lost(&mut self, to: ReplicaId) {
        self.snapshots.remove(&to);
        self.offers.remove(&to);
    }

    /// This replica does not lead any more, so no other replica waits for it.
    pub(crate) fn clear_snapshots(&mut self) {
        self.snapshots.clear();
        self.new_snapshots.clear();
        self.offers.clear();
    }

    /// The ranges of entries that the caller should read.
    pub(crate) fn take_reads(&mut self) -> Vec<RangeInclusive<Index>> {
        std::mem::take(&mut self.new_reads)
    }

    /// The replicas to which the caller should send a snapshot.
    pub(crate) fn take_snapshots(&mut self) -> Vec<ReplicaId> {
        std::mem::take(&mut self.new_snapshots)
    }
}
