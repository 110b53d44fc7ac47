//! The log of a shard, and its records.
//!
//! Invariant: a running shard appends records of internal topics only here. Each operation is
//! applied to the machine of its partition at once. The only exception are records of a state that
//! the machine already has ([`Topic::restate`](crate::Topic::restate)).

use crate::flush_clock::FlushClock;
use crate::quorum::Quorum;
use crate::written::{partition, write};
use crate::{LogCounters, Machine, Slots, Transactional};
use muster_codec::Wall;
use muster_codec::record_batch::{EndTxnMarker, Producer};
use muster_faults::Fault;
use muster_storage::{
    AppendError, CompactionNews, FileDone, FileOp, LogPartition, LogSlot, ShardLog, UNPARTITIONED,
};
use tracing::{debug, warn};

/// A flush that takes at least this long is logged. From then on, the clock of the groups' timers
/// stands still until the flush ends.
const SLOW_FLUSH_MS: u64 = 1_000;

/// News of the log's files.
#[derive(Debug, PartialEq, Eq)]
pub enum LogNews {
    /// A segment is damaged. The text names the segment and the reason.
    Damaged(String),
    /// The segments up to this position were replaced.
    Rewritten(u64),
}

/// The log refused an operation.
#[derive(Debug)]
pub struct NotWritten {
    pub error: AppendError,
    /// The number of records before this operation, which are written.
    pub written: usize,
}

/// The log of a shard, with the time that its flushes take.
#[derive(Debug)]
pub struct Runtime {
    pub(crate) log: ShardLog,
    pub(crate) quorum: Quorum,
    flush: FlushClock,
    linger: FlushClock,
    /// All partitions that clients may read.
    pub(crate) partitions: Vec<LogPartition>,
    /// See [`Self::moved`].
    pub(crate) moved: Vec<LogPartition>,
    pub(crate) moved_slots: Vec<LogSlot>,
    counters: LogCounters,
}

impl Runtime {
    /// The runtime of a log of one machine. `partitions` are all partitions that clients may read.
    pub fn new(log: ShardLog, partitions: Vec<LogPartition>) -> Self {
        let (flush, linger) = (FlushClock::default(), FlushClock::default());
        let moved = partitions.clone();
        let (moved_slots, counters) = (Vec::new(), LogCounters::default());
        let quorum = Quorum::Alone;
        Self { log, quorum, flush, linger, partitions, moved, moved_slots, counters }
    }

    pub fn log(&self) -> &ShardLog {
        &self.log
    }

    /// The log, for work that appends no new records.
    pub fn log_mut(&mut self) -> &mut ShardLog {
        &mut self.log
    }

    pub fn counters(&self) -> &LogCounters {
        &self.counters
    }

    /// See [`ShardLog::position_of`].
    pub fn position(&self, partition: LogPartition) -> u64 {
        self.log.position_of(partition)
    }

    /// The position that an operation of this slot gets if it is the log's next operation.
    pub fn next_position(&self, slot: LogSlot) -> u64 {
        self.log.next_position(slot)
    }

    /// The position up to which the operations of a slot are durable: here, or on a quorum of
    /// disks.
    pub fn flushed(&self, slot: LogSlot) -> u64 {
        self.quorum.visible(&self.log, slot)
    }

