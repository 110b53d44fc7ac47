//! The coordinators of a shard and the log that makes them durable: the only place where records
//! of groups are written and replayed. Those of transactions have the log from here, and replay
//! their records themselves.

use super::Inputs;
use super::clock::GroupClock;
use super::counters::{FlushClock, LogCounters};
use super::faults::faulty;
use super::not_restated::NotRestated;
use super::slots::{ListingOfSlots, Slots};
use crate::clock::Times;
use crate::placement::Slot;
use crate::topics;
use muster_codec::GroupRequest;
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::record_batch::{EndTxnMarker, WriteRecord};
use muster_codec::records::GroupRecord;
use muster_coordinator::limits::{GROUP_RECORD_BYTES_MAX, MEMBER_PROFILE_BYTES_MAX};
use muster_coordinator::{
    Caller, Context, Coordinator, DeletedTopic, Output, Producer, Refusal, StateCall, StateWalk,
    WalkLimit, WalkProgress, operations,
};
use muster_faults::Fault;
use muster_storage::limits::OPERATION_BYTES_MAX;
use muster_storage::{
    AppendError, CompactionNews, FileDone, FileOp, LogExtent, LogPartition, ShardLog,
};
use tracing::{debug, warn};

// The record of the largest group fits one operation: its members, and the names of the group, its
// protocol type, protocol and leader.
const _: () = assert!(GROUP_RECORD_BYTES_MAX + 8 * STRING_BYTES_MAX <= OPERATION_BYTES_MAX);

// Beside the records that are cut, an operation of a heartbeat has a member's profile and its
// assignment: it fits, however many members the group has.
const _: () =
    assert!(OPERATION_BYTES_MAX / 2 + 3 * MEMBER_PROFILE_BYTES_MAX <= OPERATION_BYTES_MAX);

/// A flush that takes so long is logged: the time of the groups stands still beyond it.
const SLOW_FLUSH_MS: u64 = 1_000;

/// News of the log's files.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogNews {
    /// A segment is damaged: it is named, with the reason.
    Damaged(String),
    /// The segments up to this position are replaced.
    Rewritten(u64),
}

/// The log refused an operation.
#[derive(Debug)]
pub(super) struct NotWritten {
    pub(super) error: AppendError,
    /// Number of the records before it, which are written.
    pub(super) written: usize,
}

/// The coordinators of a shard's slots and the log of all of them.
pub(super) struct GroupLog {
    slots: Slots,
    log: ShardLog,
    /// The partitions of internal topics in it.
    partitions: Vec<LogPartition>,
    /// The most bytes in an operation of records that may be cut.
    cut_bytes: usize,
    clock: GroupClock,
    /// How often timers were fired.
    expirations: u64,
    /// A timer was late: the number of expirations, and since when it has been that.
    late: Option<(u64, i64)>,
    /// Requests of coordinators to the leaders of partitions.
    state_calls: Vec<(Slot, StateCall)>,
    pub(super) refused_calls: Vec<(Slot, StateCall)>,
    /// See [`Self::moved`].
    moved: Vec<LogPartition>,
    flush: FlushClock,
    linger: FlushClock,
    counters: LogCounters,
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
            log,
            partitions,
            cut_bytes,
            clock: GroupClock::new(now),
            expirations: 0,
            late: None,
            state_calls: Vec::new(),
            refused_calls: Vec::new(),
            moved,
            flush: FlushClock::default(),
            linger: FlushClock::default(),
            counters: LogCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> &LogCounters {
        &self.counters
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) fn log(&self) -> &ShardLog {
        &self.log
    }

    /// The log as a backup takes it.
    pub(super) fn begin_backup(&mut self) -> LogExtent {
        self.log.begin_backup()
    }

    /// Keeps requests to the leaders of partitions until the records before them are durable.
    pub(super) fn keep_state_calls(&mut self, slot: Slot, calls: Vec<StateCall>) {
        let position = self.position(slot);
        self.state_calls.extend(calls.into_iter().map(|mut it| {
            it.visible_at = it.visible_at.min(position);
            (slot, it)
        }));
    }

    /// Whether some are kept.
    pub(super) fn has_state_calls(&self) -> bool {
        !self.state_calls.is_empty() || !self.refused_calls.is_empty()
    }

    /// Those whose records the log refused.
    pub(super) fn take_refused_calls(&mut self) -> Vec<(Slot, StateCall)> {
        std::mem::take(&mut self.refused_calls)
    }

    /// Those whose records are durable.
    pub(super) fn take_state_calls(&mut self) -> Vec<(Slot, StateCall)> {
        let log = &self.log;
        let is_durable = |(slot, call): &mut (Slot, StateCall)| {
            call.visible_at <= log.progress_of(slot.log_partition()).flushed()
        };
        self.state_calls.extract_if(.., is_durable).collect()
    }

