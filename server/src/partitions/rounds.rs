//! The work of coordinators in partitions. Before a decision and before reports, records are
//! synced. After a decision, markers are written. Transactions that a crash left open are ended.
//! Work that needs the disk is a *round*. A round ends with a message when all of its partitions
//! are done. Dead letters are appended in rounds, too (`dead_letters.rs`).

use super::disk::Disk;
use super::effects::{Effects, LettersEnd, OpenBySlot};
use super::happened::Waiter;
use super::partition_id::PartitionId;
use super::table::{NewMarker, Table};
use crate::cluster::transaction_slot;
use muster_codec::records::OFFSETS_TOPIC;
use muster_codec::{ErrorCode, Wall};
use muster_faults::Fault;
use muster_transactions::PartitionSet;
use muster_transactions::message::{FromSlot, Marker, OpenIn, Producer, Reported, Sync};
use muster_transactions::partition::End;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of syncs under way. Each may take a file descriptor that is not counted among
/// those of the open files.
pub(super) const SYNCS_AT_ONCE: usize = 64;

/// The work under way for coordinators.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The number of the last round.
    last: u64,
    all: BTreeMap<u64, Round>,
    /// The partitions that have to be synced, and the partitions whose sync is under way.
    to_sync: BTreeSet<PartitionId>,
    syncing: BTreeSet<PartitionId>,
}

#[derive(Debug)]
struct Round {
    /// The number of partitions that are not done.
    left: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Ends with a message to a coordinator.
    Message { coordinator: u32, message: FromSlot },
    /// Ends with a report of transactions: those open at the start of the round, and those open at
    /// its end.
    Report(OpenBySlot),
    /// Ends with the result for the batch of dead letters that has this number.
    Letters(u64),
}

impl Rounds {
    /// Syncs a transaction's records in the partitions of `sync`. Does not answer if the marker of
    /// an earlier commit may be missing. Then the coordinator sends the message again.
    pub(super) fn sync_transaction(
        &mut self,
        table: &mut Table,
        coordinator: u32,
        sync: Sync,
        out: &mut Effects,
    ) {
        let Sync { stamp, producer, partitions } = sync;
        let (ids, missing) = located(table, &partitions);
        let is_unanswered = |id: &PartitionId| {
            let partition = table.get(*id);
            partition.is_some_and(|it| it.producers.transactions.is_unanswered(producer.id))
        };
        if ids.iter().any(is_unanswered) {
            return;
        }
        let is_whole = missing.is_empty();
        let message = FromSlot::Synced { stamp, partitions, is_whole };
        self.sync_round(table, ids, Kind::Message { coordinator, message }, out);
    }

    /// Ends a transaction in the partitions of `marker`. The answer lacks partitions whose marker
    /// cannot be written now: for these the coordinator sends the marker again. Offline partitions
    /// report the transaction when they are served again.
    pub(super) fn mark_transaction(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        wall: Wall,
        coordinator: u32,
        marker: &Marker,
        out: &mut Effects,
    ) {
        let Marker { stamp, ref partitions, .. } = *marker;
        let new = NewMarker { wall, end: End::of(marker), stamp: Some(stamp) };
        let (ids, offline) = located(table, partitions);
        let mut missing = PartitionSet::default();
        let (number, mut left) = (self.next_round(), 0);
        for id in ids {
            match mark_written(table, disk, id, &new, number, out) {
                Ok(waits) => left += usize::from(waits),
                // As in Kafka, a coordinator that is fenced gives up the transaction.
                Err(ErrorCode::TransactionCoordinatorFenced) => {}
                Err(_) => {
                    let topic = table.image().topic_by_id(id.topic);
                    topic.into_iter().for_each(|topic| missing.insert(&topic.name, id.index));
                }
            }
        }
        let mut done = partitions.clone();
        done.remove_all(&missing);
        let is_whole = offline.is_empty();
        let message = FromSlot::Marked { stamp, partitions: done, is_synced: false, is_whole };
        self.begin(table, number, left, Kind::Message { coordinator, message }, out);
    }

    /// Syncs the records of open transactions, which then can be reported: see
    /// [`Effects::reports`].
    pub(super) fn sync_for_reports(&mut self, table: &mut Table, out: &mut Effects) {
        let ids = table.all().filter(|(_, it)| !it.producers.transactions.is_empty());
        let ids = ids.map(|(id, _)| id).collect();
        let open = open_by_slot(table);
        self.sync_round(table, ids, Kind::Report(open), out);
    }

