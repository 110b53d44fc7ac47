//! The state machine of a partition of `__consumer_offsets`: its groups and their offsets.

use super::offset_producers::OffsetProducers;
use crate::topics::InternalTopic;
use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, EndTxnMarker, Producer};
use muster_codec::records::GroupRecord;
use muster_coordinator::{Budget, Coordinator, EVENTS_MAX, Event, Held};
use muster_runtime::{Damage, Machine, Transactional, replayed};
use muster_storage::TopicRule;

/// The maximum number of group events kept in a turn; further events are only counted.
const TURN_EVENTS_MAX: usize = 4 * EVENTS_MAX;

/// The groups of a slot.
#[derive(Debug)]
pub(super) struct GroupsMachine {
    pub(super) coordinator: Coordinator,
    pub(super) producers: OffsetProducers,
    pub(super) in_snapshot: InSnapshot,
}

/// The positions up to which the snapshot contains the two parts of a machine; 0 without a
/// snapshot.
#[derive(Debug, Default)]
pub(super) struct InSnapshot {
    pub(super) groups: u64,
    pub(super) producers: u64,
}

/// The budget and the events of a shard, to which its coordinators report.
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

    type Record<'r> = GroupRecord<'r>;
    type Held = Held;
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

    fn damage(&self) -> Option<Damage> {
        self.coordinator.damage().map(|damage| Damage(damage.to_string()))
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