    /// The partitions of internal topics in the log.
    pub(super) fn partitions(&self) -> &[LogPartition] {
        &self.partitions
    }

    /// Both, for work that writes no records.
    pub(super) fn parts(&mut self) -> (&mut Slots, &mut ShardLog) {
        (&mut self.slots, &mut self.log)
    }

    /// The position of a slot's last operation.
    pub(super) fn position(&self, slot: Slot) -> u64 {
        self.log.progress_of(slot.log_partition()).accepted()
    }

    /// The offset that the slot's next record gets.
    pub(super) fn end_offset(&self, slot: Slot) -> i64 {
        self.log.log_end_offset(slot.log_partition())
    }

    /// The position that the slot's next operation gets.
    pub(super) fn next_position(&self, slot: Slot) -> u64 {
        self.position(slot) + 1
    }

    /// The position up to which the operations of a partition are durable.
    pub(super) fn flushed(&self, partition: LogPartition) -> u64 {
        self.log.progress_of(partition).flushed()
    }

    /// Passes a request to the coordinator of a slot. Also returns the limit that it has met.
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
        self.flush.advance(micros);
        self.linger.advance(micros);
        self.log.set_wall(now, wall);
        let progress = self.log.progress();
        self.clock.watch(progress.flushed(), progress.accepted());
    }

    /// The groups' time at a past time.
    pub(super) fn time(&self, now: i64) -> i64 {
        self.clock.at(now)
    }

    /// The time since which operations are pending, and no further one is durable.
    pub(super) fn flushing_since(&self) -> Option<i64> {
        self.clock.flushing_since()
    }

    /// The time since which a timer is late, and none fires. To be called now and then.
    pub(super) fn timers_late_since(&mut self, now: i64) -> Option<i64> {
        let next = self.slots.next_deadline().filter(|(at, _)| self.clock.is_late(*at));
        let known = self.late.filter(|(fired, _)| *fired == self.expirations);
        self.late = next.and(known.or(Some((self.expirations, now))));
        self.late.map(|(_, since)| since)
    }

    /// The slot that has a timer due at a past time.
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

    /// Removes offsets of deleted topics from the groups of a slot that follow one, up to the limit
    /// of one call.
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

    /// Removes the groups of a slot that follow one, up to the limit of one call.
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
        let log = &self.log;
        self.slots.list(list, count, |partition| log.progress_of(partition).flushed());
    }

    /// Appends the records of a slot and replays them: those of one group are one atomic operation,
    /// except as in [`operations`]. `producer` is that of the transaction that they are part of.
    /// Returns the position of the last.
    ///
    /// # Errors
    /// An operation is too large for the log; it and the following ones are not written.
    pub(super) fn append(
        &mut self,
        slot: Slot,
        now: i64,
        producer: Option<Producer>,
        records: &[GroupRecord<'_>],
    ) -> Result<u64, NotWritten> {
        let Self { slots, log, cut_bytes, linger, counters, .. } = self;
        let partition = slot.log_partition();
        let mut written = 0;
        let faulty = faulty(records);
        let records = faulty.as_deref().unwrap_or(records);
        let of_groups = records.chunk_by(|a, b| a.group_id() == b.group_id());
        for operation in of_groups.flat_map(|of_group| operations(of_group, *cut_bytes)) {
            debug_assert_eq!(slots.slot_of(operation[0].group_id()), slot);
            let appended = match producer {
                None => log.append(partition, now, operation),
                Some(Producer { id, epoch }) => {
                    log.append_in_transaction(partition, now, (id, epoch), operation)
                }
            };
            counters.operations_refused += u64::from(appended.is_err());
            let appended = appended.map_err(|error| NotWritten { error, written })?;
            linger.begin();
            counters.records += operation.len() as u64;
            written += operation.len();
            if Fault::ReplayDiffers.is_injected() && appended.is_multiple_of(128) {
                continue;
            }
            let position = log.progress_of(partition).accepted();
            slots.on(slot, |coordinator, _| {
                let producer = producer.filter(|_| !Fault::PendingShown.is_injected());
                operation.iter().for_each(|record| match producer {
                    None => coordinator.replay(record, position),
                    Some(producer) => coordinator.replay_in_transaction(producer, record, position),
                });
            });
        }
        Ok(self.position(slot))
    }

    /// Appends records of another topic as one operation, which are not replayed here. Returns its
    /// position among those of the partition.
    ///
    /// # Errors
    /// It is too large for the log; nothing is written.
    pub(super) fn append_of_topic<R: WriteRecord>(
        &mut self,
        partition: LogPartition,
        now: i64,
        records: impl IntoIterator<Item = R>,
    ) -> Result<u64, AppendError> {
        let appended = self.log.append(partition, now, records);
        self.counters.operations_refused += u64::from(appended.is_err());
        appended.map(|_| self.log.progress_of(partition).accepted())
    }

    /// Appends the marker of a producer to a slot, and replays it: its pending offsets there are
    /// committed or dropped. Returns its position.
    pub(super) fn end_transaction(
        &mut self,
        slot: Slot,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        let Producer { id, epoch } = producer;
        self.log.append_marker(slot.log_partition(), now, (id, epoch), marker);
        self.linger.begin();
        self.counters.records += 1;
        let position = self.position(slot);
        self.slots.on(slot, |coordinator, _| {
            coordinator.replay_end_transaction(id, marker.outcome, position);
        });
        position
    }

    /// Appends about `count` further records of a slot's state again, each as an operation, without
    /// replaying them: it is the state that they make. Returns false after the last.
    ///
    /// # Errors
    /// A group in the snapshot is damaged, or a record is too large for the log.
    pub(super) fn restate(
        &mut self,
        slot: Slot,
        now: i64,
        walk: &mut StateWalk,
        count: usize,
    ) -> Result<bool, NotRestated> {
        let Self { slots, log, linger, .. } = self;
        let (partition, mut appended) = (slot.log_partition(), Ok(()));
        let mut append = |producer: Option<Producer>, record: &GroupRecord<'_>| {
            let position = match producer {
                None => log.append(partition, now, [record]),
                Some(Producer { id, epoch }) => {
                    log.append_in_transaction(partition, now, (id, epoch), [record])
                }
            };
            if let Err(error) = position {
                appended = Err(error);
            }
        };
        let restated =
            slots.on(slot, |coordinator, _| coordinator.restate(walk, count, &mut append));
        linger.begin();
        appended?;
        restated.map_err(|damage| NotRestated::Snapshot(damage.to_string()))
    }

    /// Appends a record of a state again.
    ///
    /// # Errors
    /// It is too large for the log.
    pub(super) fn restate_one(
        &mut self,
        partition: LogPartition,
        now: i64,
        record: &impl WriteRecord,
    ) -> Result<(), AppendError> {
        self.log.append(partition, now, [record])?;
        self.linger.begin();
        Ok(())
    }

    /// The operations of these records were refused: their groups return to their durable state.
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
        let (submitted, bytes) = (self.log.progress().submitted(), self.log.written_bytes());
        self.log.poll(now, ops);
        let operations = self.log.progress().submitted() - submitted;
        if operations > 0 {
            self.flush.begin();
            if let Some(micros) = self.linger.end() {
                self.counters.linger_micros.record(micros);
            }
            self.counters.flush_operations.record(operations);
            self.counters.flush_bytes.record(self.log.written_bytes() - bytes);
        }
        self.log.take_compaction_news().and_then(|news| self.take_news(news))
    }

    /// Counts and logs the results of compaction.
    fn take_news(&mut self, news: CompactionNews) -> Option<LogNews> {
        match news {
            CompactionNews::Done { bytes_before, bytes_after } => {
                self.counters.compactions += 1;
                self.counters.compacted_bytes += bytes_before.saturating_sub(bytes_after);
                debug!("compacted {bytes_before} bytes of the log to {bytes_after}");
                None
            }
            CompactionNews::NoSpace => {
                warn!(
                    "the disk is full: the log is not compacted now; the next attempt comes later"
                );
                None
            }
            CompactionNews::Gone { reason } => {
                warn!("the log is not compacted now: {reason}. The next attempt comes later");
                None
            }
            CompactionNews::Damaged { segment, reason } => {
                Some(LogNews::Damaged(format!("segment {segment}: {reason}")))
            }
            CompactionNews::Rewritten { position } => Some(LogNews::Rewritten(position)),
        }
    }

    /// How long the flush under way has taken so far.
    pub(super) fn flushing_micros(&self) -> u64 {
        self.flush.so_far()
    }

    /// A file operation of the log is done. Returns the milliseconds that a flush has taken if it
    /// was slow.
    pub(super) fn done(&mut self, done: FileDone) -> Option<u64> {
        let was_recovered = self.log.is_recovered();
        let flushed = self.log.progress().flushed();
        self.log.done(done);
        let has_flushed = self.log.progress().flushed() > flushed;
        let micros = has_flushed.then(|| self.flush.end()).flatten();
        micros.into_iter().for_each(|micros| self.counters.flush_micros.record(micros));
        self.moved.clear();
        if self.log.is_recovered() == was_recovered {
            let of_topics = self.log.flushed().iter().filter(|it| **it != topics::CLUSTER);
            self.moved.extend(of_topics);
        } else {
            self.moved.extend(&self.partitions);
        }
        micros.map(|micros| micros / 1_000).filter(|ms| *ms >= SLOW_FLUSH_MS)
    }

    /// The partitions of internal topics of which the last operation of the log made operations
    /// durable; at first all.
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
