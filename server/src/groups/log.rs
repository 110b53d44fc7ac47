//! The coordinators of a shard and the log that makes them durable.

use super::Inputs;
use super::clock::GroupClock;
use super::counters::RecordCounters;
use super::faults::faulty;
use super::slots::{ListingOfSlots, Slots};
use crate::clock::Times;
use crate::placement::Slot;
use crate::topics;
use muster_codec::GroupRequest;
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::record_batch::EndTxnMarker;
use muster_codec::records::GroupRecord;
use muster_coordinator::limits::{GROUP_RECORD_BYTES_MAX, MEMBER_PROFILE_BYTES_MAX};
use muster_coordinator::{
    Caller, Context, Coordinator, DeletedTopic, Output, Producer, Refusal, StateCall, WalkLimit,
    WalkProgress, operations,
};
use muster_faults::Fault;
use muster_runtime::{LogCounters, LogNews, NotWritten, Runtime};
use muster_storage::limits::OPERATION_BYTES_MAX;
use muster_storage::{FileDone, FileOp, LogExtent, LogPartition, ShardLog};

// The record of the largest group fits one operation: its members, and the names of the group, its
// protocol type, protocol and leader.
const _: () = assert!(GROUP_RECORD_BYTES_MAX + 8 * STRING_BYTES_MAX <= OPERATION_BYTES_MAX);

// Besides the records that may be divided, an operation of a heartbeat has the member's profile and
// its assignment. The operation fits, however many members the group has.
const _: () =
    assert!(OPERATION_BYTES_MAX / 2 + 3 * MEMBER_PROFILE_BYTES_MAX <= OPERATION_BYTES_MAX);

/// The coordinators of a shard's slots, and the log that they share.
pub(super) struct GroupLog {
    slots: Slots,
    runtime: Runtime,
    /// The partitions of internal topics in the log.
    partitions: Vec<LogPartition>,
    /// The maximum size of an operation of records that may be divided among several operations.
    cut_bytes: usize,
    clock: GroupClock,
    /// The number of calls that fired timers.
    expirations: u64,
    /// Set while a timer is late: the number of expirations then, and the time since which it is
    /// late.
    late: Option<(u64, i64)>,
    /// Requests of coordinators to the leaders of partitions.
    state_calls: Vec<(Slot, StateCall)>,
    pub(super) refused_calls: Vec<(Slot, StateCall)>,
    /// See [`Self::moved`].
    moved: Vec<LogPartition>,
    counters: RecordCounters,
}

