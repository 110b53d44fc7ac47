//! The memory of a shard, compared with its limits after each turn.

use crate::coverage::Seen;
use crate::node::CLOSING_MAX;
use crate::world::{Simulated, World};
use muster_server::net::{Kind, SLICES_MAX};
use muster_server::shard::Inspection;
use muster_storage::limits::SHARD_LOG_FILES_MAX;

/// The maximum number of bytes by which unread answers exceed the limit of a connection: the size
/// of the answer that exceeds it.
const ANSWER_BYTES_OVER: usize = 1 << 20;
/// The maximum number of input bytes: an incomplete request, with everything that arrived with its
/// last part.
const INPUT_BYTES_MAX: usize = 1 << 20;

/// The maximum amount that one request, or all timers due at one time, add to a log that is full
/// already. The unit is an operation of the largest size.
const OPERATIONS_OVER: usize = 8;

/// The number of files of the snapshot that is being written.
const SNAPSHOT_FILES_MAX: u32 = 1;

/// The descriptors of a log with its compaction, of a snapshot, and of files that are still being
/// closed when a file is opened.
const DESCRIPTORS_OF_LOG: usize =
    (SHARD_LOG_FILES_MAX + SNAPSHOT_FILES_MAX) as usize + CLOSING_MAX - 1;

/// With more connections than this, only some turns check all of them.
const MANY: usize = 64;

impl<M: Simulated> World<M> {
    pub(in crate::world) fn judge_memory(&mut self, number: u32) {
        let (node, local) = self.node.at(number);
        let (shard, descriptors) = (node.shard(local).inspect(), node.shard(local).descriptors());
        let is_many = shard.connections().len() > MANY;
        if is_many && !self.judge.is_thorough() {
            return;
        }
        let ((waits, _), is_full) = (shard.waiting(), shard.is_log_full());
        let found = self.too_much(shard, descriptors);
        self.sim.saw(Seen::MemoryMeasured);
        self.sim.add(Seen::LogFull, u64::from(is_full));
        self.sim.add(Seen::WaitedForLog, u64::from(waits > 0 && is_full));
        let (node, local) = self.node.at(number);
        let stuck = node.shard(local).inspect().stuck();
        if let Some(first) = stuck.first() {
            return self.sim.violate(format_args!("shard {number}: {first}"));
        }
        if let Some((what, has, may)) = found {
            self.sim.violate(format_args!("shard {number}: {has} {what}, and {may} may be"));
        }
    }

    /// The first exceeded limit: its description, the shard's value, and the limit.
    fn too_much(
        &self,
        shard: Inspection<'_>,
        descriptors: usize,
    ) -> Option<(&'static str, usize, usize)> {
        let (connections, counts) = (shard.connections(), shard.counts());
        let in_flight = connections.requests_in_flight_max();
        let sizes = self.profile.sizes;
        let log_bytes_max = sizes.open_bytes_max + OPERATIONS_OVER * sizes.operation_bytes_max;
        let waits_for_others = self.node.waits_for_others();
        let is_flushed = shard.progress().accepted() == shard.progress().flushed();
        let unflushed_max = if is_flushed && !waits_for_others { 0 } else { usize::MAX };
        let behind_max = if waits_for_others { usize::MAX } else { 0 };
        let (waits, waits_max) = shard.waiting();
        let counted = connections.account().held(Kind::Input);
        let uncounted = connections.input_bytes_held().abs_diff(counted);
        let miscounted = usize::from(counts.gauges != counts.recounted);
        let own = connections.limits();
        let unread_bytes_max = own.output_bytes + ANSWER_BYTES_OVER;
        let descriptors_max = DESCRIPTORS_OF_LOG + self.profile.partition_files as usize;
        let limits = [
            ("requests in flight on a connection", in_flight, own.requests_in_flight),
            ("bytes of input", connections.input_bytes_max(), INPUT_BYTES_MAX),
            ("bytes of input that the account has not", uncounted, 0),
            ("things that shares of addresses have not", shard.miscounted_shares(), 0),
            ("bytes of unread answers", connections.unread_bytes_max(), unread_bytes_max),
            ("answers that wait for a flush", connections.waits_for_flush(), unflushed_max),
            ("slots that are behind the log", shard.unflushed_slots(), behind_max),
            ("connections that wait for the log", waits, waits_max),
            ("bytes for the log", shard.unsubmitted_bytes(), log_bytes_max),
            ("slices", connections.slices(), SLICES_MAX),
            ("fetches that wait", shard.fetches(), in_flight * connections.len()),
            ("gauges of groups that differ from a recount", miscounted, 0),
            ("timers", counts.timers, counts.timers_max()),
            ("open files", descriptors, descriptors_max),
        ];
        limits.into_iter().find(|(_, has, may)| has > may)
    }
}
