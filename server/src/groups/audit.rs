//! The audit of groups and transactional ids: one after the other is compared with the state to
//! which its records replay, without the log.

use super::TransactionCoordinators;
use super::slots::{Audited, Slots};
use crate::placement::TransactionsPartition;
use std::sync::Arc;

/// How often a group is compared, and an id.
const AUDIT_INTERVAL_MS: i64 = 1_000;

/// The progress of the audit.
#[derive(Debug)]
pub(super) struct Audit {
    last: Audited,
    last_id: Option<(TransactionsPartition, Arc<str>)>,
    next_at: i64,
}

impl Audit {
    pub(super) fn new(now: i64) -> Self {
        let next_at = now.saturating_add(AUDIT_INTERVAL_MS);
        Self { last: None, last_id: None, next_at }
    }

    /// Delays the next comparison.
    pub(super) fn not_before(&mut self, at: i64) {
        self.next_at = at;
    }

    /// Compares the next group and the next id, if it is time.
    ///
    /// # Errors
    /// One that differs.
    pub(super) fn turn(
        &mut self,
        now: i64,
        slots: &mut Slots,
        transactions: &dyn TransactionCoordinators,
    ) -> Result<(), String> {
        if now < self.next_at {
            return Ok(());
        }
        self.next_at = now.saturating_add(AUDIT_INTERVAL_MS);
        let (audited, found) = slots.audit_after(self.last.take());
        self.last = audited;
        found.map_err(|divergence| divergence.to_string())?;
        self.audit_id(transactions)
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
}
