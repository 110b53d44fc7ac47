//! The rounds in progress at a leader. A round asks a quorum whether the leader still leads. raft
//! forgets it silently when the role or the term changes, and when its messages are lost for long.
//! So each round ends here in one of three ways: it is confirmed, the role or term changes, or an
//! election timeout has passed.

use crate::Round;
use crate::ranks::ELECTION_TICKS;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Rounds {
    last: u64,
    /// The rounds in progress, with the ticks since they began.
    pending: VecDeque<(Round, u32)>,
}

impl Rounds {
    pub(crate) fn begin(&mut self) -> Round {
        let round = self.next();
        self.last = round.0;
        self.pending.push_back((round, 0));
        round
    }

    /// The round that begins next.
    pub(crate) fn next(&self) -> Round {
        Round(self.last + 1)
    }

    /// Whether a confirmed round was still in progress.
    pub(crate) fn confirm(&mut self, round: Round) -> bool {
        let place = self.pending.iter().position(|(it, _)| *it == round);
        place.is_some_and(|place| self.pending.remove(place).is_some())
    }

    /// A tick has passed. Takes out the rounds that are now as old as an election timeout: they
    /// have failed.
    pub(crate) fn tick(&mut self) -> impl Iterator<Item = Round> {
        self.pending.iter_mut().for_each(|(_, age)| *age += 1);
        let failed = self.pending.iter().take_while(|(_, age)| *age >= ELECTION_TICKS).count();
        self.pending.drain(..failed).map(|(round, _)| round)
    }

    /// All rounds have failed.
    pub(crate) fn fail(&mut self) -> impl Iterator<Item = Round> {
        self.pending.drain(..).map(|(round, _)| round)
    }
}