    /// Handles a coordinator's answer to a report of the transactions in `open`, and writes the
    /// markers that some of them need. Returns false if a marker cannot be written now.
    pub(super) fn reported(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        wall: Wall,
        open: &[OpenIn],
        reported: &Reported,
        out: &mut Effects,
    ) -> bool {
        let mut are_written = true;
        let known: BTreeMap<_, _> = reported.known.iter().copied().collect();
        for OpenIn { producer, topic, partition } in open {
            let Some(fate) = known.get(producer).copied() else { continue };
            let Ok(id) = table.locate_for_coordinator(topic, *partition) else { continue };
            let end = table.reported(id, *producer, fate, reported.stamp);
            if let Some(end) = end {
                let new = NewMarker { wall, end, stamp: Some(reported.stamp) };
                are_written &= self.mark_unanswered(table, disk, id, &new, out);
            }
        }
        are_written
    }

    /// Aborts the slot's transactions that no coordinator knows. `coordinator_epoch` is higher than
    /// that of every earlier marker. Returns false if a marker cannot be written now.
    pub(super) fn abort_unknown(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        wall: Wall,
        slot: u32,
        coordinator_epoch: i32,
        out: &mut Effects,
    ) -> bool {
        let mut are_written = true;
        let all = open_by_slot(table).remove(&slot).unwrap_or_default();
        for OpenIn { producer, topic, partition } in all {
            let Ok(id) = table.locate_for_coordinator(&topic, partition) else { continue };
            let of = table.get(id).map(|it| &it.producers.transactions);
            if of.is_some_and(|it| it.is_unanswered(producer.id)) {
                let end = End::abort_of(producer, coordinator_epoch);
                let new = NewMarker { wall, end, stamp: None };
                are_written &= self.mark_unanswered(table, disk, id, &new, out);
            }
        }
        are_written
    }

    /// Writes a marker that no coordinator waits for. Returns false if the budget of unwritten
    /// bytes has no room now: then the transaction has to be reported again. All other refusals are
    /// final. The partition may be deleted or offline, or may have lost writes. Or an earlier
    /// marker (of an administrator, for example) had a higher coordinator epoch.
    fn mark_unanswered(
        &mut self,
        table: &mut Table,
        disk: &mut Disk,
        id: PartitionId,
        marker: &NewMarker,
        out: &mut Effects,
    ) -> bool {
        let number = self.next_round();
        let marked = table.mark(id, marker, Waiter::Round(number), disk, out);
        marked != Err(ErrorCode::RequestTimedOut)
    }

    fn sync_round(
        &mut self,
        table: &mut Table,
        ids: Vec<PartitionId>,
        kind: Kind,
        out: &mut Effects,
    ) {
        let (number, mut left) = (self.next_round(), 0);
        for id in ids {
            if table.await_sync(id, Waiter::Round(number)) {
                left += 1;
                self.to_sync.insert(id);
            }
        }
        self.begin(table, number, left, kind, out);
    }

    fn begin(&mut self, table: &Table, number: u64, left: usize, kind: Kind, out: &mut Effects) {
        if left == 0 {
            return Self::end_round(table, kind, out);
        }
        self.all.insert(number, Round { left, kind });
    }

    /// Begins a round of dead letters. `waits` says whether it has to wait for a write.
    pub(super) fn letters_round(
        &mut self,
        table: &Table,
        round: u64,
        waits: bool,
        number: u64,
        out: &mut Effects,
    ) {
        self.begin(table, round, usize::from(waits), Kind::Letters(number), out);
    }

    /// Notes that a partition of a round is done.
    pub(super) fn round_done(&mut self, table: &Table, number: u64, out: &mut Effects) {
        let Some(round) = self.all.get_mut(&number) else { return };
        round.left -= 1;
        if round.left == 0
            && let Some(round) = self.all.remove(&number)
        {
            Self::end_round(table, round.kind, out);
        }
    }

