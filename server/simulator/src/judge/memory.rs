//! What a shard keeps in memory, held against the limits that it promises, after each turn.

use super::LOOK_EVERY;
use crate::coverage::Seen;
use crate::process::PARTITION_FILES_MAX;
use crate::world::World;
use muster::net::Kind;
use muster::shard::Inspection;

/// What a connection may have at most: requests in flight; answers that are not read, the one that
/// crosses that line included; a request that is not whole, and what came with its last piece.
const REQUESTS_IN_FLIGHT_MAX: usize = 1_000;
const UNREAD_BYTES_MAX: usize = (4 << 20) + (1 << 20);
const INPUT_BYTES_MAX: usize = 1 << 20;
const SLICES_MAX: usize = 32;

/// What one request, or what is due at one time, adds to the log at most once it is full, in
/// operations of the largest size.
const OPERATIONS_OVER: usize = 8;

/// Of the log, a compaction and a snapshot, and of partitions.
const DESCRIPTORS_MAX: usize = 16 + PARTITION_FILES_MAX as usize;

/// With so many connections not each turn looks at all of them.
const MANY: usize = 64;

impl World {
    pub(super) fn judge_memory(&mut self, number: u32) {
        let shard = self.process.seats[number as usize].shard.inspect();
        let is_many = shard.connections().len() > MANY;
        if is_many && !self.judge.turns.is_multiple_of(LOOK_EVERY) {
            return;
        }
        let ((waits, _), is_full) = (shard.waiting(), shard.is_log_full());
        let descriptors = self.process.seats[number as usize].files.descriptors();
        let found = self.too_much(shard, descriptors);
        self.coverage.saw(Seen::MemoryMeasured);
        self.coverage.add(Seen::LogFull, u64::from(is_full));
        self.coverage.add(Seen::WaitedForLog, u64::from(waits > 0 && is_full));
        if let Some((what, has, may)) = found {
            self.violate(format_args!("shard {number}: {has} {what}, and {may} may be"));
        }
    }

    /// The first thing of which a shard has more than it may: what it has, and what it may.
    fn too_much(
        &self,
        shard: Inspection<'_>,
        descriptors: usize,
    ) -> Option<(&'static str, usize, usize)> {
        let (connections, counts) = (shard.connections(), shard.counts());
        let in_flight = connections.requests_in_flight_max();
        let sizes = self.profile.sizes;
        let log_bytes_max = sizes.open_bytes_max + OPERATIONS_OVER * sizes.operation_bytes_max;
        let is_flushed = shard.progress().accepted() == shard.progress().flushed();
        let unflushed_max = if is_flushed { 0 } else { usize::MAX };
        let (waits, waits_max) = shard.waiting();
        let counted = connections.account().held(Kind::Input);
        let uncounted = connections.input_bytes_held().abs_diff(counted);
        let uncounted_members = counts.member_bytes.abs_diff(counts.counted_member_bytes);
        let limits = [
            ("requests in flight on a connection", in_flight, REQUESTS_IN_FLIGHT_MAX),
            ("bytes of input", connections.input_bytes_max(), INPUT_BYTES_MAX),
            ("bytes of input that the account has not", uncounted, 0),
            ("bytes of unread answers", connections.unread_bytes_max(), UNREAD_BYTES_MAX),
            ("answers that wait for a flush", connections.waits_for_flush(), unflushed_max),
            ("slots that are behind the log", shard.unflushed_slots(), 0),
            ("connections that wait for the log", waits, waits_max),
            ("bytes for the log", shard.unsubmitted_bytes(), log_bytes_max),
            ("slices", connections.slices(), SLICES_MAX),
            ("fetches that wait", shard.fetches(), in_flight * connections.len()),
            ("bytes of members that are not counted", uncounted_members, 0),
            ("timers", counts.timers, counts.timers_max()),
            ("open files", descriptors, DESCRIPTORS_MAX),
        ];
        limits.into_iter().find(|(_, has, may)| has > may)
    }
}
