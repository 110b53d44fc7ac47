//! The machines of groups: followers replay what is committed, and a leader that is deposed loads
//! its machines again.
//!
//! The machines are reset as a whole, whether or not the entries of the deposed leader are
//! overridden: what they have beside their records, such as sessions, belongs to the leader. They
//! read the log from its base on. Snapshots of replicated logs are not written yet.
//!
//! A committed record may be of a version that this node does not know, or of a partition that its
//! config does not have. Then the group is halted at this node: the other nodes continue without
//! it, and all other groups continue here.

use super::group::{OfGroup, Serving, Stage};
use super::reads::For;
use super::{Led, Replication};
use crate::injected::Injected;
use crate::{Damage, TopicSet, damaged};
use muster_codec::DecodeError;
use muster_replication::{Group, Index, Role};
use muster_storage::slot_entry::group_of;
use muster_storage::{EntryHead, EntryKind, LogPartition, LogSlot, ShardLog, SlotEntry};
use tracing::error;

pub(super) const FOREIGN: DecodeError =
    DecodeError::InvalidBatch("records of a partition that this node does not have");

impl Replication {
    /// Brings the machines in line with their groups. Returns the slots that this node leads from
    /// now on.
    ///
    /// # Errors
    /// The log cannot be read, so the shard must not continue.
    pub fn settle(
        &mut self,
        log: &mut ShardLog,
        topics: &mut dyn TopicSet,
    ) -> Result<Vec<Led>, Damage> {
        if let Some(reason) = self.reads.failed.take() {
            return Err(damaged(format!("the log cannot be read: {reason}")));
        }
        let mut led = Vec::new();
        let may_load = !self.unsettled.is_empty();
        while let Some(group) = self.unsettled.pop_first() {
            match self.settle_group(log, topics, group) {
                Ok(leads) => led.extend(leads),
                Err(why) => self.halt(log, topics, group, &why),
            }
        }
        if may_load {
            self.is_loading = self.groups.values().any(|it| it.serving() == Serving::Soon);
        }
        Ok(led)
    }

    /// Stops a group whose machines cannot apply a committed record.
    fn halt(
        &mut self,
        log: &mut ShardLog,
        topics: &mut dyn TopicSet,
        group: Group,
        why: &DecodeError,
    ) {
        forget(topics, (group, self.slots));
        self.call(log, |replicas, out| replicas.halt(group, out));
        self.reads.forget(group);
        self.groups.get_mut(&group).into_iter().for_each(OfGroup::halt);
        halted(group, why);
    }

    /// Lets the timers of a slot's state machines fire, if the node leads the slot. Called when the
    /// grace period of a new leader is over.
    pub fn start_timers(&self, topics: &mut dyn TopicSet, slot: LogSlot) {
        if self.serving(slot) == Serving::Here {
            let of_slot = (Group(slot.group()), self.slots);
            each_partition(topics, of_slot, |topics, LogPartition { topic, index }| {
                topics.get(topic).into_iter().for_each(|it| it.set_timers(index, true));
            });
        }
    }

    fn settle_group(
        &mut self,
        log: &mut ShardLog,
        topics: &mut dyn TopicSet,
        group: Group,
    ) -> Result<Option<Led>, DecodeError> {
        let Some(of_group) = self.groups.get_mut(&group) else { return Ok(None) };
        if of_group.stage == Stage::Undoing && of_group.is_gone {
            forget(topics, (group, self.slots));
            self.groups.remove(&group);
            return Ok(None);
        }
        if of_group.stage == Stage::Undoing {
            reset(of_group, topics, (group, self.slots), Index(log.base_entry(group.0).index));
        }
        if let Stage::Reloading { until } = of_group.stage {
            while let Some((index, kind, body)) = of_group.reloaded.pop_front() {
                if kind == EntryKind::Records {
                    replay(topics, group, index, &body)?;
                }
                of_group.applied = index;
            }
            if of_group.applied < until {
                if !std::mem::replace(&mut of_group.is_reading, true) {
                    let range = of_group.applied.next()..=until;
                    self.reads.want(group, range, For::Machines);
                }
                return Ok(None);
            }
            of_group.stage = Stage::Following;
        }
        if of_group.stage != Stage::Following {
            return Ok(None);
        }
        while let Some((index, records)) = of_group.next_committed() {
            replay(topics, group, index, &records)?;
        }
        let applied = of_group.committed;
        if of_group.applied < applied {
            of_group.applied = applied;
            self.call(log, |replicas, out| replicas.applied(group, applied, out));
        }
        Ok(self.lead(log, group))
    }

    /// Begins to lead, once the first entry of the term is committed, and applied with all before
    /// it. A leader appends nothing before that, so that its machines then have all of the log.
    fn lead(&mut self, log: &ShardLog, group: Group) -> Option<Led> {
        let of_group = self.groups.get_mut(&group)?;
        let Role::Leader { term, ready: true } = of_group.role else { return None };
        if of_group.applied.0 != log.last_entry(group.0).index {
            return None;
        }
        of_group.stage = Stage::Leading;
        Some(Led { slot: LogSlot::of_group(group.0), term: term.0 })
    }
}

/// The machines of a group begin again, after the base of its log.
fn reset(of_group: &mut OfGroup, topics: &mut dyn TopicSet, of: (Group, u32), base: Index) {
    if Injected::UndoForgotten.is_injected() {
        (of_group.stage, of_group.applied) = (Stage::Following, of_group.undo_to);
        return;
    }
    forget(topics, of);
    of_group.reloaded.clear();
    of_group.applied = base;
    of_group.stage = Stage::Reloading { until: of_group.undo_to };
}

/// Drops what the machines of a group have. None of their timers fires.
pub(super) fn forget(topics: &mut dyn TopicSet, of: (Group, u32)) {
    each_partition(topics, of, |topics, LogPartition { topic, index }| {
        if let Some(topic) = topics.get(topic) {
            topic.reset(index);
            topic.set_timers(index, false);
        }
    });
}

/// Calls all partitions of a group that have machines here.
pub(crate) fn each_partition(
    topics: &mut dyn TopicSet,
    (group, slots): (Group, u32),
    mut act: impl FnMut(&mut dyn TopicSet, LogPartition),
) {
    let mut next = topics.next(None);
    while let Some(partition) = next {
        if group_of(partition, slots) == group.0 {
            act(topics, partition);
        }
        next = topics.next(Some(partition));
    }
}

/// Reports that a group is halted.
pub(super) fn halted(Group(group): Group, why: &DecodeError) {
    error!(
        target: "replicas",
        group,
        "a committed record cannot be applied, so this node takes no part in the group. Start it \
         with the config and the version of the node that wrote the record: {why}"
    );
}

/// Replays the records of an entry.
fn replay(
    topics: &mut dyn TopicSet,
    group: Group,
    Index(index): Index,
    body: &[u8],
) -> Result<(), DecodeError> {
    let (length, kind) = (body.len() as u32, EntryKind::Records);
    let head = EntryHead { group: group.0, kind, term: 0, index, commit: 0, stamp: 0, length };
    for batch in (SlotEntry { head, body }).batches(topics.rules()) {
        let (LogPartition { topic, index: of_topic }, batch) = batch?;
        let replayed = topics.get(topic).and_then(|it| it.replay(of_topic, &batch, index));
        replayed.unwrap_or(Err(FOREIGN))?;
    }
    Ok(())
}
