//! A few seeds: they find no violation, reach most coverage marks, and repeat exactly.
#![allow(clippy::unwrap_used)]

use muster_counters::Totals;
use simulator::coverage::{Coverage, Seen};
use simulator::{Options, run, run_cluster};

/// Coverage marks that a few seeds may miss. 5,000 seeds reach them (`ENOUGH_RUNS` in `main.rs`).
const RARE: [Seen; 26] = [
    Seen::OpenDeferred,
    Seen::FileBack,
    Seen::FileLost,
    Seen::DamagedWrite,
    Seen::MisdirectedWrite,
    Seen::CrashInConversion,
    Seen::CrashInReshard,
    Seen::CrashInCompaction,
    Seen::Crowd,
    Seen::HalfRebalance,
    Seen::LogFull,
    Seen::WaitedForLog,
    Seen::SnapshotRefused,
    Seen::NoSpaceCompaction,
    Seen::FailedRead,
    Seen::ThrottledReload,
    Seen::DeletionDoneAgain,
    Seen::DamageRefused,
    Seen::DiedWithDamage,
    Seen::BatchFlipped,
    Seen::BatchRefused,
    Seen::FileNameLost,
    Seen::DirectoryMoved,
    Seen::FileMissed,
    Seen::LogNameLost,
    Seen::NewSegmentLost,
];

/// Counters that stay zero in a few seeds. For those without a comment, there are tests that reach
/// them, or they belong to coverage marks that few seeds reach.
const UNREACHED: [&str; 28] = [
    "clients_authentications",
    "clients_authentications_failed",
    "clients_connections_idle_closed",
    "clients_connections_refused",
    "groups_refused",
    "log_operations_refused",
    "partitions_failed_reads",
    "rebalances_events_left_out",
    "rebalances_long",
    "groups_members_fenced",
    "groups_members_left_unpolled",
    "groups_share_rebalances",
    "files_opens_delayed",
    "stalls_begun",
    "log_damaged",
    // Static members of classic groups are replaced in few runs.
    "rebalances_members_replaced",
    // Names of partitions' files are lost in few runs (`Seen::FileNameLost`).
    "partitions_files_lost",
    // Batches rot in few runs (`Seen::BatchFlipped`).
    "partitions_damage_found",
    // No simulated group has a dead letter queue.
    "shares_dead_letters",
    "shares_dead_letter_requests",
    "shares_dead_letter_requests_failed",
    "shares_dead_letters_dropped",
    // No simulated client pushes metrics (KIP-714).
    "telemetry_dropped",
    "telemetry_pushed_bytes",
    "telemetry_pushes",
    "telemetry_refused",
    "telemetry_throttled",
    "telemetry_unknown_subscriptions",
];

#[test]
fn a_few_seeds_hold_and_see_much() {
    let (mut coverage, mut counters) = (Coverage::default(), Totals::default());
    for seed in 128..188 {
        let outcome = run(seed, Options::default());
        coverage += &outcome.coverage;
        counters.add(&outcome.counters);
        let Some(violation) = outcome.violation else { continue };
        panic!("seed {seed}: {violation}\n{}", outcome.last.join("\n"));
    }
    let due = |seen: &Seen| !RARE.contains(seen) && !seen.is_of_images() && !seen.is_of_clusters();
    let missing: Vec<_> = coverage.missing().filter(due).collect();
    assert!(missing.is_empty(), "no {missing:?} in: {coverage}");
    let is_reached = |name: &&str| !UNREACHED.contains(name);
    let zeros: Vec<_> = counters.zeros().filter(is_reached).collect();
    assert!(zeros.is_empty(), "{zeros:?} are zero, of: {counters}");
}

/// This test starts from the crash images at some changes of the disk. The option `--crash-images`
/// starts from those at each change.
#[test]
fn each_state_in_which_a_crash_may_leave_the_disk_is_one_to_start_from() {
    let mut coverage = Coverage::default();
    for seed in 100..115 {
        let outcome = run(seed, Options { images_every: 17, ..Options::default() });
        coverage += &outcome.coverage;
        let Some(violation) = outcome.violation else { continue };
        panic!("seed {seed}: {violation}\n{}", outcome.last.join("\n"));
    }
    let missing: Vec<_> = coverage.missing().filter(|seen| seen.is_of_images()).collect();
    assert!(missing.is_empty(), "no {missing:?} in: {coverage}");
}

/// Marks that only clusters reach, and marks that show that members were served through failovers.
#[test]
fn clusters_hold_and_lose_their_leaders() {
    let mut coverage = Coverage::default();
    for seed in 0..10 {
        let outcome = run_cluster(seed, Options::default());
        coverage += &outcome.coverage;
        let Some(violation) = outcome.violation else { continue };
        panic!("seed {seed}: {violation}\n{}", outcome.last.join("\n"));
    }
    for seen in [Seen::OnQuorum, Seen::Led, Seen::Kill, Seen::Committed, Seen::Joined] {
        assert!(coverage.count(seen) > 5, "{seen:?} in: {coverage}");
    }
}

#[test]
fn a_seed_of_a_cluster_gives_the_same_run_again() {
    for seed in 0..3 {
        let one = run_cluster(seed, Options::default());
        assert_eq!(one, run_cluster(seed, Options::default()), "seed {seed}");
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..10 {
        let one = run(seed, Options::default());
        assert_eq!(one, run(seed, Options::default()), "seed {seed}");
    }
}
