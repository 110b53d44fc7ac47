//! Reports: after a slot or the coordinator was loaded, the slot names the transactions that are
//! open in its partitions.
//!
//! Two things that a crash may lose are known only to the slots. A transaction may have lost its
//! Ongoing record, because a partition appends before the record is durable. A decided transaction
//! may have lost a marker, because Complete does not wait until the marker is synced. Until all
//! slots have reported, no transaction is decided.

use crate::context::{Context, Slot};
use crate::coordinator::Coordinator;
use crate::kept::{decided, ends};
use crate::message::{Known, OpenIn, Producer, Report, Reported, ToSlotBody};
use crate::output::Output;
use crate::partition_set::PartitionSet;
use crate::state::{Durable, EPOCH_PER_TRANSACTION};
use crate::text::Text;
use alloc::vec::Vec;
use muster_codec::record_batch::TransactionOutcome;

/// The fate of a reported transaction.
enum Fate {
    /// The transaction continues, and includes this partition.
    Continues,
    Decided(Known),
}

impl Coordinator {
    /// Requests reports from the slots that have not reported.
    pub(crate) fn ask_for_reports(&mut self, context: &Context<'_>, out: &mut Output) {
        let coordinator_epoch = self.epoch;
        for slot in (0..context.topics.slots()).filter(|slot| !self.sessions.contains_key(slot)) {
            out.send(slot, 0, 0, ToSlotBody::ReportWanted { coordinator_epoch });
        }
        self.check_reports(context, out);
        if !self.has_all_reports {
            self.timers.resend_after(context.now);
        }
    }

    fn check_reports(&mut self, context: &Context<'_>, out: &mut Output) {
        let slots = context.topics.slots();
        self.has_all_reports = (0..slots).all(|slot| self.sessions.contains_key(&slot));
        if self.has_all_reports {
            self.waits.others_arrived();
            self.open.iter().for_each(|id| self.record_joined(id, out));
        }
    }

    /// Handles a report. The first report of a slot counts only if it answers a request of this
    /// coordinator: an older one lacks the transactions that began after it was made. A later
    /// report counts if the slot's session is the same or a later one. A repeated report is
    /// answered again, because the first answer may be lost.
    pub(crate) fn report(&mut self, context: &mut Context<'_>, report: &Report, out: &mut Output) {
        let is_fresh = match self.sessions.get(&report.slot) {
            Some(known) => *known <= report.session,
            None => report.coordinator_epoch == self.epoch,
        };
        if !is_fresh {
            return;
        }
        let is_new = self.sessions.insert(report.slot, report.session) != Some(report.session);
        if is_new {
            self.written_markers.note_report(report, self.records);
        }
        let known = self.look_up(context, &report.open, out);
        let reported = Reported { stamp: self.stamp(), number: report.number, known };
        self.send(report.slot, self.written_at, ToSlotBody::Reported(reported), out);
        if is_new {
            // If a transaction's record is lost, only the reports of its partitions show the whole
            // transaction. A partition that does not report may have been one of them.
            let lacks_some = !self.has_all_reports && !report.is_whole;
            self.may_have_lost_writes |= report.may_have_lost_writes || lacks_some;
            self.send_again_to(context, report.slot, out);
        }
        if !self.has_all_reports {
            self.check_reports(context, out);
        }
    }

    /// The fates of reported transactions. There is no index by producer id: reports are rare, so
    /// this visits all ids instead. For an unloaded id it compares the current and the previous
    /// producer id, as an id at rest has no others.
    fn look_up(
        &mut self,
        context: &Context<'_>,
        open: &[OpenIn],
        out: &mut Output,
    ) -> Vec<(Producer, Known)> {
        if open.is_empty() {
            return Vec::new();
        }
        let mut by_id: Vec<&OpenIn> = open.iter().collect();
        by_id.sort_by_key(|it| it.producer);
        let reported_of = |producer_id: i64| {
            let from = by_id.partition_point(|it| it.producer.id < producer_id);
            by_id[from..].iter().take_while(move |it| it.producer.id == producer_id)
        };
        self.ids.load_producers(|producer_id| reported_of(producer_id).next().is_some());
        let mut found = Found::default();
        for (id, entry) in self.ids.loaded() {
            let reported = entry.durable.producer_ids().flat_map(reported_of);
            found.add(id, &entry.durable, reported.copied());
        }
        let Found { mut known, joined, unsynced, marked_again } = found;
        known.dedup();
        marked_again.iter().for_each(|id| self.written_markers.was_missing(id));
        for (id, topic, partition) in unsynced {
            self.note_unsynced(&id, &topic, partition);
        }
        self.join(context, &joined, out);
        known
    }

