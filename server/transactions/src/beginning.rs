//! Transactions after a loss of writes: the machine lost its memory, or a partition was offline
//! before all slots had reported.

use crate::entry::Entry;
use crate::exceptions::Exceptions;
use crate::state::State;
use crate::text::Text;

/// Whether the first writes of an id's current transaction are still there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Beginning {
    #[default]
    Whole,
    /// No transaction is known. But a transaction may have begun, and may have been lost together
    /// with its record. Then the next partition to be added is not the transaction's first.
    MayBeLost,
    /// The transaction was open when writes were lost. It must be aborted.
    Lost,
}

impl Beginning {
    /// The beginning after a record has changed the id's state from `before` to `after`.
    fn recorded(self, before: State, after: State) -> Self {
        // A record that ends the last transaction does not show whether the next one has begun.
        let ends_last = before.prepared().is_some() && after.completed().is_some();
        match self {
            Self::MayBeLost if ends_last => Self::MayBeLost,
            Self::Lost if ends_last || after == State::Ongoing => Self::Lost,
            Self::Whole | Self::MayBeLost | Self::Lost => Self::Whole,
        }
    }
}

/// The beginnings of all ids, since the coordinator was loaded.
#[derive(Debug, Default)]
pub(crate) struct Beginnings {
    /// How many records the coordinator had applied when it noted the loss of writes. Ids without a
    /// later record are `MayBeLost`, unless they are in `exceptions`.
    lost_at: Option<u32>,
    /// Beginnings that are not `Whole` and do not follow from `lost_at`.
    exceptions: Exceptions<Beginning>,
    /// The number of ids that are `Lost`.
    lost: usize,
}

impl Beginnings {
    /// Notes that writes were lost. `records` is how many records the coordinator has applied;
    /// `open` are the ids with open transactions.
    pub(crate) fn lose(&mut self, records: u32, open: impl Iterator<Item = Text>) {
        *self = Self { lost_at: Some(records), ..Self::default() };
        open.for_each(|id| self.set(&id, Beginning::Lost));
    }

    pub(crate) fn get(&self, id: &str, record: u32) -> Beginning {
        let known = self.exceptions.get(id);
        let is_before = self.lost_at.is_some_and(|at| record <= at);
        if known == Beginning::Whole && is_before { Beginning::MayBeLost } else { known }
    }

    /// Whether any id is `Lost`.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Notes a record of an id. `before` is the entry before the record.
    pub(crate) fn recorded(&mut self, id: &str, before: &Entry, after: State) {
        let beginning = self.get(id, before.record);
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
