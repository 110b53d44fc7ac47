//! The state machine of a partition of `__consumer_offsets`: its groups and their offsets.

use super::copy::{GroupsCopy, digest_of};
use super::offset_producers::OffsetProducers;
use crate::topics::{GROUPS_SECTION, InternalTopic, PRODUCERS_SECTION};
use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, EndTxnMarker, Producer};
use muster_codec::records::GroupRecord;
use muster_coordinator::{
    Budget, Coordinator, EVENTS_MAX, Event, Held, Sample, SnapshotWalk, StateWalk,
};
use muster_runtime::{
    Audited, CheckCopy, Damage, Digest, ITEMS_OF_ID_MAX, Machine, NextId, Opened, SectionAt,
    Transactional, damaged, part_of, replayed,
};
use muster_storage::TopicRule;
use muster_storage::snapshot::Part;
use std::sync::Arc;

/// The maximum number of group events that a shard keeps during a turn. Further events of the turn
/// are only counted.
const TURN_EVENTS_MAX: usize = 4 * EVENTS_MAX;

/// The groups of a slot.
#[derive(Debug)]
pub(super) struct GroupsMachine {
    pub(super) coordinator: Coordinator,
    pub(super) producers: OffsetProducers,
    pub(super) in_snapshot: InSnapshot,
}

/// The snapshot contains the groups and the producers as of these positions of the slot. 0 if there
/// is no snapshot.
#[derive(Debug, Default)]
pub(super) struct InSnapshot {
    pub(super) groups: u64,
    pub(super) producers: u64,
}

/// The progress of writing a section.
#[expect(clippy::large_enum_variant, reason = "there is one, in a snapshot")]
pub(super) enum Walk {
    Groups(SnapshotWalk),
    /// One call writes all producers.
    Producers,
}

/// The budget and the events, of which a shard has only one. All its coordinators update them.
#[derive(Debug)]
pub(super) struct SharedByGroups {
    pub(super) budget: Budget,
    pub(super) events: EventsOfSlots,
}

/// The events of groups in a turn.
#[derive(Debug, Default)]
pub(super) struct EventsOfSlots {
    pub(super) events: Vec<Event>,
    /// The number of events that were dropped because there were too many.
    pub(super) left_out: u64,
}

impl EventsOfSlots {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.left_out == 0
    }

    fn take(&mut self, (mut events, left_out): (Vec<Event>, u64)) {
        let fit = TURN_EVENTS_MAX.saturating_sub(self.events.len()).min(events.len());
        self.left_out += left_out + (events.len() - fit) as u64;
        events.truncate(fit);
        self.events.append(&mut events);
    }
}

impl Machine for GroupsMachine {
    const RULE: TopicRule = InternalTopic::ConsumerOffsets.row().rule;

    const SECTIONS: &'static [&'static str] = InternalTopic::ConsumerOffsets.row().sections;

    type Record<'r> = GroupRecord<'r>;
    type Held = Held;
    type Walk = Walk;
    type Restating = StateWalk;
    type Place = Arc<str>;
    type Shared = SharedByGroups;

    fn apply(&mut self, operation: &[GroupRecord<'_>], position: u64) {
        operation.iter().for_each(|record| self.coordinator.replay(record, position));
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position > self.in_snapshot.producers {
            self.producers.replay(batch)?;
        }
        if position <= self.in_snapshot.groups {
            return Ok(false);
        }
        self.coordinator.replay_batch(&batch.header, replayed(batch)?, position)?;
        Ok(true)
    }

    fn held(&self) -> Held {
        self.coordinator.held()
    }

    fn next_deadline(&self) -> Option<i64> {
        self.coordinator.next_deadline()
    }

    fn settle(&mut self, shared: &mut SharedByGroups) {
        self.coordinator.settle(&mut shared.budget);
        if self.coordinator.has_events() {
            shared.events.take(self.coordinator.take_events());
        }
    }

    fn release(&mut self, shared: &mut SharedByGroups) {
        self.coordinator.release(&mut shared.budget);
    }

    fn begin_after(&mut self, position: u64) {
        self.in_snapshot = InSnapshot { groups: position, producers: position };
    }

    fn begin_section(&self, section: u8, at: SectionAt) -> Option<Walk> {
        match section {
            GROUPS_SECTION if self.coordinator.groups() > 0 => {
                Some(Walk::Groups(SnapshotWalk::new(at.file_at)))
            }
            PRODUCERS_SECTION if !self.producers.is_settled() => Some(Walk::Producers),
            _ => None,
        }
    }

    fn write_section(
        &mut self,
        walk: &mut Walk,
        at: SectionAt,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        match walk {
            Walk::Groups(walk) => {
                let written = self.coordinator.write_snapshot(walk, at.position, bytes, out);
                Ok(written.map_err(damaged)?.map(part_of))
            }
            Walk::Producers => Ok(Some(at.whole(out, |out| self.producers.write_snapshot(out)))),
        }
    }

    fn open_section(&mut self, section: u8, opened: Opened<'_>) -> Result<(), Damage> {
        if section == GROUPS_SECTION {
            self.in_snapshot.groups = opened.from;
            let (file, part) = (Arc::clone(opened.file), opened.part);
            self.coordinator.open_snapshot(file, part.range(), part.crc).map_err(damaged)
        } else {
            self.in_snapshot.producers = opened.from;
            self.producers.open_snapshot(opened.bytes()?).map_err(damaged)
        }
    }

    fn stable_offset(&mut self, end: i64) -> i64 {
        self.producers.flushed(end)
    }

    fn aborted(&self, producer_id: i64, offset: i64) -> Option<(i64, i64)> {
        self.producers.aborted(producer_id, offset)
    }

    fn restate(
        &mut self,
        walk: &mut StateWalk,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &GroupRecord<'_>),
    ) -> Result<bool, Damage> {
        self.coordinator.restate(walk, count, take).map_err(damaged)
    }

    fn audit_after(&mut self, after: Option<&Arc<str>>) -> Option<Audited<Arc<str>>> {
        let (id, audited) = self.coordinator.audit_after(after.map(|it| &**it))?;
        Some((id, audited.map_err(|divergence| divergence.to_string())))
    }

    fn copy(&self, salt: u64, halvings: u32) -> Option<Box<dyn CheckCopy>> {
        let copy = self.coordinator.check_copy(Sample { salt, halvings }, ITEMS_OF_ID_MAX);
        Some(Box::new(GroupsCopy(copy)))
    }

    fn next_id(
        &mut self,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId {
        NextId::among(self.coordinator.ids_after(after), after, visits, is_wanted)
    }

    fn digest(&mut self, id: &str, items_max: usize) -> Option<Digest> {
        self.coordinator.digest(id, items_max).map(digest_of)
    }

    fn damage(&self) -> Option<Damage> {
        self.coordinator.damage().map(damaged)
    }
}

impl Transactional for GroupsMachine {
    fn apply_in_transaction(
        &mut self,
        producer: Producer,
        operation: &[GroupRecord<'_>],
        position: u64,
    ) {
        for record in operation {
            self.coordinator.replay_in_transaction(producer, record, position);
        }
    }

    fn end_transaction(&mut self, producer: Producer, marker: EndTxnMarker, position: u64) {
        self.coordinator.replay_end_transaction(producer.id, marker.outcome, position);
    }
}
