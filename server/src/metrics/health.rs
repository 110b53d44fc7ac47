//! The health checks: `/healthz` (is the server alive?) and `/readyz` (is it ready?).

use crate::report::Report;
use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// A shard that has not answered for this long is stuck.
pub(super) const STUCK: Duration = Duration::from_secs(10);

/// If less than this percentage of the volume is free, the readiness check mentions it.
const FREE_PERCENT_MIN: u64 = 10;

/// The state of a shard's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardState {
    Starting = 0,
    Serving = 1,
    /// The shard has failed, and is being loaded again.
    Loading = 2,
    Ended = 3,
}

/// The states of all shards, which their threads set when they start, fail and end.
#[derive(Debug, Clone)]
pub(crate) struct ShardStates(Arc<[AtomicU8]>);

impl ShardStates {
    pub(crate) fn new(shards: u32) -> Self {
        Self((0..shards).map(|_| AtomicU8::new(ShardState::Starting as u8)).collect())
    }

    pub(crate) fn set(&self, shard: u32, state: ShardState) {
        if let Some(own) = self.0.get(shard as usize) {
            own.store(state as u8, Relaxed);
        }
    }

    /// The shards that have not ended, as text for the log.
    pub(crate) fn not_ended(&self) -> String {
        let not_ended = (0..self.len()).filter(|shard| self.of(*shard) != ShardState::Ended);
        let shards: Vec<_> = not_ended.map(|shard| format!("shard {shard}")).collect();
        match shards[..] {
            [] => "the data directory is not closed".to_owned(),
            [_] => format!("{} has not ended", shards[0]),
            [..] => format!("{} have not ended", shards.join(", ")),
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn of(&self, shard: u32) -> ShardState {
        match self.0.get(shard as usize).map(|state| state.load(Relaxed)) {
            Some(0) => ShardState::Starting,
            Some(1) => ShardState::Serving,
            Some(2) => ShardState::Loading,
            Some(_) | None => ShardState::Ended,
        }
    }
}

/// The result of a health check, with one line for each reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) is_well: bool,
    pub(super) text: String,
}

impl Verdict {
    fn new(well: &str, obstacles: Vec<String>, warnings: Vec<String>) -> Self {
        let is_well = obstacles.is_empty();
        let first = is_well.then(|| well.to_owned());
        let lines = first.into_iter().chain(obstacles).chain(warnings);
        Self { is_well, text: lines.map(|line| line + "\n").collect() }
    }
}

/// Checks whether the process is alive. `waited` says for how long each shard has owed an answer.
/// The check fails if a shard that serves has not answered for [`STUCK`], or if work is stuck and
/// no shard's disk is slow (see `stall.rs`). Stalled work is mentioned.
pub(super) fn alive(states: &ShardStates, waited: &[Duration], reports: &[Report]) -> Verdict {
    let is_stuck = |(shard, waited): &(u32, &Duration)| {
        states.of(*shard) == ShardState::Serving && **waited >= STUCK
    };
    let stuck = (0..).zip(waited).filter(is_stuck);
    let words = |(shard, waited): (u32, &Duration)| {
        format!("shard {shard} has not answered for {} s", waited.as_secs())
    };
    let is_disk_slow = reports.iter().any(|report| report.is_disk_slow);
    let all = reports.iter().filter(|_| !is_disk_slow);
    let own = all.flat_map(|report| report.stuck.iter().cloned());
    let obstacles: Vec<String> = stuck.map(words).chain(own).collect();
    let all = reports.iter().flat_map(|report| report.stalled.iter());
    let others = all.filter(|words| !obstacles.contains(words)).cloned().collect();
    Verdict::new("alive", obstacles, others)
}

/// Checks whether clients are served. If little space is free on the data directory's volume, this
/// is mentioned.
pub(super) fn ready(states: &ShardStates, reports: &[Report], volume: Option<Volume>) -> Verdict {
    let mut obstacles = Vec::new();
    for shard in 0..states.len() {
        let report = reports.iter().find(|report| report.shard == shard);
        obstacles.extend(match states.of(shard) {
            ShardState::Starting => Some(format!("shard {shard} loads its log")),
            ShardState::Loading => Some(format!("shard {shard} has failed, and is loaded again")),
            ShardState::Ended => Some(format!("shard {shard} has ended")),
            ShardState::Serving if report.is_none() => {
                Some(format!("shard {shard} does not answer"))
            }
            ShardState::Serving => None,
        });
        obstacles.extend(report.into_iter().flat_map(|report| report.obstacles.clone()));
    }
    let warnings = reports.iter().flat_map(|report| report.warnings.clone());
    let of_disk = volume.and_then(little_space);
    Verdict::new("ready", obstacles, warnings.chain(of_disk).collect())
}

/// A line about low free space; None if there is enough.
fn little_space(Volume { total, usable }: Volume) -> Option<String> {
    let is_little = usable.saturating_mul(100) < total.saturating_mul(FREE_PERCENT_MIN);
    let (usable, total) = (usable >> 20, total >> 20);
    is_little.then(|| format!("the disk fills: {usable} of {total} MiB are free"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Signs;

    fn report(shard: u32, signs: impl FnOnce(&mut Signs)) -> Report {
        let mut of_shard = Signs {
            shard,
            is_stopping: false,
            is_failed: false,
            flushing_ms: 1_000,
            is_log_full: false,
            offline_partitions: 0,
            damaged_parts: 0,
            is_disk_short: false,
            is_full: false,
            troubles: Vec::new(),
            stalled: Vec::new(),
            stuck: Vec::new(),
        };
        signs(&mut of_shard);
        Report {
            shard,
            numbers: Vec::new(),
            certificates: Vec::new(),
            obstacles: of_shard.obstacles(),
            stalled: of_shard.stalled(),
            stuck: of_shard.stuck(),
            is_disk_slow: false,
            warnings: of_shard.warnings(),
        }
    }

    fn ready(states: &ShardStates, reports: &[Report]) -> Verdict {
        super::ready(states, reports, None)
    }

    #[test]
    fn less_than_a_tenth_of_a_volume_is_listed_and_no_reason() {
        let both = [report(0, |_| {}), report(1, |_| {})];
        let of =
            |usable| super::ready(&serving(), &both, Some(Volume { total: 1_000 << 20, usable }));
        assert_eq!(of(100 << 20).text, "ready\n");
        let text = "ready\nthe disk fills: 99 of 1000 MiB are free\n";
        assert_eq!(of((100 << 20) - 1), Verdict { is_well: true, text: text.to_owned() });
    }

    fn serving() -> ShardStates {
        let states = ShardStates::new(2);
        (0..2).for_each(|shard| states.set(shard, ShardState::Serving));
        states
    }

    #[test]
    fn a_server_is_ready_when_all_shards_serve() {
        let states = ShardStates::new(2);
        let verdict = ready(&states, &[]);
        let text = "shard 0 loads its log\nshard 1 loads its log\n".to_owned();
        assert_eq!(verdict, Verdict { is_well: false, text });
        let states = serving();
        let verdict = ready(&states, &[report(0, |_| {}), report(1, |_| {})]);
        assert_eq!(verdict, Verdict { is_well: true, text: "ready\n".to_owned() });
        states.set(1, ShardState::Loading);
        let verdict = ready(&states, &[report(0, |_| {})]);
        let text = "shard 1 has failed, and is loaded again\n".to_owned();
        assert_eq!(verdict, Verdict { is_well: false, text });
    }

    #[test]
    fn shards_that_have_not_ended_are_named() {
        let states = serving();
        assert_eq!(states.not_ended(), "shard 0, shard 1 have not ended");
        states.set(0, ShardState::Ended);
        assert_eq!(states.not_ended(), "shard 1 has not ended");
        states.set(1, ShardState::Ended);
        assert_eq!(states.not_ended(), "the data directory is not closed");
    }

    #[test]
    fn a_disk_that_stalls_is_a_reason_and_a_damaged_partition_a_warning() {
        let slow = report(0, |signs| (signs.flushing_ms, signs.is_log_full) = (3_200, true));
        let damaged = report(1, |signs| signs.offline_partitions = 2);
        let verdict = ready(&serving(), &[slow, damaged]);
        let text = "shard 0: the disk has not finished a flush for 3200 ms: clients wait\n\
             shard 0: too much waits for the disk\n\
             shard 1: 2 partitions are damaged and not served, the others are\n";
        assert_eq!(verdict, Verdict { is_well: false, text: text.to_owned() });
        let both = [
            report(0, |signs| (signs.is_full, signs.troubles) = (true, vec!["the clock".into()])),
            report(1, |signs| (signs.offline_partitions, signs.is_disk_short) = (1, true)),
        ];
        assert_eq!(ready(&serving(), &both).text.lines().count(), 5);
        assert!(ready(&serving(), &both).is_well, "the other partitions are served");
        let stops = report(0, |signs| (signs.is_stopping, signs.is_failed) = (true, true));
        assert_eq!(ready(&serving(), &[stops]).text.lines().count(), 3);
    }

    #[test]
    fn a_shard_that_is_stuck_is_not_alive_but_one_that_loads_is() {
        let states = serving();
        let waited = [Duration::ZERO, STUCK];
        let text = "shard 1 has not answered for 10 s\n".to_owned();
        assert_eq!(alive(&states, &waited, &[]), Verdict { is_well: false, text });
        assert!(alive(&states, &[Duration::ZERO, STUCK - Duration::from_millis(1)], &[]).is_well);
        states.set(1, ShardState::Loading);
        assert!(alive(&states, &waited, &[]).is_well);
    }

    #[test]
    fn stalled_work_is_shown_and_stuck_work_is_the_end() {
        let [disk, fetch] = ["the disk", "Fetch"].map(str::to_owned);
        let slow = report(0, |signs| signs.stalled = vec![disk.clone(), fetch.clone()]);
        let stuck =
            report(1, |signs| (signs.stalled, signs.stuck) = (vec![fetch.clone()], vec![fetch]));
        let waited = [Duration::ZERO; 2];
        let verdict = alive(&serving(), &waited, &[report(0, |_| {}), report(1, |_| {})]);
        assert_eq!(verdict, Verdict { is_well: true, text: "alive\n".to_owned() });
        let text = "alive\nshard 0: the disk\nshard 0: Fetch\n".to_owned();
        let verdict = alive(&serving(), &waited, &[slow, report(1, |_| {})]);
        assert_eq!(verdict, Verdict { is_well: true, text });
        let both = [report(0, |signs| signs.stalled = vec![disk]), stuck];
        let text = "shard 1: Fetch\nshard 0: the disk\n".to_owned();
        assert_eq!(alive(&serving(), &waited, &both), Verdict { is_well: false, text });
        let text = "shard 0: the disk\nshard 1: Fetch\n".to_owned();
        assert_eq!(ready(&serving(), &both), Verdict { is_well: false, text: text.clone() });
        let [mut slow, stuck] = both;
        slow.is_disk_slow = true;
        let text = format!("alive\n{text}");
        let verdict = alive(&serving(), &waited, &[slow, stuck]);
        assert_eq!(verdict, Verdict { is_well: true, text }, "shard 1 may wait for shard 0");
    }
}
