//! Stalled work: work that a shard must finish and that has made no progress for ten seconds. Only
//! this file decides what is stalled, for the log, metrics, health checks and the page.
//!
//! Every two seconds [`Stalls`] gets the work that makes no progress, with the time of its last
//! progress ([`Standing`]). Work that waits for a client, for records, or for members of a group
//! does not count. But late timers count, because they should end the wait for members.
//!
//! - Work is *stalled* after [`STALLED_MS`] without progress. Time in which the shard ran no turns
//!   (for example, because the machine slept) does not count: no work can progress then.
//! - A shard with stalled work is not ready.
//! - Work that a shard finishes alone is *stuck* after [`STALLED_MS`] without progress, if the disk
//!   was not slow meanwhile. A restart then helps, so the process does not count as alive. While
//!   the disk hangs, a restart would do harm: memory still has the groups.
//! - A stalled request counts until another request of its API is answered, even if its client has
//!   given up: clients retry, and wait again. If no request of the API waits, it counts for a
//!   minute.
//!
//! `Files::oldest_operation` returns the time since which the oldest file operation is under way.
//! `net/looks.rs` checks the connections, and `shard/stalls.rs` leaves out requests that wait for
//! something other than the shard. So a request costs nothing before it has waited for ten seconds.

use muster_codec::{ApiKey, Role};
use muster_counters::counters;
use std::collections::BTreeMap;
use std::fmt;

/// Work is stalled after this time without progress.
pub const STALLED_MS: i64 = 10_000;

/// The time between two checks.
pub(crate) const LOOK_MS: i64 = 2_000;

/// If more time than this passes between two checks, the shard had no turns meanwhile.
const PAUSE_MS: i64 = 2 * LOOK_MS;

/// The disk is slow if a file operation takes at least this long.
const SLOW_DISK_MS: i64 = 1_000;

/// How long a stalled request is remembered if no other request of its API waits.
const REMEMBERED_MS: i64 = 60_000;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// Operations that the disk has not finished.
    Operations,
    /// File operations that the shard has not started.
    Deferred,
    /// Records of the log that are not flushed.
    Log,
    /// Late timers of groups. Until they fire, members may wait for other members that are gone.
    Timers,
    /// Clients' input that was not handled yet.
    Input,
    /// Unanswered requests of an API.
    Requests(ApiKey),
}

/// Work without progress, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) work: Work,
    pub(crate) since: i64,
}

/// The state of a shard's file operations.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesStanding {
    /// When the oldest operation under way was started.
    pub operation_since: Option<i64>,
    /// The time since which the first of the operations that wait to be started has been the first.
    pub deferred_since: Option<i64>,
}

counters! {
    /// Work that stands still.
    #[derive(Copy)]
    pub struct StallCounters in "stalls" {
        /// Times that a kind of work made no progress for ten seconds.
        begun: u64 = Counter of Count,
    }
}

counters! {
    /// Work that stands still now.
    #[derive(Copy)]
    pub struct StallGauges in "stalls" {
        /// Kinds of work that have made no progress for ten seconds: file operations, the log,
        /// timers, input, or the requests of an API.
        stalled: u64 = Gauge of Count,
        /// The longest time for which stalled work has made no progress.
        oldest_micros: u64 = Gauge of Microseconds,
    }
}

/// The stalled work of a shard.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// The last known state of file operations.
    pub(crate) files: FilesStanding,
    /// The state that the last check saw.
    pub(crate) seen: Seen,
    next_look: i64,
    last_look: Option<i64>,
    /// The time of the first check after a time without turns.
    resumed: i64,
    /// The time of the last check at which the disk was slow.
    disk_slow_at: Option<i64>,
    stalled: BTreeMap<Work, Stalled>,
    counters: StallCounters,
}

/// The state that the last check saw. If it is unchanged and nothing waited, no check is needed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    /// How many requests had been handled.
    pub(crate) handled: u64,
    /// Whether anything waited.
    pub(crate) has_waiting: bool,
}

#[derive(Debug, Clone, Copy)]
struct Stalled {
    since: i64,
    seen_at: i64,
    /// How many requests of the API were answered, and when this number last changed.
    answered: u32,
    answered_at: i64,
}

/// Work that has stalled, or whose stall has ended, for the log. The number of ms is the time from
/// the work's last progress before the stall until now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Began(Work, i64),
    Ended(Work, i64),
}

impl Stalls {
    /// Whether a check is due.
    pub(crate) fn is_due(&self, now: i64) -> bool {
        now >= self.next_look
    }

    /// When the next check is due.
    pub(crate) fn next_look(&self) -> i64 {
        self.next_look
    }

    /// Continues an unfinished check at this time.
    pub(crate) fn look_on(&mut self, at: i64) {
        self.next_look = at;
    }

