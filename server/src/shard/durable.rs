//! The groups of a shard and the log that makes them durable: the only place where records are
//! written and replayed.

use super::offsets_topic::OffsetsTopic;
use super::slots::{ListingOfSlots, Slots};
use super::{Command, Common, GroupClock};
use crate::clock::Times;
use crate::placement::Slot;
use muster_codec::GroupRequest;
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::records::{ClusterRecord, GroupRecord};
use muster_coordinator::limits::{GROUP_RECORD_BYTES_MAX, MEMBER_PROFILE_BYTES_MAX};
use muster_coordinator::{
    Caller, Context, Coordinator, DeletedTopic, GroupRefusal, Ids, Output, Reached, Topics,
    operations,
};
use muster_storage::injected::{self, Fault};
use muster_storage::limits::OPERATION_BYTES_MAX;
use muster_storage::{AppendError, CompactionNews, FileDone, FileOp, LogPartition, ShardLog};
use tracing::{debug, error, warn};

// The record of the largest group fits one operation: its members, and the names of the group, its
// protocol type, protocol and leader.
const _: () = assert!(GROUP_RECORD_BYTES_MAX + 8 * STRING_BYTES_MAX <= OPERATION_BYTES_MAX);

// Beside the records that are cut, an operation of a heartbeat has a member's profile and its
// assignment: it fits, however many members the group has.
const _: () =
    assert!(OPERATION_BYTES_MAX / 2 + 3 * MEMBER_PROFILE_BYTES_MAX <= OPERATION_BYTES_MAX);

/// Groups visited at once for offsets of deleted topics: about a millisecond of work.
const FORGETTING_GROUPS: usize = 1_000;

/// The log refused an operation.
#[derive(Debug)]
pub(crate) struct NotWritten {
    pub(crate) error: AppendError,
    /// Number of the records before it, which are written.
    pub(crate) written: usize,
}

/// The coordinators of a shard's slots and the log of all of them.
pub(crate) struct GroupLog {
    pub(crate) slots: Slots,
    pub(crate) log: ShardLog,
    pub(crate) offsets_topic: OffsetsTopic,
    /// The most bytes in an operation of records that may be cut.
    cut_bytes: usize,
    clock: GroupClock,
    ops: Vec<FileOp>,
    /// See [`Self::moved`].
    moved: Vec<Slot>,
}

impl GroupLog {
    pub(crate) fn new(slots: Slots, log: ShardLog, common: &Common, now: i64) -> Self {
        let offsets_topic = OffsetsTopic::default();
        let cut_bytes = common.log_sizes.operation_bytes_max / 2;
        let clock = GroupClock::new(now);
        let moved = slots.iter().collect();
        Self { slots, log, offsets_topic, cut_bytes, clock, ops: Vec::new(), moved }
    }

    /// The position of a slot's last operation.
    pub(crate) fn position(&self, slot: Slot) -> u64 {
        self.log.progress_of(slot.log_partition()).accepted()
    }

    /// The position that the slot's next operation gets.
    pub(crate) fn next_position(&self, slot: Slot) -> u64 {
        self.position(slot) + 1
    }

    /// The position up to which the operations of a slot are durable.
    pub(crate) fn flushed(&self, slot: Slot) -> u64 {
        self.log.progress_of(slot.log_partition()).flushed()
    }

    /// The position up to which the cluster's operations are durable.
    pub(crate) fn cluster_flushed(&self) -> u64 {
        self.log.progress_of(LogPartition::Cluster).flushed()
    }

    /// Whether all accepted operations are durable.
    pub(crate) fn is_flushed(&self) -> bool {
        let progress = self.log.progress();
        progress.accepted() == progress.flushed()
    }

    /// Whether no request may be handled now: too many bytes wait for the disk, or operations found
    /// at the start, which answers would reveal, are not durable yet.
    pub(crate) fn is_closed(&self) -> bool {
        self.log.is_full() || !self.log.is_recovered()
    }

