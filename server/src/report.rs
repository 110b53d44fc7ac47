//! The answer of a shard to the admin side.

use muster_counters::Copies;
use std::fmt;

/// A flush that takes longer than this is reported, as clients wait for it.
const FLUSHING_MS_MAX: u64 = 1_000;

/// The counters and gauges of a shard at one time, and its problems.
pub struct Report {
    pub shard: u32,
    pub numbers: Copies,
    /// When the certificate of each listener expires, in seconds since 1970; None without TLS.
    pub certificates: Vec<Option<i64>>,
    /// Reasons why the shard is not ready, for `/readyz`.
    pub obstacles: Vec<String>,
    /// The obstacles that are stalled work (see `stall.rs`). `stuck` has those that a restart
    /// would end: if it has any, the health check reports that the process is not alive.
    pub stalled: Vec<String>,
    pub stuck: Vec<String>,
    /// Whether the disk was slow recently. If so, no work of any shard counts as stuck, as shards
    /// wait for one another.
    pub is_disk_slow: bool,
    /// Problems that an operator should know of although the shard serves clients.
    pub warnings: Vec<String>,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// The facts about a shard's health that its inspection shows.
pub(crate) struct Signs {
    pub(crate) shard: u32,
    pub(crate) is_stopping: bool,
    pub(crate) is_failed: bool,
    pub(crate) flushing_ms: u64,
    pub(crate) is_log_full: bool,
    pub(crate) offline_partitions: usize,
    /// Parts of partitions that cannot be read; the rest of these partitions is served.
    pub(crate) damaged_parts: usize,
    /// Whether produces are refused because the disk is nearly full.
    pub(crate) is_disk_short: bool,
    /// Whether no descriptors for further connections are left.
    pub(crate) is_full: bool,
    /// Problems of the last hour.
    pub(crate) troubles: Vec<String>,
    /// Stalled work, and stuck work; see `stall.rs`.
    pub(crate) stalled: Vec<String>,
    pub(crate) stuck: Vec<String>,
}

impl Signs {
    /// Reasons why the shard is not ready.
    pub(crate) fn obstacles(&self) -> Vec<String> {
        let Self { shard, flushing_ms, .. } = self;
        let slow = format!(
            "shard {shard}: the disk has not finished a flush for {flushing_ms} ms: clients wait"
        );
        let reasons = [
            (self.is_stopping, format!("shard {shard} stops")),
            (self.is_failed, format!("shard {shard} has failed, and is loaded again")),
            (*flushing_ms > FLUSHING_MS_MAX, slow),
            (self.is_log_full, format!("shard {shard}: too much waits for the disk")),
        ];
        let reasons = reasons.into_iter().filter_map(|(holds, words)| holds.then_some(words));
        reasons.chain(self.of_shard(&self.stalled)).collect()
    }

    /// Stalled work.
    pub(crate) fn stalled(&self) -> Vec<String> {
        self.of_shard(&self.stalled).collect()
    }

    /// Stuck work, which a restart would help.
    pub(crate) fn stuck(&self) -> Vec<String> {
        self.of_shard(&self.stuck).collect()
    }

    fn of_shard(&self, words: &[String]) -> impl Iterator<Item = String> {
        words.iter().map(|words| format!("shard {}: {words}", self.shard))
    }

    /// Problems that an operator should know of although the shard serves clients.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let count = self.offline_partitions;
        let damaged = format!("{count} partitions are damaged and not served, the others are");
        let parts = self.damaged_parts;
        let unreadable =
            format!("{parts} parts of partitions cannot be read, everything else is served");
        let full = "there are no descriptors for further connections (ulimit -n): clients wait";
        let short = "the disk is nearly full: produces are refused (disk.reserve.bytes)";
        let lasting = [
            (count > 0, damaged),
            (parts > 0, unreadable),
            (self.is_disk_short, short.to_owned()),
            (self.is_full, full.to_owned()),
        ];
        let lasting = lasting.into_iter().filter_map(|(holds, words)| holds.then_some(words));
        let all = lasting.chain(self.troubles.iter().cloned());
        all.map(|words| format!("shard {}: {words}", self.shard)).collect()
    }
}
