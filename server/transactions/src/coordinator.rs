//! The coordinator of some transactional ids: the entry points for requests and for messages of
//! slots.

use crate::beginning::{Beginning, Beginnings};
use crate::config::Config;
use crate::context::{Context, Held, Slot};
use crate::entry::Entry;
use crate::ids::Ids;
use crate::limits::TRANSACTION_WAIT_MS;
use crate::markers::WrittenMarkers;
use crate::message::{FromSlot, Question, QuestionKind, Stamp, ToSlotBody};
use crate::operation::{Action, Done, Operation, Refusal, Reply, Wait, WaitFor};
use crate::output::{Output, RequestId};
use crate::response::Request;
use crate::state::{Durable, EPOCH_PER_TRANSACTION, State, record};
use crate::text::Text;
use crate::timers::Timers;
use crate::waits::Waits;
use alloc::collections::{BTreeMap, BTreeSet};
use muster_codec::ErrorCode;

/// The sender of a request, and the request's version.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'r> {
    pub request: RequestId,
    pub api_version: i16,
    /// The client's address as Kafka prints it: `/127.0.0.1`.
    pub client_host: &'r str,
}

/// The transactional ids of a partition of `__transaction_state`.
#[derive(Debug)]
pub struct Coordinator {
    pub(crate) config: Config,
    /// Higher than the epoch of any earlier coordinator of these ids.
    pub(crate) epoch: i32,
    pub(crate) ids: Ids,
    /// The ids that are open or have work under way: [`Entry::is_open`].
    pub(crate) open: BTreeSet<Text>,
    /// The ids that wait for slots to answer messages, by the sequence number of these messages.
    pub(crate) under_way: BTreeMap<u64, Text>,
    pub(crate) waits: Waits,
    /// The session of each slot that has reported.
    pub(crate) sessions: BTreeMap<Slot, u64>,
    pub(crate) has_all_reports: bool,
    pub(crate) written_markers: WrittenMarkers,
    /// Whether a slot has reported that writes may be lost, or could not report for all its
    /// partitions. When all slots have reported, `beginnings` marks the ids that may be affected.
    pub(crate) may_have_lost_writes: bool,
    pub(crate) beginnings: Beginnings,
    pub(crate) timers: Timers,
    sequence: u64,
    pub(crate) held: Held,
    /// The bytes of the partitions of all open transactions.
    pub(crate) open_bytes: usize,
    /// The position of the last record.
    pub(crate) written_at: u64,
    /// The number of applied records; it stops at `u32::MAX`. It also numbers the records: those of
    /// one block have the same position, but different numbers. A record with the number at which a
    /// loss of writes was noted counts as earlier than the loss, which is safe.
    pub(crate) records: u32,
    /// The position of the last tombstone. A response that finds no id waits for it.
    pub(crate) removed_at: u64,
}

impl Coordinator {
    /// A coordinator that has not replayed its log. `epoch` is written in its markers. It must be
    /// higher than the epoch of any earlier coordinator of these ids.
    pub fn new(config: Config, epoch: i32) -> Self {
        Self {
            config,
            epoch,
            ids: Ids::default(),
            open: BTreeSet::new(),
            under_way: BTreeMap::new(),
            waits: Waits::default(),
            sessions: BTreeMap::new(),
            has_all_reports: false,
            written_markers: WrittenMarkers::default(),
            may_have_lost_writes: false,
            beginnings: Beginnings::default(),
            timers: Timers::default(),
            sequence: 0,
            held: Held::default(),
            open_bytes: 0,
            written_at: 0,
            records: 0,
            removed_at: 0,
        }
    }

    /// Replaces the configs. Running timers keep their deadlines.
    pub fn set_config(&mut self, config: Config) {
        self.config = config;
    }

    /// Serves a request. The answer may come with a later output.
    pub fn handle(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'_>,
        request: Request<'_>,
    ) -> Output {
        self.enter_call(context);
        let mut output = Output::default();
        let out = &mut output;
        match request {
            Request::InitProducerId(body) => self.init_producer_id(context, caller, &body, out),
            Request::AddPartitionsToTxn(body) => self.add_partitions(context, caller, &body, out),
            Request::AddOffsetsToTxn(body) => self.add_offsets(context, caller, &body, out),
            Request::EndTxn(body) => self.end_txn(context, caller, &body, out),
            Request::ListTransactions(body) => self.list_transactions(context, caller, &body, out),
            Request::DescribeTransactions(body) => self.describe(caller, &body, out),
        }
        output
    }

    /// Handles a message from a slot.
    pub fn receive(&mut self, context: &mut Context<'_>, message: FromSlot) -> Output {
        self.enter_call(context);
        let mut output = Output::default();
        let out = &mut output;
        match message {
            FromSlot::Report(report) => self.report(context, &report, out),
            FromSlot::Question(question) => self.question(context, question, out),
            FromSlot::Synced { stamp, partitions, is_whole } => {
                if stamp.coordinator_epoch == self.epoch {
                    self.synced(context, stamp.sequence, &partitions, is_whole, out);
                }
            }
            FromSlot::Marked { stamp, partitions, is_synced, is_whole } => {
                if stamp.coordinator_epoch == self.epoch {
                    let sequence = stamp.sequence;
                    self.marked(context, sequence, &partitions, is_synced, is_whole, out);
                }
            }
        }
        output
    }

    /// Called when producer ids have arrived, after [`crate::ProducerIds::next`] had none.
    pub fn producer_ids_arrived(&mut self) {
        self.waits.others_arrived();
    }

