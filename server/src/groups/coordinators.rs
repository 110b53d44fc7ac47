//! The calls of a shard's coordinators, and what they wait for.

use super::Inputs;
use super::clock::GroupClock;
use super::counters::RecordCounters;
use super::faults::faulty;
use super::slots::{ListingOfSlots, Slots};
use crate::clock::Times;
use crate::placement::Slot;
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
use muster_runtime::{NotWritten, Runtime};
use muster_storage::ShardLog;
use muster_storage::limits::OPERATION_BYTES_MAX;

// One operation has space for the record of the largest group: that of its members, and the names
// of the group, its protocol type, its protocol and its leader.
const _: () = assert!(GROUP_RECORD_BYTES_MAX + 8 * STRING_BYTES_MAX <= OPERATION_BYTES_MAX);

// An operation of a heartbeat has the member's profile and its assignment, and at most half of the
// maximum size in records that may be divided among operations. So it fits, however many members
// the group has.
const _: () =
    assert!(OPERATION_BYTES_MAX / 2 + 3 * MEMBER_PROFILE_BYTES_MAX <= OPERATION_BYTES_MAX);

/// The coordinators of a shard's slots, and their time.
pub(super) struct Coordinators {
    slots: Slots,
    /// The maximum size of each operation if records may be divided among several operations.
    cut_bytes: usize,
    clock: GroupClock,
    /// The number of calls that fired timers.
    expirations: u64,
    /// Set while a timer is late: the number of expirations, and the time, when this was found.
    late: Option<(u64, i64)>,
    /// Requests of coordinators to the leaders of partitions.
    state_calls: Vec<(Slot, StateCall)>,
    pub(super) refused_calls: Vec<(Slot, StateCall)>,
    counters: RecordCounters,
}

impl Coordinators {
    pub(super) fn new(slots: Slots, cut_bytes: usize, now: i64) -> Self {
        Self {
            slots,
            cut_bytes,
            clock: GroupClock::new(now),
            expirations: 0,
            late: None,
            state_calls: Vec::new(),
            refused_calls: Vec::new(),
            counters: RecordCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> &RecordCounters {
        &self.counters
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }

    /// Keeps requests to the leaders of partitions until the records before them are durable. A
    /// request whose position is `first`, the first position of this output, waits for the last
    /// position of the output, as the answers in it do.
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
    pub(super) fn take_state_calls(&mut self, runtime: &Runtime) -> Vec<(Slot, StateCall)> {
        let is_durable = |(slot, call): &mut (Slot, StateCall)| {
            call.visible_at <= runtime.flushed(slot.log_slot())
        };
        self.state_calls.extract_if(.., is_durable).collect()
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
    pub(super) fn advance(&mut self, now: i64, log: &ShardLog) {
        self.clock.advance(now);
        let progress = log.progress();
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

    /// The time since which a timer has been late and no timer has fired. Call this
    /// regularly: the result is the time of the call that first found the timer late.
    pub(super) fn timers_late_since(&mut self, now: i64) -> Option<i64> {
        let next = self.slots.next_deadline().filter(|(at, _)| self.clock.is_late(*at));
        let known = self.late.filter(|(fired, _)| *fired == self.expirations);
        self.late = next.and(known.or(Some((self.expirations, now))));
        self.late.map(|(_, since)| since)
    }

    /// The slot whose timer is the first to be due, if the timer was due at the time `now`.
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

    /// Removes groups of a slot, beginning after the group `after`: as many as one call may remove.
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
    pub(super) fn list(&mut self, runtime: &Runtime, list: &mut ListingOfSlots, count: usize) {
        self.slots.list(list, count, |it| runtime.leads(it), |it| runtime.flushed(it));
    }

    /// Appends the records of a slot and replays them. The records of one group are one atomic
    /// operation, unless [`operations`] divides them. If the records belong to a transaction,
    /// `producer` is its producer. Returns the position of the last record.
    ///
    /// # Errors
    /// An operation is too large for the log. It and the operations after it are not written.
    pub(super) fn append(
        &mut self,
        runtime: &mut Runtime,
        slot: Slot,
        now: i64,
        producer: Option<Producer>,
        records: &[GroupRecord<'_>],
    ) -> Result<u64, NotWritten> {
        let Self { slots, cut_bytes, counters, .. } = self;
        let faulty = faulty(records);
        let records = faulty.as_deref().unwrap_or(records);
        let of_groups = records.chunk_by(|a, b| a.group_id() == b.group_id());
        let operations = of_groups.flat_map(|of_group| operations(of_group, *cut_bytes));
        let appended = slots.append(runtime, slot, now, producer, operations);
        let written = appended.as_ref().map_or_else(|refused| refused.written, |_| records.len());
        counters.records += written as u64;
        appended
    }

    /// Appends the end of a transaction to a slot and replays it: the offsets that the producer has
    /// pending in the slot are committed or dropped. Returns the position of the appended marker.
    pub(super) fn end_transaction(
        &mut self,
        runtime: &mut Runtime,
        slot: Slot,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        self.counters.records += 1;
        self.slots.end_transaction(runtime, slot, now, producer, marker)
    }

    /// Call this if the log refused operations. Their groups return to their durable state.
    pub(super) fn not_written(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        records: &[GroupRecord<'_>],
    ) -> Output<'static> {
        self.call(slot, inputs, |coordinator, context| coordinator.not_written(context, records))
    }

    /// Answers what is parked in a slot that another node leads now. What the coordinator asked the
    /// leaders of partitions is forgotten: it waits for records that may never be durable.
    pub(super) fn resign(&mut self, slot: Slot, inputs: Inputs<'_>) -> Output<'static> {
        self.state_calls.retain(|(of, _)| *of != slot);
        self.refused_calls.retain(|(of, _)| *of != slot);
        self.call(slot, inputs, |coordinator, context| coordinator.resign(context))
    }

    fn coordinators_deadline(&self) -> Option<(i64, Slot)> {
        self.slots.next_deadline().filter(|_| !Fault::DeadTimer.is_injected())
    }

    /// The time when the next timer of the groups is due.
    pub(super) fn expiry_deadline(&self) -> Option<i64> {
        self.coordinators_deadline().and_then(|(at, _)| self.clock.wake_at(at))
    }

    /// The time at which the timer that is due first is late, if it has not fired by then.
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
        let Inputs { times: Times { now, wall, .. }, ids, image, runtime, .. } = inputs;
        let (now, position) = (self.clock.at(now), runtime.next_position(slot.log_slot()));
        self.slots.on(slot, |coordinator, budget| {
            act(coordinator, &mut Context { now, wall, position, ids, topics: image, budget })
        })
    }
}