    /// Whether no request may be handled now. Either too many bytes wait for the disk, or for other
    /// nodes. Or startup found operations that are not durable yet: answers could show their
    /// effects.
    // The shard asks several times a turn.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.log.is_full() || self.quorum.is_full() || !self.log.is_recovered()
    }

    /// Whether all accepted operations are durable.
    pub fn is_flushed(&self) -> bool {
        let progress = self.log.progress();
        progress.accepted() == progress.flushed()
    }

    /// The partitions with operations that became durable with the last completed file operation.
    /// At first, these are all partitions. In a cluster messages of other nodes make operations
    /// durable, too: these are the partitions since [`Self::moved_taken`].
    pub fn moved(&self) -> &[LogPartition] {
        &self.moved
    }

    /// The slots of the operations that became durable, each with the position up to which all its
    /// operations are durable.
    pub fn moved_slots(&self) -> impl Iterator<Item = (LogSlot, u64)> {
        self.moved_slots.iter().map(|slot| (*slot, self.flushed(*slot)))
    }

    /// Sets the time. `micros` comes from a clock with a finer resolution.
    pub fn advance(&mut self, now: i64, wall: Wall, micros: u64) {
        self.flush.advance(micros);
        self.linger.advance(micros);
        self.log.set_wall(now, wall);
    }

    /// Appends operations of a partition, each atomic, and applies them to the partition's machine.
    /// Returns [`ShardLog::position_of`] the partition.
    ///
    /// # Errors
    /// An operation is too large for the log. This operation and the following ones are not
    /// written. Or another node leads the slot, and nothing is written.
    pub fn append<'o, 'r: 'o, M: Machine>(
        &mut self,
        machines: &mut Slots<M>,
        index: u32,
        now: i64,
        operations: impl IntoIterator<Item = &'o [M::Record<'r>]>,
    ) -> Result<u64, NotWritten> {
        self.append_each(machines, index, now, None, operations, M::apply)
    }

    /// Like [`Self::append`], in a transaction of a producer.
    ///
    /// # Errors
    /// The errors of [`Self::append`].
    pub fn append_in_transaction<'o, 'r: 'o, M: Transactional>(
        &mut self,
        machines: &mut Slots<M>,
        index: u32,
        now: i64,
        producer: Producer,
        operations: impl IntoIterator<Item = &'o [M::Record<'r>]>,
    ) -> Result<u64, NotWritten> {
        let apply = |machine: &mut M, operation: &[M::Record<'r>], position| {
            if Fault::PendingShown.is_injected() {
                machine.apply(operation, position);
            } else {
                machine.apply_in_transaction(producer, operation, position);
            }
        };
        self.append_each(machines, index, now, Some(producer), operations, apply)
    }

    fn append_each<'o, 'r: 'o, M: Machine>(
        &mut self,
        machines: &mut Slots<M>,
        index: u32,
        now: i64,
        producer: Option<Producer>,
        operations: impl IntoIterator<Item = &'o [M::Record<'r>]>,
        apply: impl Fn(&mut M, &[M::Record<'r>], u64),
    ) -> Result<u64, NotWritten> {
        let partition = partition::<M>(index);
        if !self.leads(self.log.slot_of(partition)) {
            self.counters.operations_refused += 1;
            return Err(NotWritten { error: AppendError::NotLeader, written: 0 });
        }
        let mut written = 0;
        for operation in operations {
            let appended = write(&mut self.log, partition, now, producer, operation);
            self.counters.operations_refused += u64::from(appended.is_err());
            let appended = appended.map_err(|error| NotWritten { error, written })?;
            self.begin_linger::<M>();
            written += operation.len();
            // Only operations of groups are left out. The fault is to be found by the shard's
            // running check, but if other records were left out, clients would notice it.
            let is_of_groups = M::RULE.lingers;
            if Fault::ReplayDiffers.is_injected() && is_of_groups && appended.is_multiple_of(128) {
                continue;
            }
            let position = self.position(partition);
            machines.on(index, |machine, _| apply(machine, operation, position));
        }
        Ok(self.position(partition))
    }

    /// Appends the marker of a producer to a partition, and applies it to the machine. Returns the
    /// position of the marker.
    ///
    /// # Panics
    /// Another node leads the slot.
    pub fn append_marker<M: Transactional>(
        &mut self,
        machines: &mut Slots<M>,
        index: u32,
        now: i64,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        let partition = partition::<M>(index);
        assert!(self.leads(self.log.slot_of(partition)), "only the leader appends");
        self.log.append_marker(partition, now, producer, marker);
        self.begin_linger::<M>();
        let position = self.position(partition);
        machines.on(index, |machine, _| machine.end_transaction(producer, marker, position));
        position
    }

    /// Records were appended directly to [`Self::log_mut`]. Begins to measure how long they linger:
    /// how long they wait for their flush to begin.
    pub(crate) fn appended(&mut self) {
        self.linger.begin();
    }

    /// Begins to measure how long operations wait for their flush, if their topic lets them wait.
    fn begin_linger<M: Machine>(&mut self) {
        if M::RULE.lingers {
            self.linger.begin();
        }
    }

    /// Starts the next flush if its time has come.
    pub fn poll(&mut self, now: i64, ops: &mut Vec<FileOp>) -> Option<LogNews> {
        self.poll_replicas(now, ops);
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
            CompactionNews::SpareGone { reason } => {
                warn!(
                    "a file that the log was to use again is gone: {reason}. It uses another one"
                );
                None
            }
            CompactionNews::Damaged { segment, reason } => {
                Some(LogNews::Damaged(format!("segment {segment}: {reason}")))
            }
            CompactionNews::Rewritten { position } => Some(LogNews::Rewritten(position)),
        }
    }

    /// The duration so far of the flush under way, in microseconds.
    pub fn flushing_micros(&self) -> u64 {
        self.flush.so_far()
    }

    /// Handles the end of a file operation of the log. If this was a slow flush, returns its
    /// duration in milliseconds.
    pub fn done(&mut self, done: FileDone) -> Option<u64> {
        let (flushed, was_recovered) = (self.log.progress().flushed(), self.log.is_recovered());
        self.log.done(done);
        if self.replication().is_none() {
            self.moved_taken();
        }
        if self.log.is_recovered() == was_recovered {
            let seen = self.log.flushed().iter().filter(|it| it.topic != UNPARTITIONED);
            self.moved.extend(seen);
            self.moved_slots.extend(self.log.flushed_slots());
        } else {
            self.moved.extend(&self.partitions);
            self.moved_slots.extend(self.partitions.iter().map(|it| self.log.slot_of(*it)));
            self.moved_slots.sort_unstable();
            self.moved_slots.dedup();
        }
        self.replicas_flushed();
        let has_flushed = self.log.progress().flushed() > flushed;
        let micros = has_flushed.then(|| self.flush.end()).flatten();
        micros.into_iter().for_each(|micros| self.counters.flush_micros.record(micros));
        micros.map(|micros| micros / 1_000).filter(|ms| *ms >= SLOW_FLUSH_MS)
    }
}