impl GroupLog {
    pub(super) fn new(
        slots: Slots,
        log: ShardLog,
        partitions: Vec<LogPartition>,
        cut_bytes: usize,
        now: i64,
    ) -> Self {
        let moved = partitions.clone();
        Self {
            slots,
            runtime: Runtime::new(log),
            partitions,
            cut_bytes,
            clock: GroupClock::new(now),
            expirations: 0,
            late: None,
            state_calls: Vec::new(),
            refused_calls: Vec::new(),
            moved,
            counters: RecordCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> &RecordCounters {
        &self.counters
    }

    pub(super) fn runtime_counters(&self) -> &LogCounters {
        self.runtime.counters()
    }

    /// The log, for the records of other topics.
    pub(super) fn runtime(&mut self) -> &mut Runtime {
        &mut self.runtime
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) fn log(&self) -> &ShardLog {
        self.runtime.log()
    }

    /// The extent of the log that a backup copies.
    pub(super) fn begin_backup(&mut self) -> LogExtent {
        self.runtime.log_mut().begin_backup()
    }

    /// Keeps requests to the leaders of partitions until the records before them are durable. As
    /// answers do, those of this output, at the position `first`, wait for its last operation.
    pub(super) fn keep_state_calls(
        &mut self,
        slot: Slot,
        (first, last): (u64, u64),
        calls: Vec<StateCall>,
    ) {
        self.state_calls.extend(calls.into_iter().map(|mut it| {
            if it.visible_at == first {
                it.visible_at = last;
            }
            (slot, it)
        }));
    }

    /// Whether requests to the leaders of partitions are kept or were refused.
    pub(super) fn has_state_calls(&self) -> bool {
        !self.state_calls.is_empty() || !self.refused_calls.is_empty()
    }

    /// The state calls whose records the log refused.
    pub(super) fn take_refused_calls(&mut self) -> Vec<(Slot, StateCall)> {
        std::mem::take(&mut self.refused_calls)
    }

    /// The state calls whose records are durable.
    pub(super) fn take_state_calls(&mut self) -> Vec<(Slot, StateCall)> {
        let log = self.runtime.log();
        let is_durable = |(slot, call): &mut (Slot, StateCall)| {
            call.visible_at <= log.progress_of(slot.log_partition()).flushed()
        };
        self.state_calls.extract_if(.., is_durable).collect()
    }

    /// The coordinators and the log, for work that writes no records.
    pub(super) fn parts(&mut self) -> (&mut Slots, &mut ShardLog) {
        (&mut self.slots, self.runtime.log_mut())
    }

    /// The coordinators, and the runtime of all topics.
    pub(super) fn with_runtime(&mut self) -> (&mut Slots, &mut Runtime) {
        (&mut self.slots, &mut self.runtime)
    }

    /// The position of a slot's last operation.
    pub(super) fn position(&self, slot: Slot) -> u64 {
        self.log().progress_of(slot.log_partition()).accepted()
    }

    /// The offset that the slot's next record gets.
    pub(super) fn end_offset(&self, slot: Slot) -> i64 {
        self.log().log_end_offset(slot.log_partition())
    }

    /// The position that the slot's next operation gets.
    pub(super) fn next_position(&self, slot: Slot) -> u64 {
        self.position(slot) + 1
    }

    /// The position up to which the operations of a partition are durable.
    pub(super) fn flushed(&self, partition: LogPartition) -> u64 {
        self.log().progress_of(partition).flushed()
    }

    /// Passes a request to the coordinator of a slot. Also returns the limit that the request
    /// exceeded.
    pub(super) fn handle<'r>(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
    ) -> (Output<'r>, Option<Refusal>) {
        self.call(slot, inputs, |coordinator, context| {
            let output = coordinator.handle(context, caller, request);
            (output, coordinator.take_refusal())
        })
    }

    /// Advances the time of the groups.
    pub(super) fn advance(&mut self, Times { now, wall, micros, .. }: Times) {
        self.clock.advance(now);
        self.runtime.advance(now, wall, micros);
        let progress = self.runtime.log().progress();
        self.clock.watch(progress.flushed(), progress.accepted());
    }

    /// The groups' time at a past time.
    pub(super) fn time(&self, now: i64) -> i64 {
        self.clock.at(now)
    }

    /// The time since which operations are pending, and no operation has become durable.
    pub(super) fn flushing_since(&self) -> Option<i64> {
        self.clock.flushing_since()
    }

    /// The time since which a timer is late while no timer fires. To be called now and then.
    pub(super) fn timers_late_since(&mut self, now: i64) -> Option<i64> {
        let next = self.slots.next_deadline().filter(|(at, _)| self.clock.is_late(*at));
        let known = self.late.filter(|(fired, _)| *fired == self.expirations);
        self.late = next.and(known.or(Some((self.expirations, now))));
        self.late.map(|(_, since)| since)
    }

    /// The slot with the timer that is due first, if this timer is due at a past time.
    pub(super) fn due(&self, now: i64) -> Option<Slot> {
        let (at, slot) = self.coordinators_deadline()?;
        (at <= self.clock.at(now)).then_some(slot)
    }

    /// Fires the due timers of a slot.
    pub(super) fn expire(&mut self, slot: Slot, inputs: Inputs<'_>) -> Output<'static> {
        self.expirations += 1;
        let jumped_ms = inputs.times.jumped_ms;
        self.call(slot, inputs, |coordinator, context| {
            coordinator.leave_out_of_expiry(jumped_ms);
            coordinator.expire(context)
        })
    }

    /// Removes offsets of deleted topics from groups of a slot, beginning after a given group, up
    /// to the limit of one call.
    pub(super) fn topics_deleted(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        deleted: &[DeletedTopic<'_>],
        after: Option<&str>,
        limit: WalkLimit,
    ) -> (Output<'static>, WalkProgress) {
        self.call(slot, inputs, |coordinator, context| {
            let mut output = Output::default();
            let reached =
                coordinator.topics_deleted_after(context, deleted, after, limit, &mut output);
            (output, reached)
        })
    }

    /// Removes groups of a slot, beginning after a given group, up to the limit of one call.
    pub(super) fn reset(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        after: Option<&str>,
    ) -> (Output<'static>, WalkProgress) {
        self.call(slot, inputs, |coordinator, context| {
            let mut output = Output::default();
            let reached = coordinator.reset_after(context, after, &mut output);
            (output, reached)
        })
    }

    /// Continues a list by about `count` groups.
    pub(super) fn list(&mut self, list: &mut ListingOfSlots, count: usize) {
        let log = self.runtime.log();
        self.slots.list(list, count, |partition| log.progress_of(partition).flushed());
    }

    /// Appends the records of a slot and replays them. The records of one group are one atomic
    /// operation, except as in [`operations`]. `producer` is the producer of the transaction that
    /// the records are part of. Returns the position of the last record.
    ///
    /// # Errors
    /// An operation is too large for the log. This operation and the following ones are not
    /// written.
    pub(super) fn append(
        &mut self,
        slot: Slot,
        now: i64,
        producer: Option<Producer>,
        records: &[GroupRecord<'_>],
    ) -> Result<u64, NotWritten> {
        let Self { slots, runtime, cut_bytes, counters, .. } = self;
        let faulty = faulty(records);
        let records = faulty.as_deref().unwrap_or(records);
        let of_groups = records.chunk_by(|a, b| a.group_id() == b.group_id());
        let operations = of_groups.flat_map(|of_group| operations(of_group, *cut_bytes));
        let appended = slots.append(runtime, slot, now, producer, operations);
        let written = appended.as_ref().map_or_else(|refused| refused.written, |_| records.len());
        counters.records += written as u64;
        appended
    }

    /// Appends the marker of a producer to a slot and replays it: the producer's pending offsets in
    /// the slot are committed or dropped. Returns the position of the marker.
    pub(super) fn end_transaction(
        &mut self,
        slot: Slot,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        self.counters.records += 1;
        self.slots.end_transaction(&mut self.runtime, slot, now, producer, marker)
    }

    /// Takes back operations that the log refused: their groups return to their durable state.
    pub(super) fn not_written(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        records: &[GroupRecord<'_>],
    ) -> Output<'static> {
        self.call(slot, inputs, |coordinator, context| coordinator.not_written(context, records))
    }

    /// Starts the next flush if its time has come.
    pub(super) fn poll(&mut self, now: i64, ops: &mut Vec<FileOp>) -> Option<LogNews> {
        self.runtime.poll(now, ops)
    }

    /// How long the flush under way has taken so far.
    pub(super) fn flushing_micros(&self) -> u64 {
        self.runtime.flushing_micros()
    }

    /// Handles the end of a file operation of the log. If this was a slow flush, returns its
    /// duration in milliseconds.
    pub(super) fn done(&mut self, done: FileDone) -> Option<u64> {
        let was_recovered = self.log().is_recovered();
        let slow_ms = self.runtime.done(done);
        let log = self.runtime.log();
        self.moved.clear();
        if log.is_recovered() == was_recovered {
            self.moved.extend(log.flushed().iter().filter(|it| **it != topics::CLUSTER));
        } else {
            self.moved.extend(&self.partitions);
        }
        slow_ms
    }

    /// The partitions of internal topics in which the last operation of the log made operations
    /// durable; at first all partitions.
    pub(super) fn moved(&self) -> &[LogPartition] {
        &self.moved
    }

    fn coordinators_deadline(&self) -> Option<(i64, Slot)> {
        self.slots.next_deadline().filter(|_| !Fault::DeadTimer.is_injected())
    }

    /// The time when the next timer of the groups is due.
    pub(super) fn expiry_deadline(&self) -> Option<i64> {
        self.coordinators_deadline().and_then(|(at, _)| self.clock.wake_at(at))
    }

    /// A time at which a timer may be late.
    pub(super) fn late_deadline(&self) -> Option<i64> {
        self.slots.next_deadline().and_then(|(at, _)| self.clock.late_at(at))
    }

    /// Calls the coordinator of a slot.
    pub(super) fn call<R>(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> R,
    ) -> R {
        let Inputs { times: Times { now, wall, .. }, ids, image, .. } = inputs;
        let (now, position) = (self.clock.at(now), self.next_position(slot));
        self.slots.on(slot, |coordinator, budget| {
            act(coordinator, &mut Context { now, wall, position, ids, topics: image, budget })
        })
    }
}
