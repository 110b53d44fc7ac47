//! The limits that all coordinators of a shard share.

use super::Coordinator;
use crate::budget::{Budget, Held, Refusal};

impl Coordinator {
    /// Reports to the budget the bytes that are counted against each address. Must be called, with
    /// the same budget, after each call that may change these bytes.
    pub fn settle(&mut self, budget: &mut Budget) {
        self.payers.moves.report_to(&mut budget.members);
        self.pending.moves.report_to(&mut budget.pending);
    }

    /// How much of the shared budget this coordinator uses.
    pub fn held(&self) -> Held {
        let member_bytes = self.counters.gauges.member_bytes as usize;
        Held { groups: self.groups.len(), member_bytes, pending_bytes: self.pending.bytes() }
    }

    /// If a limit has refused a request since the last call, returns this refusal.
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// Admits one more group of a client at `host`, and counts it.
    pub(crate) fn admit_group(
        &mut self,
        budget: &mut Budget,
        host: &str,
        now: i64,
    ) -> Result<(), Refusal> {
        let (groups, max) = (self.groups.len(), self.config.groups_max);
        let admitted = budget.admit_group(groups, max, host, now);
        self.counters.events.refused += u64::from(admitted.is_err());
        self.refusal = admitted.err().or(self.refusal);
        admitted
    }
}