    /// The position from which on no open transaction has lost writes; None while one may have lost
    /// some. After a crash before this position is durable, the slots must report again that writes
    /// may be lost.
    pub fn lost_writes_settled_at(&self) -> Option<u64> {
        let is_settled =
            self.has_all_reports && !self.may_have_lost_writes && !self.beginnings.has_lost();
        is_settled.then_some(self.written_at)
    }

    /// How much of the shared limits this coordinator uses.
    pub fn held(&self) -> Held {
        self.held
    }

    /// The position of the last record. A response about all ids waits for it.
    pub fn written_at(&self) -> u64 {
        self.written_at
    }

    /// Notes the time. When all slots have reported, marks the ids whose writes may be lost.
    pub(crate) fn enter_call(&mut self, context: &Context<'_>) {
        self.timers.now = context.now;
        if self.has_all_reports && core::mem::take(&mut self.may_have_lost_writes) {
            let is_begun = |id: &&Text| {
                let entry = self.ids.get(id);
                entry.is_some_and(|it| it.durable.state == State::Ongoing || it.joined().is_some())
            };
            self.beginnings.lose(self.records, self.open.iter().filter(is_begun).cloned());
            self.timers.timeouts_at = Some(context.now);
        }
    }

    pub(crate) fn beginning(&self, id: &str, entry: &Entry) -> Beginning {
        self.beginnings.get(id, entry.record)
    }

    fn question(&mut self, context: &mut Context<'_>, question: Question, out: &mut Output) {
        let Question { slot, number, transactional_id: id, producer, partitions, kind } = question;
        let client_version = EPOCH_PER_TRANSACTION;
        let action = match kind {
            QuestionKind::Add => Action::Add { producer, partitions, client_version },
            QuestionKind::Verify => Action::Verify { producer, partitions },
        };
        let reply = Reply::Verdict { slot, number };
        self.attempt(context, Operation { id, action, reply, waited: None }, out);
    }

    /// Carries out an operation, or parks it.
    pub(crate) fn attempt(
        &mut self,
        context: &mut Context<'_>,
        operation: Operation,
        out: &mut Output,
    ) {
        let records = out.records.len();
        self.ids.load(&operation.id);
        let result = self.evaluate(context, &operation, out);
        let visible_at = match out.records.len() > records {
            false => self.visible_at(&operation.id),
            _ => context.position,
        };
        match result {
            Ok(done) => self.reply(&operation, Ok(done), visible_at, out),
            Err(Refusal::Now(error)) => self.reply(&operation, Err(error), visible_at, out),
            Err(Refusal::Begun) => self.decision_answers(operation),
            Err(Refusal::Wait(wait)) => self.park(context, operation, wait, visible_at, out),
        }
    }

    /// Parks an operation, to try it again later. If it has waited too long, or too many operations
    /// are parked, answers it with the error instead.
    pub(crate) fn park(
        &mut self,
        context: &Context<'_>,
        operation: Operation,
        wait: Wait,
        visible_at: u64,
        out: &mut Output,
    ) {
        let wait_ms = match wait.until {
            WaitFor::Transaction if operation.action.names_transaction() => TRANSACTION_WAIT_MS,
            WaitFor::Transaction | WaitFor::Others => self.config.retry_backoff_max_ms,
        };
        if let Err(operation) = self.waits.park(operation, wait, context.now, wait_ms) {
            self.reply(&operation, Err(wait.error), visible_at, out);
        }
    }

    pub(crate) fn evaluate(
        &mut self,
        context: &mut Context<'_>,
        operation: &Operation,
        out: &mut Output,
    ) -> Result<Done, Refusal> {
        let id = &operation.id;
        match &operation.action {
            Action::Init(init) => self.init(context, id, init, out),
            Action::Add { producer, partitions, client_version } => {
                self.add(context, id, *producer, partitions, *client_version, out)
            }
            Action::Verify { producer, partitions } => self.verify(id, *producer, partitions),
            Action::End(end) => self.end(context, id, end, out),
        }
    }

    /// The position that a response about this id waits for.
    pub(crate) fn visible_at(&self, id: &str) -> u64 {
        self.ids.get(id).map_or(self.removed_at, |entry| entry.written_at)
    }

    /// Adds the record of a transition to the output.
    pub(crate) fn write(&self, id: &str, durable: Option<&Durable>, out: &mut Output) {
        let mut record = record(id, durable);
        if let (Some(value), Some(next)) = (&mut record.value, durable) {
            value.kept_commits = self.kept_after(id, next);
        }
        out.records.push(record);
    }

    /// The stamp of the next message.
    pub(crate) fn stamp(&mut self) -> Stamp {
        self.sequence += 1;
        self.stamp_of(self.sequence)
    }

    pub(crate) fn stamp_of(&self, sequence: u64) -> Stamp {
        Stamp { coordinator_epoch: self.epoch, sequence }
    }

    /// Sends a message to a slot that has reported. For any other slot the message is dropped: when
    /// that slot reports, it gets all that it needs.
    pub(crate) fn send(&self, slot: Slot, visible_at: u64, body: ToSlotBody, out: &mut Output) {
        if let Some(session) = self.sessions.get(&slot) {
            out.send(slot, *session, visible_at, body);
        }
    }

    /// Finds a loaded id.
    ///
    /// # Errors
    /// INVALID_REQUEST for an empty id. INVALID_PRODUCER_ID_MAPPING for an unknown id.
    pub(crate) fn find(&self, id: &str) -> Result<&Entry, ErrorCode> {
        match self.ids.get(id) {
            _ if id.is_empty() => Err(ErrorCode::InvalidRequest),
            Some(entry) => Ok(entry),
            None => Err(ErrorCode::InvalidProducerIdMapping),
        }
    }
}
