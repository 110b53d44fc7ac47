//! The state machine of a partition of `__consumer_offsets`: its groups and their offsets.

use super::offset_producers::OffsetProducers;
use super::slots::SharedByGroups;
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_coordinator::{Coordinator, Held};
use muster_runtime::{Damage, Machine, replayed};

#[derive(Debug)]
pub(super) struct GroupsMachine {
    pub(super) coordinator: Coordinator,
    pub(super) producers: OffsetProducers,
    pub(super) in_snapshot: InSnapshot,
}

/// The positions up to which a snapshot has the two parts of a machine; 0 without a snapshot.
#[derive(Debug, Default)]
pub(super) struct InSnapshot {
    pub(super) groups: u64,
    pub(super) producers: u64,
}

impl Machine for GroupsMachine {
    type Held = Held;
    type Shared = SharedByGroups;

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
