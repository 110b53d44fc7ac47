//! Requests of transactions, and the letters (messages) between coordinators and slots. Passes them
//! on to the parts of the shard that they are for, until no letter is left.

use super::Shard;
use crate::clock::Times;
use crate::dispatch::Call;
use crate::groups::Marked;
use crate::mailbox::Letter;
use crate::partitions::{Effects, OpenBySlot};
use crate::transactions::{Answered, ForSlot, Inputs, Sender, Transactions};
use muster_codec::TransactionRequest;
use muster_codec::messages::InitProducerIdRequest;
use muster_codec::records::OFFSETS_TOPIC;
use muster_transactions::message::{Marker, Reported, ToSlotBody, Verdict};

impl Shard {
    pub(super) fn transaction_request(&mut self, call: &Call<'_>, request: TransactionRequest<'_>) {
        let Some(host) = self.clients.host(call.request) else { return };
        self.clients.answers().hold(call.request);
        let sender = Sender { request: call.request, version: call.version, host: &host };
        let (transactions, inputs) = self.of_transactions();
        transactions.request(inputs, sender, request);
    }

    pub(super) fn init_transactional_id(
        &mut self,
        call: &Call<'_>,
        body: InitProducerIdRequest<'_>,
    ) {
        let Some(host) = self.clients.host(call.request) else { return };
        self.clients.answers().hold(call.request);
        let sender = Sender { request: call.request, version: call.version, host: &host };
        let (transactions, inputs) = self.of_transactions();
        transactions.init_producer_id(inputs, sender, body);
    }

    pub(super) fn of_transactions(&mut self) -> (&mut Transactions, Inputs<'_>) {
        let Self { transactions, runtime, broker, controller_requests, errors, times, .. } = self;
        let (times, image, producer_ids) =
            (*times, &**broker.image(), controller_requests.producer_ids());
        (transactions, Inputs { times, image, runtime, producer_ids, errors })
    }

    /// Called after the log is replayed.
    pub(super) fn transactions_loaded(&mut self) {
        let (transactions, inputs) = self.of_transactions();
        transactions.loaded(inputs);
        self.settle_transactions();
    }

    /// Fires timers of transactions that are due, and performs the syncs that decisions wait for.
    pub(super) fn transactions_turn(&mut self) {
        let now = self.times.now;
        if !self.runtime.is_closed() && self.transactions.deadline().is_some_and(|at| at <= now) {
            let (transactions, inputs) = self.of_transactions();
            transactions.expire(inputs);
        }
        self.settle_transactions();
        if self.partitions.has_syncs_to_start() {
            let mut effects = Effects::default();
            self.partitions.start_syncs(&mut effects);
            self.perform(effects);
        }
    }

    /// The time when transactions need the next turn.
    pub(super) fn transactions_deadline(&self) -> Option<i64> {
        if self.partitions.has_syncs_to_start() {
            return Some(self.times.now);
        }
        self.transactions.deadline().filter(|_| !self.runtime.is_closed())
    }

    pub(super) fn letters(&mut self, from: u32, letters: Vec<Letter>) {
        self.transactions.arrived(from, letters);
    }

    /// Called when producer ids have arrived.
    pub(super) fn transactions_have_ids(&mut self) {
        self.transactions.producer_ids_arrived();
    }

    /// Handles letters until none is left. Then passes on the answers and mail that this caused.
    pub(super) fn settle_transactions(&mut self) {
        loop {
            if self.transactions.has_letters() {
                let (transactions, mut inputs) = self.of_transactions();
                if let Some(letter) = transactions.next_letter(&mut inputs) {
                    self.take(letter);
                }
            } else if self.transactions.begin_sync() {
                let mut effects = Effects::default();
                self.partitions.sync_for_reports(&mut effects);
                self.perform(effects);
            } else {
                break;
            }
        }
        if self.transactions.has_answers() {
            for reply in self.transactions.take_answers() {
                self.clients.answers().reply(reply);
            }
        }
        let Self { transactions, controller_requests, commands, .. } = self;
        controller_requests.ask_for_ids(commands);
        transactions.send_mail(commands);
    }

