//! The state machine of a partition of `__consumer_offsets`: its groups and their offsets.

use super::offset_producers::OffsetProducers;
use muster_coordinator::{Coordinator, Held};
use muster_runtime::Machine;

#[derive(Debug)]
pub(super) struct GroupsMachine {
    pub(super) coordinator: Coordinator,
    pub(super) producers: OffsetProducers,
}

impl Machine for GroupsMachine {
    type Held = Held;

    fn held(&self) -> Held {
        self.coordinator.held()
    }

    fn next_deadline(&self) -> Option<i64> {
        self.coordinator.next_deadline()
    }
}