    /// Passes a request to the coordinator of a slot. Also returns why no group was created for it.
    pub(crate) fn handle<'r>(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
    ) -> (Output<'r>, Option<GroupRefusal>) {
        self.call(slot, inputs, |coordinator, context| {
            let output = coordinator.handle(context, caller, request);
            (output, coordinator.take_refusal())
        })
    }

    /// Advances the time of the groups.
    pub(crate) fn advance(&mut self, Times { now, wall }: Times) {
        self.clock.advance(now);
        self.log.set_wall(now, wall);
        let progress = self.log.progress();
        self.clock.watch(progress.flushed(), progress.accepted());
    }

    /// The groups' time at a past time.
    pub(crate) fn time(&self, now: i64) -> i64 {
        self.clock.at(now)
    }

    /// The slot that has a timer due at a past time.
    pub(crate) fn due(&self, now: i64) -> Option<Slot> {
        let (at, slot) = self.coordinators_deadline()?;
        (at <= self.clock.at(now)).then_some(slot)
    }

    /// Fires the due timers of a slot.
    pub(crate) fn expire(&mut self, slot: Slot, inputs: Inputs<'_>) -> Output<'static> {
        self.call(slot, inputs, Coordinator::expire)
    }

    /// Removes offsets of deleted topics from the groups of a slot after one, as far as one call
    /// goes.
    pub(crate) fn topics_deleted(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        deleted: &[DeletedTopic<'_>],
        after: Option<&str>,
    ) -> (Output<'static>, Reached) {
        self.call(slot, inputs, |coordinator, context| {
            let (count, mut output) = (FORGETTING_GROUPS, Output::default());
            let reached =
                coordinator.topics_deleted_after(context, deleted, after, count, &mut output);
            (output, reached)
        })
    }

    /// Continues a listing by about `count` groups; returns whether it is complete.
    pub(crate) fn list(&mut self, listing: &mut ListingOfSlots, count: usize) -> bool {
        let log = &self.log;
        let flushed = |slot: Slot| log.progress_of(slot.log_partition()).flushed();
        self.slots.list(listing, count, flushed)
    }

    /// Appends the records of a slot and replays them: those of one group are one atomic operation,
    /// except as in [`operations`]. Returns the position of the last.
    ///
    /// # Errors
    /// An operation is too large for the log; it and the following ones are not written.
    pub(crate) fn append(
        &mut self,
        slot: Slot,
        now: i64,
        records: &[GroupRecord<'_>],
    ) -> Result<u64, NotWritten> {
        let Self { slots, log, cut_bytes, .. } = self;
        let partition = slot.log_partition();
        let mut written = 0;
        let of_groups = records.chunk_by(|a, b| a.group_id() == b.group_id());
        for operation in of_groups.flat_map(|of_group| operations(of_group, *cut_bytes)) {
            debug_assert_eq!(slots.slot_of(operation[0].group_id()), slot);
            let appended = log.append(partition, now, operation);
            let appended = appended.map_err(|error| NotWritten { error, written })?;
            written += operation.len();
            if injected::is(Fault::ReplayDiffers) && appended.is_multiple_of(128) {
                continue;
            }
            let position = log.progress_of(partition).accepted();
            slots.on(slot, |coordinator, _| {
                operation.iter().for_each(|record| coordinator.replay(record, position));
            });
        }
        Ok(self.position(slot))
    }

    /// The operations of these records were refused: their groups return to their durable state.
    pub(crate) fn not_written(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        records: &[GroupRecord<'_>],
    ) -> Output<'static> {
        self.call(slot, inputs, |coordinator, context| coordinator.not_written(context, records))
    }

    /// Appends records of the cluster as one atomic operation; returns its position among those of
    /// the cluster.
    ///
    /// # Errors
    /// The operation is too large for the log; nothing is written.
    pub(crate) fn append_cluster(
        &mut self,
        now: i64,
        records: &[ClusterRecord<'_>],
    ) -> Result<u64, AppendError> {
        self.log.append(LogPartition::Cluster, now, records)?;
        Ok(self.log.progress_of(LogPartition::Cluster).accepted())
    }

    /// Starts the next flush if its time has come.
    pub(crate) fn poll(&mut self, now: i64, commands: &mut Vec<Command>) {
        self.log.poll(now, &mut self.ops);
        self.log.take_compaction_news().iter().for_each(log_news);
        commands.extend(self.ops.drain(..).map(Command::File));
    }

    /// A file operation of the log is done.
    pub(crate) fn done(&mut self, done: FileDone) {
        let was_recovered = self.log.is_recovered();
        self.log.done(done);
        self.moved.clear();
        if self.log.is_recovered() != was_recovered {
            return self.moved.extend(self.slots.iter());
        }
        let flushed = self.log.flushed().iter();
        self.moved.extend(flushed.filter_map(|partition| match partition {
            LogPartition::Cluster => None,
            LogPartition::ConsumerOffsets(index) => Some(Slot(*index)),
        }));
    }

    /// The slots of which the last operation of the log made operations durable; at first all.
    pub(crate) fn moved(&self) -> &[Slot] {
        &self.moved
    }

    fn coordinators_deadline(&self) -> Option<(i64, Slot)> {
        self.slots.next_deadline().filter(|_| !injected::is(Fault::DeadTimer))
    }

    /// When the next timer of the groups is due.
    pub(crate) fn expiry_deadline(&self) -> Option<i64> {
        self.coordinators_deadline().and_then(|(at, _)| self.clock.look_at(at))
    }

    /// When the log has the next operation to request.
    pub(crate) fn log_deadline(&self) -> Option<i64> {
        self.log.next_deadline()
    }

    /// Calls the coordinator of a slot.
    fn call<R>(
        &mut self,
        slot: Slot,
        Inputs { times, ids, topics }: Inputs<'_>,
        act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> R,
    ) -> R {
        let (now, wall) = (self.clock.at(times.now), times.wall);
        let position = self.next_position(slot);
        self.slots.on(slot, |coordinator, budget| {
            act(coordinator, &mut Context { now, wall, position, ids, topics, budget })
        })
    }
}

/// The inputs of a coordinator's call.
pub(crate) struct Inputs<'i> {
    pub(crate) times: Times,
    pub(crate) ids: &'i mut dyn Ids,
    pub(crate) topics: &'i dyn Topics,
}

/// Logs the results of compaction.
fn log_news(news: &CompactionNews) {
    match news {
        CompactionNews::Done { bytes_before, bytes_after } => {
            debug!("compacted {bytes_before} bytes of the log to {bytes_after}");
        }
        CompactionNews::NoSpace => {
            warn!("the disk is full: the log is not compacted now; the next attempt comes later");
        }
        CompactionNews::Damaged { segment, reason } => error!(
            "segment {segment} of the log is damaged: {reason}. The server continues without \
             compaction, but will not start again"
        ),
    }
}
