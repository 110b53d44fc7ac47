//! Transactions after a loss of writes: the machine has lost its memory, or a partition was offline
//! before all slots had reported.

use crate::entry::Entry;
use crate::exceptions::Exceptions;
use crate::state::State;
use crate::text::Text;

/// Whether the transaction of an id has what was written to it first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Beginning {
    #[default]
    Whole,
    /// None is known, but one may have begun, and be lost with its record: the next partition that
    /// is added may not be its first.
    MayBeLost,
    /// It was open, and has to be aborted.
    Lost,
}

impl Beginning {
    /// That of the transaction after a record of its id.
    fn recorded(self, before: State, after: State) -> Self {
        // The end of the last transaction says nothing about the next one, which may have begun.
        let ends_last = before.prepared().is_some() && after.completed().is_some();
        match self {
            Self::MayBeLost if ends_last => Self::MayBeLost,
            Self::Lost if ends_last || after == State::Ongoing => Self::Lost,
            Self::Whole | Self::MayBeLost | Self::Lost => Self::Whole,
        }
    }
}

/// The beginnings of all transactions, since the coordinator was loaded.
#[derive(Debug, Default)]
pub(crate) struct Beginnings {
    /// The last position when writes were lost. Ids without a record after it are `MayBeLost`.
    lost_at: Option<u64>,
    /// Those of other ids, and `Lost` ones.
    exceptions: Exceptions<Beginning>,
    /// Number of `Lost` ones.
    lost: usize,
}

impl Beginnings {
    /// Notes that writes were lost, with the last position, and the ids with open transactions.
    pub(crate) fn lose(&mut self, position: u64, open: impl Iterator<Item = Text>) {
        *self = Self { lost_at: Some(position), ..Self::default() };
        open.for_each(|id| self.set(&id, Beginning::Lost));
    }

    pub(crate) fn get(&self, id: &str, written_at: u64) -> Beginning {
        let known = self.exceptions.get(id);
        let is_before = self.lost_at.is_some_and(|at| written_at <= at);
        if known == Beginning::Whole && is_before { Beginning::MayBeLost } else { known }
    }

    /// Whether one is `Lost`.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Notes a record of an id, of which `before` is the state until then.
    pub(crate) fn recorded(&mut self, id: &str, before: &Entry, after: State) {
        let beginning = self.get(id, before.written_at);
        self.set(id, beginning.recorded(before.durable.state, after));
    }

    /// Notes that an id was removed.
    pub(crate) fn remove(&mut self, id: &str) {
        self.set(id, Beginning::Whole);
    }

    fn set(&mut self, id: &str, beginning: Beginning) {
        let before = self.exceptions.set(id, beginning);
        self.lost += usize::from(beginning == Beginning::Lost);
        self.lost -= usize::from(before == Beginning::Lost);
    }
}
