//! The audit of groups: one after the other is compared with the state to which its records
//! replay, without the log.

use super::slots::{Audited, Slots};
use muster_coordinator::Divergence;

/// How often a group is compared.
const AUDIT_INTERVAL_MS: i64 = 1_000;

/// The progress of the audit.
#[derive(Debug)]
pub(super) struct Audit {
    last: Audited,
    next_at: i64,
}

impl Audit {
    pub(super) fn new(now: i64) -> Self {
        Self { last: None, next_at: now.saturating_add(AUDIT_INTERVAL_MS) }
    }

    /// Delays the next comparison.
    pub(super) fn not_before(&mut self, at: i64) {
        self.next_at = at;
    }

    /// Compares the next group, if it is time.
    ///
    /// # Errors
    /// It differs.
    pub(super) fn turn(&mut self, now: i64, slots: &mut Slots) -> Result<(), Divergence> {
        if now < self.next_at {
            return Ok(());
        }
        self.next_at = now.saturating_add(AUDIT_INTERVAL_MS);
        let (audited, found) = slots.audit_after(self.last.take());
        self.last = audited;
        found
    }
}
