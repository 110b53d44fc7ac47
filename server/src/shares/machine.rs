//! The state machine of a partition of `__share_group_state`: its share partitions.

use super::copy::{SharesCopy, digest};
use crate::topics::InternalTopic;
use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, Producer};
use muster_codec::records::ShareRecord;
use muster_coordinator::Sample;
use muster_runtime::{
    Audited, CheckCopy, Damage, Digest, Machine, NextId, Opened, SectionAt, Unlimited, damaged,
    replay_each,
};
use muster_shares::state::{StatesWalk, StoredEnds};
use muster_shares::{SharePartitionKey, States};
use muster_storage::TopicRule;
use muster_storage::snapshot::Part;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct StatesMachine {
    pub(super) states: States,
    pub(super) in_snapshot: InSnapshot,
}

/// The records of the log that the states already contain, because they come from a snapshot.
/// These records are not replayed.
#[derive(Debug, Default)]
pub(super) struct InSnapshot {
    /// The states contain all records up to this position of the log; 0 without a snapshot.
    pub(super) position: u64,
    /// For single share partitions: the states contain their records up to these offsets.
    pub(super) ends: StoredEnds,
}

/// The progress of writing the states.
pub(super) struct Walk {
    states: StatesWalk,
    /// The chunks that are written.
    part: Part,
}

impl Machine for StatesMachine {
    const RULE: TopicRule = InternalTopic::ShareState.row().rule;

    const SECTIONS: &'static [&'static str] = InternalTopic::ShareState.row().sections;

    type Record<'r> = ShareRecord<'r>;
    type Held = Unlimited;
    type Walk = Walk;
    /// The share partition at which [`Machine::restate`] continues: its records were the last ones.
    type Restating = Option<SharePartitionKey>;
    type Place = SharePartitionKey;
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

    /// The machine has no timers: the shard calls the jobs that work on states.
    fn next_deadline(&self) -> Option<i64> {
        None
    }

    fn begin_after(&mut self, position: u64) {
        self.in_snapshot.position = position;
    }

    /// A partition that had records has a section, even if it has no states now. The section says
    /// up to which position records need no replay.
    fn begin_section(&self, _section: u8, at: SectionAt) -> Option<Walk> {
        let part = Part::of(at.file_at, &[]);
        (at.log_end > 0).then(|| Walk { states: StatesWalk::default(), part })
    }

    fn write_section(
        &mut self,
        walk: &mut Walk,
        at: SectionAt,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<Part>, Damage> {
        let from = out.len();
        self.states.write_chunk(&mut walk.states, at.log_end, bytes, out);
        walk.part = walk.part.followed_by(&out[from..]);
        Ok(walk.states.is_complete().then_some(walk.part))
    }

    fn restate(
        &mut self,
        after: &mut Option<SharePartitionKey>,
        count: usize,
        take: &mut dyn FnMut(Option<Producer>, &ShareRecord<'_>),
    ) -> Result<bool, Damage> {
        let mut last = None;
        for (key, record) in self.states.restated_after(after.as_ref()).take(count) {
            take(None, &record);
            last = Some(key.clone());
        }
        *after = last;
        Ok(after.is_some())
    }

    fn audit_after(
        &mut self,
        after: Option<&SharePartitionKey>,
    ) -> Option<Audited<SharePartitionKey>> {
        let (key, is_same) = self.states.audit_after(after)?;
        let differs = format!("share state {key:?} is not what its record makes");
        Some((key, is_same.then_some(()).ok_or(differs)))
    }

    fn copy(&self, salt: u64, halvings: u32) -> Option<Box<dyn CheckCopy>> {
        Some(Box::new(SharesCopy::new(Sample { salt, halvings })))
    }

    fn next_id(
        &mut self,
        after: Option<&Arc<str>>,
        visits: usize,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> NextId {
        let groups = self.states.groups_after(after.map(|it| &**it));
        NextId::among(groups, after, visits, is_wanted)
    }

    fn digest(&mut self, id: &str, items_max: usize) -> Option<Digest> {
        digest(&self.states, id, items_max)
    }

    fn open_section(&mut self, _section: u8, opened: Opened<'_>) -> Result<(), Damage> {
        let ends = self.states.read_chunks(opened.bytes()?).map_err(damaged)?;
        self.in_snapshot = InSnapshot { position: opened.from, ends };
        Ok(())
    }
}