    /// Evaluates a check; `standing` is the work without progress. `answered` returns how many
    /// requests of an API were answered. Returns the changes.
    pub(crate) fn look(
        &mut self,
        now: i64,
        standing: &[Standing],
        answered: impl Fn(ApiKey) -> u32,
    ) -> Vec<Change> {
        self.next_look = now + LOOK_MS;
        if self.last_look.replace(now).is_none_or(|last| now - last > PAUSE_MS) {
            self.resumed = now;
        }
        let is_slow =
            |it: &&Standing| it.work == Work::Operations && now - it.since >= SLOW_DISK_MS;
        if standing.iter().any(|it| is_slow(&it)) {
            self.disk_slow_at = Some(now);
        }
        let mut changes = self.forget(now, standing, &answered);
        for Standing { work, since } in standing {
            if now - self.counted(*since) < STALLED_MS {
                continue;
            }
            let count = work.answered(&answered);
            let stalled = self.stalled.entry(*work).or_insert_with(|| {
                self.counters.begun += 1;
                changes.push(Change::Began(*work, now - since));
                // The time of the API's last answer is not known. It may have been just now, so
                // this time is assumed.
                let is_request = matches!(work, Work::Requests(_));
                let answered_at = if is_request { now } else { *since };
                Stalled { since: *since, seen_at: now, answered: count, answered_at }
            });
            stalled.seen_at = now;
        }
        changes
    }

    /// Removes work that has made progress.
    fn forget(
        &mut self,
        now: i64,
        standing: &[Standing],
        answered: &impl Fn(ApiKey) -> u32,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        self.stalled.retain(|work, stalled| {
            let count = work.answered(answered);
            let is_answered = count != stalled.answered;
            if is_answered {
                (stalled.answered, stalled.answered_at) = (count, now);
            }
            let found = standing.iter().find(|it| it.work == *work);
            let is_remembered = matches!(work, Work::Requests(_))
                && !is_answered
                && now - stalled.seen_at < REMEMBERED_MS;
            let still_stands = found.is_some_and(|it| now - it.since >= STALLED_MS);
            if !still_stands && !is_remembered {
                changes.push(Change::Ended(*work, now - stalled.since));
            }
            still_stands || is_remembered
        });
        changes
    }

    /// Whether the disk was slow recently.
    pub(crate) fn is_disk_slow(&self, now: i64) -> bool {
        self.disk_slow_at.is_some_and(|at| now - at < STALLED_MS)
    }

    /// Descriptions of the stalled work.
    pub(crate) fn stalled(&self, now: i64) -> Vec<String> {
        let words = |(work, stalled): (&Work, &Stalled)| in_words(*work, now - stalled.since);
        self.stalled.iter().map(words).collect()
    }

    /// Descriptions of the stuck work. `answered` returns how many requests of an API have been
    /// answered until now.
    pub(crate) fn stuck(&self, now: i64, answered: impl Fn(ApiKey) -> u32) -> Vec<String> {
        let is_stuck = |(work, stalled): &(&Work, &Stalled)| {
            let is_answered = work.answered(&answered) != stalled.answered;
            let from = self.counted(stalled.since).max(stalled.answered_at);
            let stands = now - from >= STALLED_MS && !self.is_disk_slow(now);
            work.is_own() && !is_answered && stands
        };
        let stuck = self.stalled.iter().filter(is_stuck);
        stuck.map(|(work, stalled)| in_words(*work, now - stalled.since)).collect()
    }

    pub(crate) fn counters(&self) -> StallCounters {
        self.counters
    }

    pub(crate) fn gauges(&self, now: i64) -> StallGauges {
        let oldest = self.stalled.values().map(|it| now - it.since).max().unwrap_or(0);
        let oldest_micros = oldest.max(0).unsigned_abs().saturating_mul(1_000);
        StallGauges { stalled: self.stalled.len() as u64, oldest_micros }
    }

    /// The time from which missing progress counts: `since`, or the end of the last pause in which
    /// the shard ran no turns, if that is later.
    fn counted(&self, since: i64) -> i64 {
        since.max(self.resumed)
    }
}

impl Work {
    /// Whether a shard can finish this work by itself and its disk. Requests to the controller may
    /// also wait for other shards and threads.
    fn is_own(self) -> bool {
        match self {
            Self::Operations => false,
            Self::Deferred | Self::Log | Self::Timers | Self::Input => true,
            Self::Requests(api) => api.role() != Role::Controller,
        }
    }

    fn answered(self, answered: &impl Fn(ApiKey) -> u32) -> u32 {
        match self {
            Self::Requests(api) => answered(api),
            Self::Operations | Self::Deferred | Self::Log | Self::Timers | Self::Input => 0,
        }
    }
}

/// The description of the work, without its duration.
impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operations => f.write_str("the disk has not finished an operation"),
            Self::Deferred => f.write_str("file operations have not been started"),
            Self::Log => f.write_str("records have not been flushed"),
            Self::Timers => f.write_str("timers of groups have not fired"),
            Self::Input => f.write_str("requests have not had their turn"),
            Self::Requests(api) => write!(f, "{} has not been answered", api.name()),
        }
    }
}

