//! The limits that the coordinator shares with the others of its shard.

use super::Coordinator;
use crate::budget::{Budget, Held, Refusal};

impl Coordinator {
    /// Reports to the budget the bytes that addresses pay for. To be called after each call that
    /// may change these, with the same budget.
    pub fn settle(&mut self, budget: &mut Budget) {
        self.payers.moves.report_to(&mut budget.members);
        self.pending.moves.report_to(&mut budget.pending);
    }

    /// The coordinator's part of the shared budget.
    pub fn held(&self) -> Held {
        let member_bytes = self.counters.gauges.member_bytes as usize;
        Held { groups: self.groups.len(), member_bytes, pending_bytes: self.pending.bytes() }
    }

    /// The limit that has refused something to a client since the last call.
    pub fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// Checks whether a client at `host` may create another group, and counts it.
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
