//! The state machine of a partition of `__share_group_state`: its share partitions.

use crate::topics::InternalTopic;
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_codec::records::ShareRecord;
use muster_runtime::{Machine, Unlimited, replay_each};
use muster_shares::States;
use muster_shares::state::StoredEnds;
use muster_storage::TopicRule;

#[derive(Debug)]
pub(super) struct StatesMachine {
    pub(super) states: States,
    pub(super) in_snapshot: InSnapshot,
}

/// The records that the states contain because they come from a snapshot.
#[derive(Debug, Default)]
pub(super) struct InSnapshot {
    /// The position up to which the states contain all records; 0 without a snapshot.
    pub(super) position: u64,
    /// The offsets up to which the states contain the records of each share partition.
    pub(super) ends: StoredEnds,
}

impl Machine for StatesMachine {
    const RULE: TopicRule = InternalTopic::ShareState.row().rule;

    type Record<'r> = ShareRecord<'r>;
    type Held = Unlimited;
    type Shared = ();

    fn apply(&mut self, operation: &[ShareRecord<'_>], _position: u64) {
        operation.iter().for_each(|record| self.states.replay(record));
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position <= self.in_snapshot.position {
            return Ok(false);
        }
        replay_each(batch, ShareRecord::read, |record, offset| {
            if !self.in_snapshot.ends.have(&record, offset) {
                self.states.replay(&record);
            }
        })?;
        Ok(true)
    }

    fn held(&self) -> Unlimited {
        Unlimited
    }

    /// None: the shard begins the jobs of states.
    fn next_deadline(&self) -> Option<i64> {
        None
    }
}
