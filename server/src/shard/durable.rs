//! The groups of a shard and the log that makes them durable: the only place where records are
//! written and replayed.

use super::offsets_topic::OffsetsTopic;
use super::{Command, Common, GroupClock};
use crate::clock::Times;
use crate::placement::Placement;
use muster_codec::GroupRequest;
use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::records::{ClusterRecord, GroupRecord};
use muster_coordinator::limits::{GROUP_RECORD_BYTES_MAX, MEMBER_PROFILE_BYTES_MAX};
use muster_coordinator::{
    Caller, Context, Coordinator, DeletedTopic, Ids, Output, Reached, Topics, operations,
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

/// A coordinator and its log.
pub(crate) struct GroupLog {
    pub(crate) coordinator: Coordinator,
    pub(crate) log: ShardLog,
    pub(crate) offsets_topic: OffsetsTopic,
    placement: Placement,
    /// The most bytes in an operation of records that may be cut.
    cut_bytes: usize,
    clock: GroupClock,
    ops: Vec<FileOp>,
}

impl GroupLog {
    pub(crate) fn new(coordinator: Coordinator, log: ShardLog, common: &Common, now: i64) -> Self {
        let offsets_topic = OffsetsTopic::default();
        let cut_bytes = common.log_sizes.operation_bytes_max / 2;
        let placement = common.placement;
        let clock = GroupClock::new(now);
        let ops = Vec::new();
        Self { coordinator, log, offsets_topic, placement, cut_bytes, clock, ops }
    }

    /// The position that the next operation gets.
    pub(crate) fn next_position(&self) -> u64 {
        self.last_position() + 1
    }

    /// The position up to which the log is durable.
    pub(crate) fn flushed(&self) -> u64 {
        self.log.progress().flushed()
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

    pub(crate) fn handle<'r>(
        &mut self,
        times: Times,
        ids: &mut dyn Ids,
        topics: &dyn Topics,
        caller: Caller<'r>,
        request: GroupRequest<'r>,
    ) -> Output<'r> {
        let mut context = self.context(times, ids, topics);
        self.coordinator.handle(&mut context, caller, request)
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

    /// Whether a timer of the groups is due at a past time.
    pub(crate) fn is_expiry_due(&self, now: i64) -> bool {
        self.coordinator_deadline().is_some_and(|at| at <= self.clock.at(now))
    }

    /// Fires the due timers of the groups.
    pub(crate) fn expire(
        &mut self,
        times: Times,
        ids: &mut dyn Ids,
        topics: &dyn Topics,
    ) -> Output<'static> {
        let mut context = self.context(times, ids, topics);
        self.coordinator.expire(&mut context)
    }

    /// Removes offsets of deleted topics from the groups after one, as far as one call goes.
    pub(crate) fn topics_deleted(
        &mut self,
        times: Times,
        ids: &mut dyn Ids,
        topics: &dyn Topics,
        deleted: &[DeletedTopic<'_>],
        after: Option<&str>,
    ) -> (Output<'static>, Reached) {
        let mut output = Output::default();
        let mut context = self.context(times, ids, topics);
        let coordinator = &mut self.coordinator;
        let reached = coordinator.topics_deleted_after(
            &mut context,
            deleted,
            after,
            FORGETTING_GROUPS,
            &mut output,
        );
        (output, reached)
    }

    /// Appends the records and replays them: those of one group are one atomic operation, except as
    /// in [`operations`]. Returns the position of the last.
    ///
    /// # Errors
    /// An operation is too large for the log; it and the following ones are not written.
    pub(crate) fn append(
        &mut self,
        now: i64,
        records: &[GroupRecord<'_>],
    ) -> Result<u64, NotWritten> {
        let mut written = 0;
        let of_groups = records.chunk_by(|a, b| a.group_id() == b.group_id());
        for operation in of_groups.flat_map(|of_group| operations(of_group, self.cut_bytes)) {
            let index = self.placement.group_partition(operation[0].group_id());
            let partition = LogPartition::ConsumerOffsets(index);
            let position = self.log.append(partition, now, operation);
            let position = position.map_err(|error| NotWritten { error, written })?;
            written += operation.len();
            self.offsets_topic.appended(index);
            if injected::is(Fault::ReplayDiffers) && position.is_multiple_of(128) {
                continue;
            }
            operation.iter().for_each(|record| self.coordinator.replay(record, position));
        }
        Ok(self.last_position())
    }

    /// The operations of these records were refused: their groups return to their durable state.
    pub(crate) fn not_written(
        &mut self,
        times: Times,
        ids: &mut dyn Ids,
        topics: &dyn Topics,
        records: &[GroupRecord<'_>],
    ) -> Output<'static> {
        let context = self.context(times, ids, topics);
        self.coordinator.not_written(&context, records)
    }

    /// The position of the last operation.
    pub(crate) fn last_position(&self) -> u64 {
        self.log.progress().accepted()
    }

    /// Appends records of the cluster as one atomic operation; returns its position.
    ///
    /// # Errors
    /// The operation is too large for the log; nothing is written.
    pub(crate) fn append_cluster(
        &mut self,
        now: i64,
        records: &[ClusterRecord<'_>],
    ) -> Result<u64, AppendError> {
        self.log.append(LogPartition::Cluster, now, records)
    }

    /// Starts the next flush if its time has come.
    pub(crate) fn poll(&mut self, now: i64, commands: &mut Vec<Command>) {
        self.log.poll(now, &mut self.ops);
        self.log.take_compaction_news().iter().for_each(log_news);
        commands.extend(self.ops.drain(..).map(Command::File));
    }

    /// A write of the log is done; returns the position up to which the log is durable.
    pub(crate) fn done(&mut self, done: FileDone) -> u64 {
        self.log.done(done);
        self.flushed()
    }

    fn coordinator_deadline(&self) -> Option<i64> {
        self.coordinator.next_deadline().filter(|_| !injected::is(Fault::DeadTimer))
    }

    /// When the next timer of the groups is due.
    pub(crate) fn expiry_deadline(&self) -> Option<i64> {
        self.coordinator_deadline().and_then(|at| self.clock.look_at(at))
    }

    /// When the log has the next operation to request.
    pub(crate) fn log_deadline(&self) -> Option<i64> {
        self.log.next_deadline()
    }

    fn context<'c>(
        &self,
        times: Times,
        ids: &'c mut dyn Ids,
        topics: &'c dyn Topics,
    ) -> Context<'c> {
        let (now, wall) = (self.clock.at(times.now), times.wall);
        Context { now, wall, position: self.next_position(), ids, topics }
    }
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
