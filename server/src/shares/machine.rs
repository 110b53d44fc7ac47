//! The state machine of a partition of `__share_group_state`: its share partitions.

use muster_runtime::{Machine, Unlimited};
use muster_shares::States;

#[derive(Debug)]
pub(super) struct StatesMachine {
    pub(super) states: States,
}

impl Machine for StatesMachine {
    type Held = Unlimited;

    fn held(&self) -> Unlimited {
        Unlimited
    }

    /// Its jobs are begun by the shard.
    fn next_deadline(&self) -> Option<i64> {
        None
    }
}