/// The description of the work, with the time since its last progress.
pub(crate) fn in_words(work: Work, ms: i64) -> String {
    format!("{work} for {} s", ms / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FETCH: Work = Work::Requests(ApiKey::Fetch);

    /// Checks as often as a shard does, until a given time.
    struct Shard {
        stalls: Stalls,
        now: i64,
        answered: u32,
    }

    impl Shard {
        fn new() -> Self {
            Self { stalls: Stalls::default(), now: 0, answered: 0 }
        }

        fn look_until(&mut self, until: i64, standing: &[(Work, i64)]) -> Vec<Change> {
            let standing =
                standing.iter().map(|(work, since)| Standing { work: *work, since: *since });
            let (standing, mut changes) = (standing.collect::<Vec<_>>(), Vec::new());
            while self.now < until {
                self.now += LOOK_MS;
                changes.extend(self.stalls.look(self.now, &standing, |_| self.answered));
            }
            changes
        }

        fn stuck(&self) -> Vec<String> {
            self.stalls.stuck(self.now, |_| self.answered)
        }
    }

    #[test]
    fn work_is_stalled_after_ten_seconds_and_until_it_moves() {
        let mut shard = Shard::new();
        assert_eq!(shard.look_until(10_000, &[(Work::Deferred, 1_000)]), []);
        let began = shard.look_until(12_000, &[(Work::Deferred, 1_000)]);
        assert_eq!(began, [Change::Began(Work::Deferred, 11_000)]);
        let words = ["file operations have not been started for 11 s"];
        assert_eq!(shard.stalls.stalled(shard.now), words);
        assert_eq!(shard.stalls.gauges(shard.now).oldest_micros, 11_000_000);
        assert_eq!(shard.stuck(), words);
        let ended = shard.look_until(14_000, &[(Work::Deferred, 13_000)]);
        assert_eq!(ended, [Change::Ended(Work::Deferred, 13_000)]);
        assert_eq!((shard.stalls.stalled(shard.now), shard.stuck()), (vec![], vec![]));
        assert_eq!(shard.stalls.counters().begun, 1);
    }

    #[test]
    fn a_disk_that_hangs_is_trouble_and_no_reason_for_a_new_start() {
        let mut shard = Shard::new();
        let all = [(Work::Operations, 0), (Work::Deferred, 0), (Work::Log, 0), (FETCH, 0)];
        shard.look_until(60_000, &all);
        assert_eq!(shard.stalls.stalled(shard.now).len(), 4);
        assert_eq!(shard.stuck(), Vec::<String>::new());
        // The operation ends, but nothing else makes progress.
        shard.look_until(68_000, &all[1..]);
        assert_eq!(shard.stuck(), Vec::<String>::new());
        shard.look_until(70_000, &all[1..]);
        assert_eq!(shard.stuck().len(), 3);
    }

    #[test]
    fn a_request_counts_until_another_one_is_answered_though_its_client_has_gone() {
        let mut shard = Shard::new();
        shard.look_until(30_000, &[(FETCH, 0)]);
        assert_eq!(shard.stuck(), ["Fetch has not been answered for 30 s"]);
        shard.look_until(38_000, &[]);
        assert_eq!(shard.stuck(), ["Fetch has not been answered for 38 s"]);
        shard.look_until(60_000, &[(FETCH, 31_000)]);
        assert_eq!(shard.stuck(), ["Fetch has not been answered for 60 s"]);
        shard.answered += 1;
        assert_eq!(shard.stuck(), Vec::<String>::new(), "at once");
        let ended = shard.look_until(62_000, &[]);
        assert_eq!(ended, [Change::Ended(FETCH, 62_000)]);
    }

    #[test]
    fn one_request_that_waits_beside_others_that_are_answered_is_trouble_alone() {
        let mut shard = Shard::new();
        for now in (LOOK_MS..=60_000).step_by(LOOK_MS as usize) {
            shard.answered += 1;
            shard.look_until(now, &[(FETCH, 0)]);
            assert_eq!(shard.stuck(), Vec::<String>::new());
        }
        assert_eq!(shard.stalls.stalled(shard.now), ["Fetch has not been answered for 60 s"]);
    }

    #[test]
    fn a_request_without_a_successor_is_forgotten_after_a_minute() {
        let mut shard = Shard::new();
        shard.look_until(20_000, &[(FETCH, 0)]);
        assert_eq!(shard.look_until(78_000, &[]), []);
        assert_eq!(shard.look_until(80_000, &[]), [Change::Ended(FETCH, 80_000)]);
    }

    #[test]
    fn a_stopped_process_has_ten_seconds_from_its_next_turn_on() {
        let mut shard = Shard::new();
        shard.look_until(2_000, &[]);
        shard.now = 60_000;
        let all = [(Work::Input, 2_000), (FETCH, 2_000)];
        assert_eq!(shard.look_until(70_000, &all), []);
        assert_eq!(shard.look_until(72_000, &all).len(), 2);
    }

    #[test]
    fn what_waits_for_other_shards_is_no_reason_for_a_new_start() {
        let mut shard = Shard::new();
        shard.look_until(60_000, &[(Work::Requests(ApiKey::CreateTopics), 0)]);
        assert_eq!(shard.stalls.stalled(shard.now).len(), 1);
        assert_eq!(shard.stuck(), Vec::<String>::new());
    }
}
