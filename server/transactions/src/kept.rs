//! Commits that are kept because partitions may lack their markers (`markers.rs`). The record of
//! the next transaction erases the last outcome, so that record also lists the kept commits. When
//! an offline partition is served again, its slot reports the transactions that are still open
//! there. The kept commits among them then get their markers.

use crate::coordinator::Coordinator;
use crate::entry::Entry;
use crate::ids::Seen;
use crate::limits::KEPT_COMMITS_MAX;
use crate::markers::Markers;
use crate::message::{Known, Producer};
use crate::state::{Durable, EPOCH_PER_TRANSACTION, State};
use alloc::vec::Vec;
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::KeptCommit;

impl Coordinator {
    /// Whether the last transaction and the next one have the same epoch while a partition may lack
    /// the marker of the last one. Then a report of that partition could mean either of them.
    pub(crate) fn is_ambiguous(&self, id: &str, entry: &Entry) -> bool {
        let markers = self.markers(id, &entry.durable, entry.record);
        !entry.durable.has_epochs() && markers == Markers::LastMayLack
    }

    /// Whether partitions may still need the outcome of a transaction of this id, which has
    /// expired.
    pub(crate) fn may_need_outcomes(&self, seen: &Seen<'_>) -> bool {
        match self.markers(seen.id, &seen.durable, seen.record()) {
            Markers::AllWritten => false,
            Markers::EarlierMayLack => !seen.durable.kept().is_empty(),
            Markers::LastMayLack => true,
        }
    }

    /// The commits that the next record must name.
    pub(crate) fn kept_after(&self, id: &str, next: &Durable) -> Vec<KeptCommit> {
        let Some(entry) = self.ids.get(id) else { return Vec::new() };
        let durable = &entry.durable;
        let markers = self.markers(id, durable, entry.record);
        let mut kept = match markers {
            Markers::AllWritten => Vec::new(),
            Markers::EarlierMayLack | Markers::LastMayLack => durable.kept().to_vec(),
        };
        let is_erased =
            durable.state == State::CompleteCommit && next.state != State::CompleteCommit;
        if is_erased && markers == Markers::LastMayLack {
            kept.push(durable.last_marker());
        }
        let too_many = kept.len().saturating_sub(KEPT_COMMITS_MAX);
        kept.drain(..too_many);
        kept
    }

    fn markers(&self, id: &str, durable: &Durable, record: u32) -> Markers {
        let known = self.written_markers.get(id, durable, record);
        if self.has_all_reports { known } else { known.max(Markers::EarlierMayLack) }
    }
}

impl Durable {
    /// The marker of the transaction that has been decided and is ending, else of the one that
    /// ended last.
    pub(crate) fn last_marker(&self) -> KeptCommit {
        let is_rotated = self.has_epochs() && self.epoch == 0;
        let (producer_id, producer_epoch) = if is_rotated {
            (self.previous_producer_id, i16::MAX)
        } else {
            (self.producer_id, self.epoch)
        };
        KeptCommit { producer_id, producer_epoch, transaction_version: self.client_version }
    }

    /// The fate of a producer's transaction that a partition reports as open, if that transaction
    /// is one of the kept commits.
    pub(crate) fn kept_fate(&self, producer: Producer) -> Option<Known> {
        let kept = self.kept().iter().find(|it| ends(it, producer))?;
        Some(decided(kept, TransactionOutcome::Commit))
    }
}

/// Whether a marker ends the transaction of a producer.
pub(crate) fn ends(marker: &KeptCommit, producer: Producer) -> bool {
    let has_epochs = i16::from(marker.transaction_version) == EPOCH_PER_TRANSACTION;
    let epoch = producer.epoch.checked_add(i16::from(has_epochs));
    marker.producer_id == producer.id && epoch == Some(marker.producer_epoch)
}

pub(crate) fn decided(marker: &KeptCommit, outcome: TransactionOutcome) -> Known {
    let producer = Producer { id: marker.producer_id, epoch: marker.producer_epoch };
    Known::Decided { producer, outcome, version: marker.transaction_version }
}
