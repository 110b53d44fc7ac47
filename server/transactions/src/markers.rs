//! Notes which transactional ids have ended a transaction while some partition may lack its marker.
//! Only an offline partition can lack a marker.
//!
//! A partition goes offline only when its shard is loaded. From then on, every transaction that
//! includes the partition is aborted, because the partition cannot be synced. So of each id's
//! commits only the last one before the load may lack a marker. There is one exception: the syncs
//! of a commit were done before the load, but its marker arrives after the load.

use crate::context::Slot;
use crate::exceptions::Exceptions;
use crate::message::Report;
use crate::state::Durable;
use alloc::collections::BTreeSet;

/// Whether partitions may lack markers of an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Markers {
    #[default]
    AllWritten,
    /// A partition may lack the marker of a commit before the last transaction.
    EarlierMayLack,
    /// A partition may lack the marker of the last transaction. Markers of earlier commits may be
    /// missing, too.
    LastMayLack,
}

impl Markers {
    /// The new value when a record has changed the id's state to `after`.
    fn recorded(self, after: &Durable) -> Self {
        // A slot may report a missing marker before the Complete record is written. So this record
        // does not change such a value.
        if self == Self::LastMayLack && after.state.completed().is_some() {
            Self::LastMayLack
        } else if after.kept().is_empty() {
            Self::AllWritten
        } else {
            self.min(Self::EarlierMayLack)
        }
    }
}

/// The ids that may lack markers, by what was learned since the coordinator was loaded.
#[derive(Debug, Default)]
pub(crate) struct WrittenMarkers {
    /// The slots that have offline partitions.
    offline: BTreeSet<Slot>,
    /// How many records the coordinator had applied when a slot last reported offline partitions.
    /// If an id has no later record, its last transaction may lack a marker.
    offline_at: Option<u32>,
    /// The ids of which a partition was found to lack a marker.
    exceptions: Exceptions<Markers>,
}

impl WrittenMarkers {
    /// Notes whether all partitions of a slot that was loaded are served.
    pub(crate) fn note_report(&mut self, report: &Report, records: u32) {
        if report.is_whole {
            self.offline.remove(&report.slot);
        } else {
            self.offline.insert(report.slot);
            self.offline_at = Some(records);
        }
    }

    /// Notes that an offline partition lacks the marker of the last transaction.
    pub(crate) fn last_is_missing(&mut self, id: &str) {
        self.exceptions.set(id, Markers::LastMayLack);
    }

    /// Notes that a partition lacked the marker of a commit and gets it now that it is served
    /// again. This marker may not be on stable storage when the next transaction ends. So the
    /// commit is kept until the next load.
    pub(crate) fn was_missing(&mut self, id: &str) {
        let known = self.exceptions.get(id);
        self.exceptions.set(id, known.max(Markers::EarlierMayLack));
    }

    pub(crate) fn get(&self, id: &str, durable: &Durable, record: u32) -> Markers {
        let found = self.exceptions.get(id);
        let is_before = self.offline_at.is_some_and(|at| record <= at);
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