    /// Adds partitions that slots have reported to the transactions of their ids. Writes a record
    /// for that, unless the record must wait.
    fn join(&mut self, context: &Context<'_>, joined: &[(Text, PartitionSet)], out: &mut Output) {
        for (id, added) in joined {
            let Some(entry) = self.ids.get(id) else { continue };
            if self.keeps_outcome(entry) || entry.durable.state.prepared().is_some() {
                self.join_without_record(context, id, added);
                self.wait_until_settled(context, id, out);
            } else {
                let durable = entry.durable.ongoing(added, EPOCH_PER_TRANSACTION, context.wall);
                self.write(id, Some(&durable), out);
            }
        }
    }

    /// Notes that a partition gets a marker again, and that this marker must be synced before the
    /// next decision. While the id's markers are being written, nothing needs to be noted: the id
    /// awaits the acknowledgement of this marker, too.
    fn note_unsynced(&mut self, id: &Text, topic: &str, partition: i32) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        if entry.durable.state.completed().is_some() {
            entry.active().unsynced.insert(topic, partition);
            self.open.insert(id.clone());
        }
    }

    /// Sends a slot all messages that it has not answered.
    fn send_again_to(&mut self, context: &Context<'_>, slot: Slot, out: &mut Output) {
        let ids: Vec<Text> = self.under_way.values().cloned().collect();
        for id in ids {
            self.resend(context, &id, Some(slot), out);
        }
    }
}

/// The fates of reported transactions, and the resulting changes.
#[derive(Default)]
struct Found {
    known: Vec<(Producer, Known)>,
    /// For each id, partitions that have joined its transaction, but that are missing from its
    /// record.
    joined: Vec<(Text, PartitionSet)>,
    /// Partitions whose marker must be synced before the next decision: id, topic, partition.
    unsynced: Vec<(Text, Text, i32)>,
    /// Ids for which a partition lacked the marker of a commit.
    marked_again: Vec<Text>,
}

impl Found {
    /// Adds the reported transactions of an id's producers.
    fn add<'r>(
        &mut self,
        id: &Text,
        durable: &Durable,
        reported: impl Iterator<Item = &'r OpenIn>,
    ) {
        let mut added = PartitionSet::default();
        for open in reported {
            let kept = durable.kept_fate(open.producer);
            let known = match kept.map_or_else(|| fate(durable, open.producer), Fate::Decided) {
                Fate::Continues => {
                    added.insert(&open.topic, open.partition);
                    Known::Open
                }
                Fate::Decided(decided) => {
                    self.add_decided(id, durable, open, decided);
                    decided
                }
            };
            self.known.push((open.producer, known));
        }
        // In the states Prepare*, `partitions` are those of the transaction that is ending, and the
        // reported ones have joined the next.
        let own = durable.partitions().filter(|_| durable.state.prepared().is_none());
        if !added.is_empty() && !own.is_some_and(|own| own.contains_all(&added)) {
            self.joined.push((id.clone(), added));
        }
    }

    fn add_decided(&mut self, id: &Text, durable: &Durable, open: &OpenIn, decided: Known) {
        if is_commit(decided) {
            self.marked_again.push(id.clone());
        }
        if must_be_synced(durable, decided) {
            self.unsynced.push((id.clone(), open.topic.clone(), open.partition));
        }
    }
}

fn is_commit(known: Known) -> bool {
    matches!(known, Known::Decided { outcome: TransactionOutcome::Commit, .. })
}

fn must_be_synced(durable: &Durable, known: Known) -> bool {
    matches!(known, Known::Decided { outcome, .. } if durable.keeps_markers_of(outcome))
}

/// The fate of a transaction that is open in a partition. `producer` is the transaction's; its id
/// is the current or the previous producer id of `durable`.
fn fate(durable: &Durable, producer: Producer) -> Fate {
    let is_present = producer.id == durable.producer_id && producer.epoch == durable.epoch;
    let is_next = match durable.state.prepared() {
        Some(_) => durable.next_identity() == producer,
        None => is_present,
    };
    let marker = durable.last_marker();
    match durable.state.prepared().or(durable.state.completed()) {
        None if is_present => Fate::Continues,
        // The crash lost the record of the next transaction, and perhaps the Complete record of the
        // last one. Only in transaction version 2 do partitions append without waiting for the
        // record.
        Some(_) if is_next && durable.has_epochs() => Fate::Continues,
        Some(outcome) if ends(&marker, producer) => Fate::Decided(decided(&marker, outcome)),
        Some(_) | None => {
            let (outcome, version) = (TransactionOutcome::Abort, 0);
            Fate::Decided(Known::Decided { producer, outcome, version })
        }
    }
}
