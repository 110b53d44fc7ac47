//! The state machine of a partition of `__transaction_state`: its transactional ids.

use crate::topics::InternalTopic;
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_codec::records::TransactionRecord;
use muster_faults::Fault;
use muster_runtime::{Damage, Machine, replay_each};
use muster_storage::TopicRule;
use muster_transactions::{Coordinator, Held};

#[derive(Debug)]
pub(super) struct IdsMachine {
    pub(super) coordinator: Coordinator,
    /// The position up to which a snapshot has all records; 0 without a snapshot.
    pub(super) in_snapshot: u64,
}

impl Machine for IdsMachine {
    const RULE: TopicRule = InternalTopic::TransactionState.row().rule;

    type Record<'r> = TransactionRecord<'r>;
    type Held = Held;
    type Shared = ();

    fn apply(&mut self, operation: &[TransactionRecord<'_>], position: u64) {
        for record in operation {
            self.coordinator.replay(record, position);
            if Fault::UnwrittenId.is_injected() && position.is_multiple_of(16) {
                self.coordinator.replay(&changed(record), position);
            }
        }
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position <= self.in_snapshot {
            return Ok(false);
        }
        replay_each(batch, TransactionRecord::read, |record, _| {
            self.coordinator.replay(&record, position);
        })?;
        Ok(true)
    }

    fn held(&self) -> Held {
        self.coordinator.held()
    }

    fn next_deadline(&self) -> Option<i64> {
        self.coordinator.next_deadline()
    }

    fn damage(&self) -> Option<Damage> {
        self.coordinator.damage().map(|what| Damage(what.to_owned()))
    }
}

/// See [`Fault::UnwrittenId`].
fn changed<'r>(record: &TransactionRecord<'r>) -> TransactionRecord<'r> {
    let mut record = record.clone();
    record.value.iter_mut().for_each(|value| value.transaction_timeout_ms ^= 1);
    record
}
