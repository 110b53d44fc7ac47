//! The audit of groups, transactional ids and share states: compares them one by one with the state
//! to which their records replay. The log is not read.

use super::slots::{Audited, Slots};
use super::{ShareStates, TransactionCoordinators};
use crate::placement::{Slot, TransactionsPartition};
use muster_shares::SharePartitionKey;
use std::sync::Arc;

/// The interval between two comparisons; each compares a group, a transactional id and a share
/// state.
const AUDIT_INTERVAL_MS: i64 = 1_000;

/// The progress of the audit.
#[derive(Debug)]
pub(super) struct Audit {
    last: Audited,
    last_id: Option<(TransactionsPartition, Arc<str>)>,
    last_share: Option<(Slot, SharePartitionKey)>,
    next_at: i64,
}

impl Audit {
    pub(super) fn new(now: i64) -> Self {
        let next_at = now.saturating_add(AUDIT_INTERVAL_MS);
        Self { last: None, last_id: None, last_share: None, next_at }
    }

    /// Delays the next comparison.
    pub(super) fn not_before(&mut self, at: i64) {
        self.next_at = at;
    }

    /// Compares the next group, transactional id and share state, if it is time.
    ///
    /// # Errors
    /// A compared state differs from the state to which its records replay.
    pub(super) fn turn(
        &mut self,
        now: i64,
        slots: &mut Slots,
        transactions: &dyn TransactionCoordinators,
        shares: &dyn ShareStates,
    ) -> Result<(), String> {
        if now < self.next_at {
            return Ok(());
        }
        self.next_at = now.saturating_add(AUDIT_INTERVAL_MS);
        let (audited, found) = slots.audit_after(self.last.take());
        self.last = audited;
        found.map_err(|divergence| divergence.to_string())?;
        self.audit_id(transactions)?;
        self.audit_share(slots, shares)
    }

    fn audit_id(&mut self, transactions: &dyn TransactionCoordinators) -> Result<(), String> {
        let (mut partition, mut id) = match self.last_id.take() {
            Some((partition, id)) => (Some(partition), Some(id)),
            None => (transactions.next_with_ids(None), None),
        };
        while let Some(of) = partition {
            let coordinator = transactions.coordinator(of);
            if let Some((id, is_same)) = coordinator.and_then(|it| it.audit_after(id.as_deref())) {
                let differs = format!("transactional id {id:?} is not what its record makes");
                self.last_id = Some((of, id));
                return is_same.then_some(()).ok_or(differs);
            }
            (partition, id) = (transactions.next_with_ids(Some(of)), None);
        }
        Ok(())
    }

    fn audit_share(&mut self, slots: &Slots, shares: &dyn ShareStates) -> Result<(), String> {
        let (mut slot, mut key) = match self.last_share.take() {
            Some((slot, key)) => (Some(slot), Some(key)),
            None => (slots.next(None), None),
        };
        while let Some(of) = slot {
            let audited = shares.states(of).and_then(|it| it.audit_after(key.as_ref()));
            if let Some((key, is_same)) = audited {
                let differs = format!("share state {key:?} is not what its record makes");
                self.last_share = Some((of, key));
                return is_same.then_some(()).ok_or(differs);
            }
            (slot, key) = (slots.next(Some(of)), None);
        }
        Ok(())
    }
}