    /// Handles the loss of writes in a partition of a round. If the round is for a coordinator,
    /// there is no answer, and the coordinator sends its message again. A report no longer waits
    /// for the partition. Dead letters fail.
    pub(super) fn round_lost(&mut self, table: &Table, number: u64, out: &mut Effects) {
        match self.all.get(&number).map(|round| &round.kind) {
            Some(Kind::Message { .. }) => {
                self.all.remove(&number);
            }
            Some(Kind::Report(_)) => self.round_done(table, number, out),
            Some(&Kind::Letters(letters)) => {
                self.all.remove(&number);
                out.letters.push((letters, LettersEnd::Refused(ErrorCode::KafkaStorageError)));
            }
            None => {}
        }
    }

    fn end_round(table: &Table, kind: Kind, out: &mut Effects) {
        match kind {
            Kind::Message { coordinator, message } => out.messages.push((coordinator, message)),
            Kind::Report(mut open) => {
                for (slot, now) in open_by_slot(table) {
                    let of_slot = open.entry(slot).or_default();
                    let new = opened_since(of_slot, now);
                    of_slot.extend(new);
                }
                out.reports = Some(open);
            }
            Kind::Letters(number) => out.letters.push((number, LettersEnd::Added)),
        }
    }

    /// Begins the requested syncs. A partition is synced once, even if many transactions wrote to
    /// it.
    pub(super) fn start_syncs(&mut self, table: &mut Table, disk: &mut Disk, out: &mut Effects) {
        let mut later = BTreeSet::new();
        while self.syncing.len() < SYNCS_AT_ONCE
            && let Some(id) = self.to_sync.pop_first()
        {
            if self.syncing.contains(&id) {
                later.insert(id);
            } else if table.sync(id, disk, out) {
                self.syncing.insert(id);
            }
        }
        self.to_sync.append(&mut later);
    }

    /// Whether a waiting sync may begin.
    pub(super) fn has_syncs_to_start(&self) -> bool {
        let Self { to_sync, syncing, .. } = self;
        syncing.len() < SYNCS_AT_ONCE && to_sync.iter().any(|id| !syncing.contains(id))
    }

    /// Notes that a sync of a partition is done, or that the partition is gone.
    pub(super) fn sync_ended(&mut self, id: PartitionId) {
        self.syncing.remove(&id);
    }

    pub(super) fn next_round(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// Appends a marker to a partition. Returns whether writes of the partition are still under way,
/// including the write of an earlier marker.
fn mark_written(
    table: &mut Table,
    disk: &mut Disk,
    id: PartitionId,
    marker: &NewMarker,
    number: u64,
    out: &mut Effects,
) -> Result<bool, ErrorCode> {
    if Fault::LostMarker.is_injected() && number.is_multiple_of(8) {
        return Ok(false);
    }
    let waits = table.mark(id, marker, Waiter::Round(number), disk, out)?;
    Ok(waits || table.await_end(id, Waiter::Round(number)))
}

/// Returns two lists: the partitions that are served, and those that are offline or have lost
/// writes. Leaves out deleted partitions. Leaves out partitions of `__consumer_offsets`, too: their
/// records are durable before they are visible.
fn located(table: &Table, partitions: &PartitionSet) -> (Vec<PartitionId>, PartitionSet) {
    let (mut ids, mut missing) = (Vec::new(), PartitionSet::default());
    for (topic, index) in partitions.iter().filter(|(topic, _)| *topic != OFFSETS_TOPIC) {
        match table.locate_for_coordinator(topic, index) {
            Ok(id) => ids.push(id),
            Err(ErrorCode::KafkaStorageError) => missing.insert(topic, index),
            Err(_) => {}
        }
    }
    (ids, missing)
}

/// All open transactions, by slot.
pub(super) fn open_by_slot(table: &Table) -> OpenBySlot {
    let mut all = OpenBySlot::new();
    for (id, partition) in table.all() {
        let Some(topic) = table.image().topic_by_id(id.topic) else { continue };
        for producer in partition.producers.transactions.open() {
            let slot = transaction_slot(topic, id.index, table.placement());
            let open = OpenIn { producer, topic: (&*topic.name).into(), partition: id.index };
            all.entry(slot).or_default().push(open);
        }
    }
    all
}

/// The transactions that were not open before.
fn opened_since(before: &[OpenIn], now: Vec<OpenIn>) -> Vec<OpenIn> {
    let before: BTreeSet<_> = before.iter().map(place).collect();
    now.into_iter().filter(|it| !before.contains(&place(it))).collect()
}

fn place(open: &OpenIn) -> (Producer, &str, i32) {
    (open.producer, &*open.topic, open.partition)
}
