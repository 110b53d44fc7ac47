//! The rounds of a group that prove that its leader leads.

use muster_replication::Round;

/// The rounds of a group.
#[derive(Debug)]
pub(super) struct Rounds {
    /// The last round that began, and the last one that was confirmed.
    pub(super) begun: Round,
    pub(super) confirmed: Round,
    pub(super) is_under_way: bool,
    /// Whether tickets wait for the next round.
    pub(super) is_wanted: bool,
}

impl Rounds {
    pub(super) fn new() -> Self {
        Self { begun: Round(0), confirmed: Round(0), is_under_way: false, is_wanted: false }
    }

    /// Whether a ticket may wait for a proof.
    pub(super) fn are_awaited(&self) -> bool {
        self.is_under_way || self.is_wanted
    }

    /// A round has ended. Returns whether the next one is wanted.
    pub(super) fn end(&mut self, round: Round, is_confirmed: bool) -> bool {
        if is_confirmed {
            self.confirmed = self.confirmed.max(round);
        }
        self.is_under_way &= round < self.begun;
        self.is_wanted && !self.is_under_way
    }
}
