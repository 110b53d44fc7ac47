//! The log of a shard, and the parts that wait for it.

use super::topics::Topics;
use super::{Command, Shard, Stopping};
use crate::groups::TurnEnd;
use crate::partitions::{Bounds, Effects, INTERNAL_RECORD_BYTES, PartitionId};
use crate::placement::Slot;
use crate::topics::InternalTopic;
use muster_runtime::{LogBatches, LogRead, TopicSet, Turn};
use muster_storage::{FileDone, LogSlot, ShardLog};
use tracing::warn;

impl Shard {
    /// Takes the completion of a file operation.
    pub(super) fn file_done(&mut self, done: FileDone) {
        if self.runtime.log().owns(done.token()) {
            if let Some(took_ms) = self.runtime.done(done) {
                let shard = self.broker.number();
                warn!(target: "disk", shard, took_ms, "a flush of the log was slow");
            }
            return self.log_done();
        }
        if self.runtime.reads_entries(done.token()) {
            return self.entries_read(done);
        }
        let Self { runtime, upkeep, reads, groups, controller, transactions, shares, .. } = self;
        let log = runtime.log_mut();
        let done = match upkeep.done(log, self.times.now, done, &mut self.ops) {
            Ok(()) => return self.request_ops(),
            Err(done) => done,
        };
        let mut effects = Effects::default();
        match reads.take(log, &mut Topics { groups, controller, transactions, shares }, done) {
            Ok((token, batches)) => self.partitions.log_read(token, batches, &mut effects),
            Err(done) => self.partitions.file_done(done, &mut effects),
        }
        self.perform(effects);
    }

    /// Called when a file operation of the log is done, and in a cluster after each event that
    /// changes what is committed. Continues the work that waits for the positions that are durable
    /// now.
    pub(super) fn log_done(&mut self) {
        self.settle_replicas();
        for (slot, flushed) in self.runtime.moved_slots() {
            self.clients.answers().flushed(slot, flushed);
            slot.place().into_iter().for_each(|at| self.transactions.flushed(Slot(at), flushed));
        }
        self.partitions.shard_log_flushed(self.runtime.log().progress().flushed());
        self.share_states_flushed();
        self.send_marked();
        self.publish();
        self.report_ends();
        self.answer_inquiries();
        self.replicas_settled();
    }

    /// Sends changes of the cluster that are durable.
    pub(super) fn publish(&mut self) {
        if self.follows_image() {
            self.follow_image();
        }
        if let Some(controller) = &mut self.controller {
            controller.publish(self.runtime.flushed(LogSlot::UNPARTITIONED), &mut self.commands);
        }
    }

    /// Reports how far the log's partitions can be read now, if operations have become durable.
    pub(crate) fn report_ends(&mut self) {
        let mut effects = Effects::default();
        let Self { runtime, groups, controller, transactions, shares, partitions, .. } = self;
        let topics = &mut Topics { groups, controller, transactions, shares };
        for partition in runtime.moved() {
            let (of_topic, index) = (InternalTopic::of(*partition), partition.index);
            let end = runtime.log().high_watermark(*partition);
            let machines = topics.get(partition.topic);
            let stable = machines.map_or(end, |it| it.stable_offset(index, end));
            let log_start = ShardLog::LOG_START_OFFSET;
            let bounds = Bounds { log_start, high_watermark: end, stable };
            let id = PartitionId { topic: of_topic.id(), index: index as i32 };
            partitions.log_flushed(id, bounds, INTERNAL_RECORD_BYTES, &mut effects);
        }
        self.perform(effects);
    }

    /// Plans a read of the log.
    pub(super) fn read_log(&mut self, read: LogRead) {
        let is_planned = self.reads.begin(self.runtime.log_mut(), read, &mut self.ops);
        self.request_ops();
        if !is_planned {
            let mut effects = Effects::default();
            self.partitions.log_read(read.token, Ok(LogBatches::default()), &mut effects);
            self.perform(effects);
        }
    }

    /// Whether the machines are in an unexpected state: see
    /// [`Upkeep::find_faults`](muster_runtime::Upkeep::find_faults).
    pub(super) fn has_faults(&mut self) -> bool {
        let Self { upkeep, groups, controller, transactions, shares, .. } = self;
        let topics = &mut Topics { groups, controller, transactions, shares };
        let has_faults = upkeep.find_faults(self.times.now, topics, &mut self.ops);
        self.request_ops();
        has_faults
    }

    /// Ends a turn of the groups and of the log.
    pub(super) fn end_turn_of_log(&mut self) {
        let (now, is_stopping) = (self.times.now, self.stopping != Stopping::No);
        let Self { runtime, upkeep, groups, controller, transactions, shares, .. } = self;
        let turn = TurnEnd { now, connections: self.clients.connections() };
        groups.end_turn(runtime, &turn, &mut self.commands);
        let topics = &mut Topics { groups, controller, transactions, shares };
        upkeep.turn(runtime, topics, Turn { now, is_stopping }, &mut self.ops);
        self.request_ops();
    }

    fn request_ops(&mut self) {
        self.commands.extend(self.ops.drain(..).map(Command::File));
    }

    /// The time when the groups or the log need the next turn.
    pub(super) fn log_deadline(&self) -> [Option<i64>; 5] {
        let Self { runtime, groups, .. } = self;
        let (now, is_stopping) = (self.times.now, self.stopping != Stopping::No);
        let [snapshot, check, rewrite] = self.upkeep.deadlines(runtime.log(), now, is_stopping);
        let of_groups = groups.deadline(runtime, now, self.is_blocked());
        [of_groups, runtime.log().next_deadline(), snapshot, check, rewrite]
    }

    /// Whether a stop that began at a given time has to wait for the upkeep of the log: see
    /// [`Upkeep::has_to_end`](muster_runtime::Upkeep::has_to_end).
    pub(super) fn awaits_upkeep(&self, stop_began: i64) -> bool {
        let patience = self.broker.common().config.snapshot_on_stop_max_ms;
        let now = self.times.now;
        self.upkeep.has_to_end(self.runtime.log(), now) && now < stop_began.saturating_add(patience)
    }
}
