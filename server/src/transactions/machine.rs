//! The state machine of a partition of `__transaction_state`: its transactional ids.

use muster_runtime::Machine;
use muster_transactions::{Coordinator, Held};

#[derive(Debug)]
pub(super) struct IdsMachine {
    pub(super) coordinator: Coordinator,
}

impl Machine for IdsMachine {
    type Held = Held;

    fn held(&self) -> Held {
        self.coordinator.held()
    }

    fn next_deadline(&self) -> Option<i64> {
        self.coordinator.next_deadline()
    }
}
