//! The audit of the groups of a shard, and the end of a shard whose groups are in an unexpected
//! state: it is loaded again from its log.

use super::slots::Audited;
use super::{Command, Shard};
use tracing::error;

/// How often a group is compared with the state to which its records replay.
const AUDIT_INTERVAL_MS: i64 = 1_000;

/// The progress of the audit, and whether the shard has failed it or another check.
#[derive(Debug)]
pub(crate) struct Audit {
    last: Audited,
    next_at: i64,
    /// Why the shard is to fail, though nothing was found.
    given_up: Option<String>,
    is_failed: bool,
}

impl Audit {
    pub(crate) fn new(now: i64) -> Self {
        let next_at = now.saturating_add(AUDIT_INTERVAL_MS);
        Self { last: None, next_at, given_up: None, is_failed: false }
    }

    pub(crate) fn not_before(&mut self, at: i64) {
        self.next_at = at;
    }

    /// Whether the shard must not continue.
    pub(crate) fn is_failed(&self) -> bool {
        self.is_failed
    }
}

impl Shard {
    /// Makes the shard fail at the end of this turn, as if a check had found something: to try how
    /// it is loaded again.
    pub fn give_up(&mut self, reason: &str) {
        self.audit.given_up = Some(reason.to_owned());
    }

    /// Whether the groups were found in an unexpected state: then nothing of this turn is written
    /// to the log or answered, and this turn is the last. The shard is loaded again from the log.
    pub(crate) fn has_failed(&mut self) -> bool {
        let damage = self.groups.slots.damage().map(ToString::to_string);
        if let Some(damage) = damage {
            self.fail(format!("the snapshot is damaged: {damage}; it is loaded again without it"));
        }
        if let Some(reason) = self.audit.given_up.take() {
            self.fail(format!("{reason}; it is loaded again from the log"));
        }
        if let Some(found) = self.log_check.take_found() {
            self.fail(format!("{found}; it is loaded again from it"));
        }
        self.audit.is_failed
    }

    /// Compares one group with the state to which its records replay, from time to time.
    pub(crate) fn audit(&mut self) {
        if self.now < self.audit.next_at || !self.checks_state() {
            return;
        }
        self.audit.next_at = self.now.saturating_add(AUDIT_INTERVAL_MS);
        let (audited, found) = self.groups.slots.audit_after(self.audit.last.take());
        self.audit.last = audited;
        if let Err(divergence) = found {
            self.fail(format!("{divergence}; it is loaded again from the log"));
        }
    }

    fn fail(&mut self, reason: String) {
        if std::mem::replace(&mut self.audit.is_failed, true) {
            return;
        }
        error!("shard {}: {reason}", self.number);
        let aside = self.snapshots.put_aside();
        self.commands.extend(aside.map(Command::File));
    }
}
