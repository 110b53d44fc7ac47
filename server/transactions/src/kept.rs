//! Commits whose markers partitions that are offline may lack. The record of the next transaction
//! erases the outcome of the last one, so it names these commits: a partition that is served again
//! reports their transactions as open, and gets the markers.
//!
//! A partition goes offline at a load, and no transaction that it is part of is committed from
//! then on. So the last commit before a load may be one of these; later ones may not.

use crate::coordinator::Coordinator;
use crate::entry::Entry;
use crate::ids::Seen;
use crate::limits::KEPT_COMMITS_MAX;
use crate::message::{Known, Producer, Report};
use crate::state::{Durable, EPOCH_PER_TRANSACTION, State};
use alloc::vec::Vec;
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::KeptCommit;

impl Coordinator {
    /// Notes whether all partitions of a slot that was loaded are served.
    pub(crate) fn note_offline(&mut self, report: &Report) {
        if report.is_whole {
            self.not_whole.remove(&report.slot);
        } else {
            self.not_whole.insert(report.slot);
            self.not_whole_at = Some(self.written_at);
        }
    }

    /// Whether a partition may lack the marker of the transaction that ended last.
    pub(crate) fn may_lack_marker(&self, entry: &Entry) -> bool {
        let is_found = entry.active.as_ref().is_some_and(|active| active.lacks_marker);
        let is_before = self.not_whole_at.is_some_and(|at| entry.written_at <= at);
        entry.durable.state.completed().is_some() && (is_found || is_before)
    }

    /// Whether a transaction that a partition reports could be that which ended last or the next
    /// one: both have the same epoch.
    pub(crate) fn is_ambiguous(&self, entry: &Entry) -> bool {
        !entry.durable.has_epochs() && self.may_lack_marker(entry)
    }

    /// Whether the outcome of an id may be needed that is not used any more.
    pub(crate) fn may_need_outcomes(&self, seen: &Seen<'_>) -> bool {
        let may_lack_marker = match seen.entry {
            Some(entry) => self.may_lack_marker(entry),
            // Unloaded: from before all reports.
            None => self.not_whole_at.is_some() && seen.durable.state.completed().is_some(),
        };
        may_lack_marker || (!seen.durable.kept().is_empty() && !self.are_all_marked(seen.id))
    }

    /// The commits that a record names which takes the place of the present one.
    pub(crate) fn kept_after(&self, id: &str, next: &Durable) -> Vec<KeptCommit> {
        let Some(entry) = self.ids.get(id) else { return Vec::new() };
        let durable = &entry.durable;
        let mut kept = if self.are_all_marked(id) { Vec::new() } else { durable.kept().to_vec() };
        let is_erased =
            durable.state == State::CompleteCommit && next.state != State::CompleteCommit;
        if is_erased && self.may_lack_marker(entry) {
            kept.push(durable.last_marker());
        }
        let too_many = kept.len().saturating_sub(KEPT_COMMITS_MAX);
        kept.drain(..too_many);
        kept
    }

    /// Whether all partitions have the markers of the commits of this id before the last one: they
    /// are served, and none had such a transaction open. Markers that were written since their
    /// reports may not be on stable storage, so that these commits are kept until the next load.
    fn are_all_marked(&self, id: &str) -> bool {
        self.has_all_reports && self.not_whole.is_empty() && !self.marked_again.contains(id)
    }
}

impl Durable {
    /// The marker of the transaction that is decided, or ended last.
    pub(crate) fn last_marker(&self) -> KeptCommit {
        let is_rotated = self.has_epochs() && self.epoch == 0;
        let (producer_id, producer_epoch) = if is_rotated {
            (self.previous_producer_id, i16::MAX)
        } else {
            (self.producer_id, self.epoch)
        };
        KeptCommit { producer_id, producer_epoch, transaction_version: self.client_version }
    }

    /// The fate of a transaction that a partition has open, if it is one of the kept commits.
    pub(crate) fn kept_fate(&self, producer: Producer) -> Option<Known> {
        let kept = self.kept().iter().find(|it| ends(it, producer))?;
        Some(decided(kept, TransactionOutcome::Commit))
    }
}

/// Whether a marker is that of a transaction.
pub(crate) fn ends(marker: &KeptCommit, producer: Producer) -> bool {
    let has_epochs = i16::from(marker.transaction_version) == EPOCH_PER_TRANSACTION;
    let epoch = producer.epoch.checked_add(i16::from(has_epochs));
    marker.producer_id == producer.id && epoch == Some(marker.producer_epoch)
}

pub(crate) fn decided(marker: &KeptCommit, outcome: TransactionOutcome) -> Known {
    let producer = Producer { id: marker.producer_id, epoch: marker.producer_epoch };
    Known::Decided { producer, outcome, version: marker.transaction_version }
}
