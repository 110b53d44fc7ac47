//! The end of a transaction. Its steps are in an order that keeps the transaction atomic even if
//! the server or the machine crashes between them:
//!
//! 1. Everything on which the decision depends is synced to stable storage (`Phase::Syncing`). For
//!    a commit, these are the transaction's own records. The markers of the previous transaction
//!    are synced, too, if it was committed, or if the epoch does not increase with each transaction
//!    (before KIP-890).
//! 2. The Prepare record is written. When it is durable, the client is answered and the markers are
//!    sent (`Phase::Marking`).
//! 3. When all partitions have their markers, the Complete record is written. The client's answer
//!    does not wait for it.

use crate::context::{Context, Slot};
use crate::coordinator::Coordinator;
use crate::entry::{Decision, Entry, Phase, Syncing};
use crate::message::{Marker, Producer, Sync, ToSlotBody};
use crate::operation::{Action, Done, Operation, Refusal, Wait};
use crate::output::Output;
use crate::partition_set::PartitionSet;
use crate::state::{Durable, EPOCH_PER_TRANSACTION, State};
use crate::text::Text;
use alloc::collections::BTreeMap;
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::OFFSETS_TOPIC;

impl Coordinator {
    /// Decides to commit or abort a transaction, which may be empty. Returns the producer id and
    /// epoch that the client uses next.
    ///
    /// # Errors
    /// `Begun` if the decision has to wait for syncs. `Wait` if it cannot begin yet.
    pub(crate) fn decide(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        mut decision: Decision,
        out: &mut Output,
    ) -> Result<Producer, Refusal> {
        let Some(entry) = self.ids.get(id) else { return Err(Refusal::CONCURRENT) };
        if !self.has_all_reports {
            return Err(Refusal::LOADING);
        }
        if entry.durable.needs_next_producer_id(decision.client_version) {
            decision.next_producer_id = Some(context.producer_ids.next().ok_or(Refusal::LOADING)?);
        }
        let mut remaining = entry.active.as_ref().map(|it| it.unsynced.clone()).unwrap_or_default();
        if let (TransactionOutcome::Commit, Some(written)) =
            (decision.outcome, entry.durable.partitions())
        {
            remaining.insert_all(written);
        }
        // Offsets need no sync: the client's commit was answered only when they were durable. A
        // deleted topic needs none, either.
        remaining.retain(|topic, partition| {
            topic != OFFSETS_TOPIC && context.topics.slot(topic, partition).is_some()
        });
        if remaining.is_empty() {
            return Ok(self.prepare(context, id, &decision, out));
        }
        let sequence = self.stamp().sequence;
        let syncing = Syncing { sequence, remaining, decision, caller: None };
        self.enter(context, id, Phase::Syncing(syncing));
        self.resend(context, id, None, out);
        Err(Refusal::Begun)
    }

    /// Notes that an operation is answered when the decision under way is durable.
    pub(crate) fn decision_answers(&mut self, operation: Operation) {
        let Some(entry) = self.ids.get_mut(&operation.id) else { return };
        if let Phase::Syncing(syncing) = &mut entry.active().phase {
            syncing.caller = Some(operation);
        }
    }

