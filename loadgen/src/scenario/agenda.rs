//! What is to happen at which moment of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::conductor::Cause;
use crate::event::Stop;
use crate::plan::{GroupIndex, MemberIndex};
use crate::time::Time;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// `again`: it comes back from a stop.
    Start { member: MemberIndex, again: bool },
    /// `returns`: it is started again so long after it has stopped.
    Stop { member: MemberIndex, how: Stop, returns: Option<Duration> },
    /// Tells the measures what is about to happen.
    Announce { group: GroupIndex, cause: Cause },
}

/// Acts in order of time; those of one moment in the order in which they were put in.
#[derive(Default, Debug)]
pub(super) struct Agenda {
    acts: BTreeMap<(Time, u64), Act>,
    next: u64,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Time, act: Act) {
        self.acts.insert((at, self.next), act);
        self.next += 1;
    }

    /// Takes the first act that is due at `until`, or before.
    pub(super) fn take(&mut self, until: Time) -> Option<(Time, Act)> {
        let entry = self.acts.first_entry()?;
        let at = entry.key().0;
        (at <= until).then(|| (at, entry.remove()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }

    /// When the last act is due.
    pub(super) fn last(&self) -> Option<Time> {
        self.acts.last_key_value().map(|((at, _), _)| *at)
    }
}
