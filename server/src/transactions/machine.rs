//! The state machine of a partition of `__transaction_state`: its transactional ids.

use super::copy::{IdsCopy, digest};
use crate::topics::InternalTopic;
use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, Producer};
use muster_codec::records::TransactionRecord;
use muster_coordinator::Sample;
use muster_faults::Fault;
use muster_runtime::{
    Audited, CheckCopy, Damage, Digest, Machine, NextId, Opened, SectionAt, damaged, part_of,
    replay_each,
};
use muster_storage::TopicRule;
use muster_storage::snapshot::Part;
use muster_transactions::{Coordinator, Held, IdsWalk};
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct IdsMachine {
    pub(super) coordinator: Coordinator,
    /// The snapshot has all records up to this position; 0 without a snapshot.
    pub(super) in_snapshot: u64,
}

impl Machine for IdsMachine {
    const RULE: TopicRule = InternalTopic::TransactionState.row().rule;

    const SECTIONS: &'static [&'static str] = InternalTopic::TransactionState.row().sections;

    /// A look-up of an id finds damage.
    const READS_FIND_DAMAGE: bool = true;

    type Record<'r> = TransactionRecord<'r>;
    type Held = Held;
    type Walk = IdsWalk;
    /// The last id whose record [`Machine::restate`] has passed on.
    type Restating = Option<String>;
    type Place = Arc<str>;
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

    fn begin_after(&mut self, position: u64) {
        self.in_snapshot = position;
    }

    fn begin_section(&self, _section: u8, at: SectionAt) -> Option<IdsWalk> {
        (self.coordinator.held().ids > 0).then(|| IdsWalk::new(at.file_at))
    }

    fn write_section(
        &mut self,
        walk: &mut IdsWalk,
        _at: SectionAt,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        let written = self.coordinator.write_snapshot(walk, bytes, out);
        Ok(written.map_err(damaged)?.map(part_of))
    }

    fn open_section(&mut self, _section: u8, opened: Opened<'_>) -> Result<(), Damage> {
        let Opened { file, part, from } = opened;
        self.in_snapshot = from;
        let opened = self.coordinator.open_snapshot(Arc::clone(file), part.range(), part.crc, from);
        opened.map_err(damaged)
    }

    fn restate(
        &mut self,
        after: &mut Option<String>,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &TransactionRecord<'_>),
    ) -> Result<bool, Damage> {
        let mut last = None;
        for id in self.coordinator.ids_after(after.as_deref()).take(count) {
            if let Ok(Some(record)) = self.coordinator.record(id, usize::MAX) {
                take(None, &record);
            }
            last = Some(id.to_owned());
        }
        *after = last;
        self.damage().map_or(Ok(after.is_some()), Err)
    }

    fn audit_after(&mut self, after: Option<&Arc<str>>) -> Option<Audited<Arc<str>>> {
        let (id, is_same) = self.coordinator.audit_after(after.map(|it| &**it))?;
        let differs = format!("transactional id {id:?} is not what its record makes");
        Some((id, is_same.then_some(()).ok_or(differs)))
    }

    fn copy(&self, salt: u64, halvings: u32) -> Option<Box<dyn CheckCopy>> {
        Some(Box::new(IdsCopy::new(Sample { salt, halvings })))
    }

    fn next_id(
        &mut self,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId {
        let ids = self.coordinator.ids_after(after.map(|it| &**it));
        NextId::among(ids, after, visits, is_wanted)
    }

    fn digest(&mut self, id: &str, items_max: usize) -> Option<Digest> {
        digest(&self.coordinator, id, items_max)
    }

    fn damage(&self) -> Option<Damage> {
        self.coordinator.damage().map(damaged)
    }
}

/// See [`Fault::UnwrittenId`].
fn changed<'r>(record: &TransactionRecord<'r>) -> TransactionRecord<'r> {
    let mut record = record.clone();
    record.value.iter_mut().for_each(|value| value.transaction_timeout_ms ^= 1);
    record
}