    fn enter(&mut self, context: &Context<'_>, id: &Text, phase: Phase) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        if let Some(sequence) = entry.phase().sequence() {
            self.under_way.remove(&sequence);
        }
        if let Some(sequence) = phase.sequence() {
            self.under_way.insert(sequence, id.clone());
            self.timers.resend_after(context.now);
        }
        let active = entry.active();
        (active.phase, active.sent_at) = (phase, context.now);
        self.open.insert(id.clone());
    }

    /// A slot has synced these partitions.
    pub(crate) fn synced(
        &mut self,
        context: &mut Context<'_>,
        sequence: u64,
        partitions: &PartitionSet,
        is_whole: bool,
        out: &mut Output,
    ) {
        let Some(id) = self.under_way.get(&sequence).cloned() else { return };
        let Some(active) = self.ids.get_mut(&id).and_then(|it| it.active.as_mut()) else { return };
        if !is_whole && active.unsynced.contains_any(partitions) {
            self.written_markers.last_is_missing(&id);
        }
        active.unsynced.remove_all(partitions);
        match &mut active.phase {
            Phase::Syncing(syncing) => {
                syncing.remaining.remove_all(partitions);
                if !is_whole {
                    syncing.decision.outcome = TransactionOutcome::Abort;
                }
                self.prepare_if_synced(context, &id, out);
            }
            Phase::Settling { .. } if active.unsynced.is_empty() => self.settled(context, &id, out),
            Phase::Settling { .. } | Phase::Marking { .. } | Phase::Idle => {}
        }
    }

    fn prepare_if_synced(&mut self, context: &mut Context<'_>, id: &Text, out: &mut Output) {
        let Some(active) = self.ids.get_mut(id).and_then(|it| it.active.as_mut()) else { return };
        active.phase = match core::mem::take(&mut active.phase) {
            Phase::Syncing(syncing) if syncing.remaining.is_empty() => {
                self.under_way.remove(&syncing.sequence);
                return self.finish(context, id, syncing, out);
            }
            phase @ (Phase::Idle
            | Phase::Syncing(_)
            | Phase::Marking { .. }
            | Phase::Settling { .. }) => phase,
        };
    }

    /// Writes a decision whose syncs are done, and answers the EndTxn that asked for it.
    fn finish(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        Syncing { decision, caller, .. }: Syncing,
        out: &mut Output,
    ) {
        let identity = self.prepare(context, id, &decision, out);
        let Some(operation) = caller else { return };
        let is_as_asked = match &operation.action {
            Action::End(end) => end.outcome == decision.outcome,
            Action::Init(_) | Action::Add { .. } | Action::Verify { .. } => false,
        };
        if is_as_asked {
            return self.reply(&operation, Ok(Done::Identity(identity)), context.position, out);
        }
        // The client asked for a commit, but the transaction had to be aborted. The client's
        // request is tried again after the abort, and then gets the error.
        self.park(context, operation, Wait::CONCURRENT, context.position, out);
    }

    /// Writes Prepare. Also writes Complete if no marker is needed.
    fn prepare(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        decision: &Decision,
        out: &mut Output,
    ) -> Producer {
        let Some(entry) = self.ids.get_mut(id) else { unreachable!("a decision keeps its id") };
        let Decision { outcome, client_version, next_producer_id } = *decision;
        if client_version == EPOCH_PER_TRANSACTION {
            entry.last_epoch = entry.durable.epoch;
        }
        let durable =
            entry.durable.prepared(outcome, client_version, next_producer_id, context.wall);
        // Each of these partitions is synced by now, or deleted.
        entry.active().unsynced = PartitionSet::default();
        self.write(id, Some(&durable), out);
        let mut remaining = durable.partitions().cloned().unwrap_or_default();
        remaining.retain(|topic, partition| context.topics.slot(topic, partition).is_some());
        if remaining.is_empty() {
            self.write(id, Some(&durable.completed()), out);
            self.enter(context, id, Phase::Idle);
        } else {
            let (sequence, parts) = (self.stamp().sequence, by_slot(context, &remaining, None));
            self.enter(context, id, Phase::Marking { sequence, remaining });
            self.send_markers(sequence, &durable, parts, context.position, out);
        }
        durable.next_identity()
    }

    /// A slot has written the markers of these partitions.
    pub(crate) fn marked(
        &mut self,
        context: &mut Context<'_>,
        sequence: u64,
        partitions: &PartitionSet,
        is_synced: bool,
        is_whole: bool,
        out: &mut Output,
    ) {
        let Some(id) = self.under_way.get(&sequence).cloned() else { return };
        let Some(entry) = self.ids.get_mut(&id) else { return };
        let outcome = entry.durable.state.prepared();
        let is_kept = outcome.is_some_and(|outcome| entry.durable.keeps_markers_of(outcome));
        let active = entry.active();
        let Phase::Marking { remaining, .. } = &mut active.phase else { return };
        if is_kept && !is_synced {
            let marked = partitions.iter().filter(|it| remaining.contains(it.0, it.1));
            marked.for_each(|(topic, partition)| active.unsynced.insert(topic, partition));
        }
        if !is_whole {
            self.written_markers.last_is_missing(&id);
        }
        remaining.remove_all(partitions);
        self.complete_if_marked(context, &id, out);
    }

    /// Writes Complete if no marker is missing.
    pub(crate) fn complete_if_marked(
        &mut self,
        context: &Context<'_>,
        id: &Text,
        out: &mut Output,
    ) {
        let Some(entry) = self.ids.get(id) else { return };
        if let Phase::Marking { remaining, .. } = entry.phase()
            && remaining.is_empty()
        {
            let completed = entry.durable.completed();
            let joined = entry.joined().cloned();
            self.write(id, Some(&completed), out);
            self.enter(context, id, Phase::Idle);
            if let Some(joined) = joined {
                self.continue_next(context, id, &completed, &joined, out);
            }
        }
    }

    /// Continues with the next transaction. It has no record: partitions joined it before a crash,
    /// and the crash lost both its record and the Complete record of the previous transaction.
    fn continue_next(
        &mut self,
        context: &Context<'_>,
        id: &Text,
        completed: &Durable,
        joined: &PartitionSet,
        out: &mut Output,
    ) {
        let has_unsynced = self.ids.get(id).is_some_and(Entry::has_unsynced);
        if completed.state == State::CompleteCommit && has_unsynced {
            self.settle(context, id, out);
        } else if completed.state != State::CompleteCommit || self.has_all_reports {
            let durable = completed.ongoing(joined, EPOCH_PER_TRANSACTION, context.wall);
            self.write(id, Some(&durable), out);
        }
    }

    /// Whether the record of the next transaction must wait. That record erases the outcome of the
    /// last commit, and partitions that lost the marker of the commit may still need the outcome.
    pub(crate) fn keeps_outcome(&self, entry: &Entry) -> bool {
        entry.durable.state == State::CompleteCommit
            && (!self.has_all_reports || entry.has_unsynced())
    }

    /// Syncs the markers of the last commit, as an operation requires. Returns how the operation
    /// must wait.
    pub(crate) fn wait_until_settled(
        &mut self,
        context: &Context<'_>,
        id: &Text,
        out: &mut Output,
    ) -> Refusal {
        let Some(entry) = self.ids.get(id) else { return Refusal::CONCURRENT };
        if matches!(entry.phase(), Phase::Idle) && entry.has_unsynced() {
            self.settle(context, id, out);
        }
        if self.has_all_reports { Refusal::CONCURRENT } else { Refusal::LOADING }
    }

    /// Adds partitions to the next transaction. Its record follows when the last transaction is
    /// settled.
    pub(crate) fn join_without_record(
        &mut self,
        context: &Context<'_>,
        id: &Text,
        partitions: &PartitionSet,
    ) {
        let Some(entry) = self.ids.get_mut(id) else { return };
        let active = entry.active();
        if active.joined.is_empty() {
            active.joined_at = context.wall;
        }
        active.joined.insert_all(partitions);
        self.open.insert(id.clone());
    }

    /// Writes the record of a transaction that partitions joined before it had a record, unless the
    /// outcome of the last transaction must still be kept.
    pub(crate) fn record_joined(&self, id: &Text, out: &mut Output) {
        let Some(entry) = self.ids.get(id) else { return };
        if self.keeps_outcome(entry) {
            return;
        }
        if let Some(next) = entry.next() {
            self.write(id, Some(&next), out);
        }
    }

    /// Starts to sync the markers of the last commit.
    pub(crate) fn settle(&mut self, context: &Context<'_>, id: &Text, out: &mut Output) {
        let sequence = self.stamp().sequence;
        self.enter(context, id, Phase::Settling { sequence });
        self.resend(context, id, None, out);
    }

    fn settled(&mut self, context: &Context<'_>, id: &Text, out: &mut Output) {
        self.enter(context, id, Phase::Idle);
        self.record_joined(id, out);
        self.note_open(id);
        if self.ids.get(id).is_some_and(|entry| !entry.is_pending()) {
            self.waits.transaction_ended(id);
        }
    }

    /// Sends the messages of an id's phase, for the first time or again, to one slot or to all.
    /// Drops messages for partitions that no longer exist.
    pub(crate) fn resend(
        &mut self,
        context: &Context<'_>,
        id: &Text,
        slot: Option<Slot>,
        out: &mut Output,
    ) {
        self.drop_deleted(context, id);
        let Some(entry) = self.ids.get_mut(id) else { return };
        let (visible_at, producer) = (entry.written_at, entry.producer());
        let durable = entry.durable.clone();
        // An idle id has no messages.
        let Some(active) = entry.active.as_mut() else { return };
        active.sent_at = context.now;
        match &active.phase {
            Phase::Idle => {}
            Phase::Syncing(Syncing { sequence, remaining, .. }) => {
                let (sequence, parts) = (*sequence, by_slot(context, remaining, slot));
                self.send_syncs(sequence, producer, parts, out);
            }
            Phase::Settling { sequence } => {
                let (sequence, parts) = (*sequence, by_slot(context, &active.unsynced, slot));
                self.send_syncs(sequence, producer, parts, out);
            }
            Phase::Marking { sequence, remaining } => {
                let (sequence, parts) = (*sequence, by_slot(context, remaining, slot));
                self.send_markers(sequence, &durable, parts, visible_at, out);
            }
        }
    }

    fn drop_deleted(&mut self, context: &Context<'_>, id: &str) {
        let Some(active) = self.ids.get_mut(id).and_then(|it| it.active.as_mut()) else { return };
        let exists = |topic: &str, partition| context.topics.slot(topic, partition).is_some();
        active.unsynced.retain(exists);
        match &mut active.phase {
            Phase::Syncing(Syncing { remaining, .. }) | Phase::Marking { remaining, .. } => {
                remaining.retain(exists);
            }
            Phase::Idle | Phase::Settling { .. } => {}
        }
    }

    /// Continues the work on an id whose partitions were deleted meanwhile.
    pub(crate) fn continue_without_deleted(
        &mut self,
        context: &mut Context<'_>,
        id: &Text,
        out: &mut Output,
    ) {
        self.drop_deleted(context, id);
        self.prepare_if_synced(context, id, out);
        self.complete_if_marked(context, id, out);
        let Some(active) = self.ids.get(id).and_then(|it| it.active.as_ref()) else { return };
        if matches!(active.phase, Phase::Settling { .. }) && active.unsynced.is_empty() {
            self.settled(context, id, out);
        }
    }

    fn send_syncs(
        &self,
        sequence: u64,
        producer: Producer,
        parts: BTreeMap<Slot, PartitionSet>,
        out: &mut Output,
    ) {
        for (slot, partitions) in parts {
            let stamp = self.stamp_of(sequence);
            self.send(slot, 0, ToSlotBody::Sync(Sync { stamp, producer, partitions }), out);
        }
    }

    fn send_markers(
        &self,
        sequence: u64,
        durable: &Durable,
        parts: BTreeMap<Slot, PartitionSet>,
        visible_at: u64,
        out: &mut Output,
    ) {
        let Some(outcome) = durable.state.prepared() else { return };
        let producer = Producer { id: durable.producer_id, epoch: durable.epoch };
        let version = durable.client_version;
        for (slot, partitions) in parts {
            let stamp = self.stamp_of(sequence);
            let marker = Marker { stamp, producer, outcome, version, partitions };
            self.send(slot, visible_at, ToSlotBody::Marker(marker), out);
        }
    }
}

/// Groups partitions by slot. If `only` is given, partitions of other slots are left out.
fn by_slot(
    context: &Context<'_>,
    partitions: &PartitionSet,
    only: Option<Slot>,
) -> BTreeMap<Slot, PartitionSet> {
    let mut slots: BTreeMap<Slot, PartitionSet> = BTreeMap::new();
    for (topic, partition) in partitions.iter() {
        let slot = context.topics.slot(topic, partition);
        if let Some(slot) = slot.filter(|slot| only.is_none_or(|only| only == *slot)) {
            slots.entry(slot).or_default().insert(topic, partition);
        }
    }
    slots
}