    /// Called when the partitions have synced their writes, as the reports to coordinators require.
    pub(super) fn reports_synced(&mut self, mut open: OpenBySlot) {
        let of_groups = self.groups.open_transactions();
        open.entry(self.broker.number()).or_default().extend(of_groups);
        let is_whole = self.partitions.offline() == 0 && !self.partitions.have_lost_writes();
        self.transactions.synced(self.times.now, &open, is_whole);
    }

    /// Takes a message to a slot of this shard.
    fn take(&mut self, ForSlot { coordinator, message }: ForSlot) {
        let mut effects = Effects::default();
        match message.body {
            // The link between coordinator and slot has already handled this message.
            ToSlotBody::ReportWanted { .. } => {}
            ToSlotBody::Reported(reported) => {
                self.reported(coordinator, message.slot, &reported, &mut effects);
            }
            ToSlotBody::Verdict(verdict) => {
                if self.transactions.answers(&verdict) {
                    self.verdict(&verdict, &mut effects);
                }
            }
            // Only user partitions are synced. The transaction's offsets need no sync, because they
            // precede its marker in the same log.
            ToSlotBody::Sync(sync) => {
                if !self.groups.is_unanswered(&sync.partitions, sync.producer.id) {
                    self.partitions.sync_transaction(coordinator, sync, &mut effects);
                }
            }
            ToSlotBody::Marker(marker) => self.mark(coordinator, marker, &mut effects),
        }
        self.perform(effects);
    }

    /// Passes a marker to the partitions and the groups that it names.
    fn mark(&mut self, coordinator: u32, mut marker: Marker, effects: &mut Effects) {
        let Times { now, wall, .. } = self.times;
        let offsets = marker.partitions.take_topic(OFFSETS_TOPIC);
        if !marker.partitions.is_empty() {
            self.partitions.mark_transaction(wall, coordinator, &marker, effects);
        }
        if !offsets.is_empty() {
            let of_groups = Marker { partitions: offsets, ..marker };
            self.groups.mark_transaction(&mut self.runtime, now, coordinator, &of_groups);
            self.send_marked();
        }
    }

    /// Some markers in the slots of groups are durable now. Answers the coordinators or requests
    /// that sent them.
    pub(super) fn send_marked(&mut self) {
        let mut effects = Effects::default();
        for marked in self.groups.take_marked(&self.runtime) {
            match marked {
                Marked::ByCoordinator(to, message) => self.transactions.send(to, message),
                Marked::ByRequest(number) => {
                    self.partitions.offsets_marked(number, &mut effects);
                }
            }
        }
        self.perform(effects);
    }

    /// Ends each question to a coordinator that counts as lost at the time `until`, with a verdict.
    pub(super) fn end_questions(&mut self, until: i64) {
        while let Some(verdict) = self.transactions.take_lost(until) {
            let mut effects = Effects::default();
            self.verdict(&verdict, &mut effects);
            self.perform(effects);
        }
    }

    /// Passes the answer to a question on to the groups or the partitions that asked.
    fn verdict(&mut self, verdict: &Verdict, effects: &mut Effects) {
        if !self.groups.has_asked(verdict.number) {
            return self.partitions.verdict(self.times.wall, verdict, effects);
        }
        let (groups, inputs, connections) = self.of_groups();
        groups.verdict(inputs, verdict, |reply| connections.reply(reply));
        self.count_waiting();
    }

    fn reported(
        &mut self,
        coordinator: u32,
        slot: u32,
        reported: &Reported,
        effects: &mut Effects,
    ) {
        let Times { now, wall, .. } = self.times;
        let answered = self.transactions.reported(slot, coordinator, reported);
        let Some(Answered { open, by_all }) = answered else { return };
        let mut are_marked = self.partitions.reported(wall, &open, reported, effects);
        self.groups.reported(&mut self.runtime, now, &open, reported);
        if by_all {
            let epoch = reported.stamp.coordinator_epoch;
            are_marked &= self.partitions.abort_unknown(wall, slot, epoch, effects);
            self.groups.abort_unknown(&mut self.runtime, now, epoch);
        }
        if !are_marked {
            self.transactions.report_again(now, slot, coordinator);
        }
    }
}
