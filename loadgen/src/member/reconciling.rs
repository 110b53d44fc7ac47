//! An assignment that the member adopts once it has given up the partitions that it loses.

use std::time::Duration;

use crate::time::Time;

pub(super) struct Reconciling<T> {
    /// The time until which the member gives up partitions, and the assignment that it then adopts.
    pending: Option<(Time, T)>,
}

impl<T> Reconciling<T> {
    pub(super) fn nothing() -> Self {
        Self { pending: None }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_none()
    }

    pub(super) fn until(&self) -> Option<Time> {
        self.pending.as_ref().map(|(until, _)| *until)
    }

    pub(super) fn assigned(&self) -> Option<&T> {
        self.pending.as_ref().map(|(_, assigned)| assigned)
    }

    /// Begins to give up partitions. Returns the assignment at once if that takes no time.
    pub(super) fn begin(&mut self, assigned: T, takes: Duration, now: Time) -> Option<T> {
        if takes.is_zero() {
            return Some(assigned);
        }
        self.pending = Some((now + takes, assigned));
        None
    }

    /// Returns the assignment if the partitions are given up by now.
    pub(super) fn done(&mut self, now: Time) -> Option<T> {
        let (_, assigned) = self.pending.take_if(|(until, _)| *until <= now)?;
        Some(assigned)
    }
}
