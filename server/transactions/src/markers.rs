//! Whether partitions have the markers of the transactions that ended: those that are offline may
//! lack them.
//!
//! A partition goes offline at a load, and no transaction that it is part of is committed from
//! then on. So the last commit before a load may lack a marker; later ones do not, unless a
//! partition was found offline when its marker came.

use crate::context::Slot;
use crate::exceptions::Exceptions;
use crate::message::Report;
use crate::state::Durable;
use alloc::collections::BTreeSet;

/// Whether partitions have the markers of an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Markers {
    #[default]
    AllWritten,
    /// A partition may lack that of a commit before the last transaction.
    EarlierMayLack,
    /// A partition may lack that of the last transaction, and of commits before it.
    LastMayLack,
}

impl Markers {
    /// Those of an id after a record of it.
    fn recorded(self, after: &Durable) -> Self {
        // Markers may be answered before Complete is written.
        if self == Self::LastMayLack && after.state.completed().is_some() {
            Self::LastMayLack
        } else if after.kept().is_empty() {
            Self::AllWritten
        } else {
            self.min(Self::EarlierMayLack)
        }
    }
}

/// The markers of all ids, since the coordinator was loaded.
#[derive(Debug, Default)]
pub(crate) struct WrittenMarkers {
    /// Slots with partitions that are offline.
    offline: BTreeSet<Slot>,
    /// The position when one was reported last: the last transaction of an id without a record
    /// after it may lack a marker.
    offline_at: Option<u64>,
    /// Those of ids of which a marker was found missing.
    exceptions: Exceptions<Markers>,
}

impl WrittenMarkers {
    /// Notes whether all partitions of a slot that was loaded are served.
    pub(crate) fn note_report(&mut self, report: &Report, position: u64) {
        if report.is_whole {
            self.offline.remove(&report.slot);
        } else {
            self.offline.insert(report.slot);
            self.offline_at = Some(position);
        }
    }

    /// Notes that a partition that is offline lacks the marker of the last transaction.
    pub(crate) fn last_is_missing(&mut self, id: &str) {
        self.exceptions.set(id, Markers::LastMayLack);
    }

    /// Notes that a partition that is served again gets the marker of a commit. It may not be on
    /// stable storage when the next transaction ends: the commit is kept until the next load.
    pub(crate) fn was_missing(&mut self, id: &str) {
        let known = self.exceptions.get(id);
        self.exceptions.set(id, known.max(Markers::EarlierMayLack));
    }

    pub(crate) fn get(&self, id: &str, durable: &Durable, written_at: u64) -> Markers {
        let found = self.exceptions.get(id);
        let is_before = self.offline_at.is_some_and(|at| written_at <= at);
        if durable.state.completed().is_some() && (is_before || found == Markers::LastMayLack) {
            Markers::LastMayLack
        } else if found == Markers::AllWritten && self.offline.is_empty() {
            Markers::AllWritten
        } else {
            Markers::EarlierMayLack
        }
    }

    /// Notes a record of an id.
    pub(crate) fn recorded(&mut self, id: &str, after: &Durable) {
        let known = self.exceptions.get(id);
        self.exceptions.set(id, known.recorded(after));
    }

    /// Notes that an id was removed.
    pub(crate) fn remove(&mut self, id: &str) {
        self.exceptions.set(id, Markers::AllWritten);
    }
}
