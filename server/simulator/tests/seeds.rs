//! A few seeds, that much happens in them, and that a seed is a run: the same one each time.
#![allow(clippy::unwrap_used)]

use simulator::coverage::{Coverage, Seen};
use simulator::{Options, run};

/// What a few seeds may come through without; a thousand do not.
const RARE: [Seen; 10] = [
    Seen::OpenDeferred,
    Seen::FileBack,
    Seen::FileLost,
    Seen::DamagedWrite,
    Seen::MisdirectedWrite,
    Seen::CrashInReshard,
    Seen::CrashInCompaction,
    Seen::Crowd,
    Seen::HalfRebalance,
    Seen::WaitedForLog,
];

#[test]
fn a_few_seeds_hold_and_see_much() {
    let mut coverage = Coverage::default();
    for seed in 0..60 {
        let outcome = run(seed, Options::default());
        coverage += &outcome.coverage;
        let Some(violation) = outcome.violation else { continue };
        panic!("seed {seed}: {violation}\n{}", outcome.last.join("\n"));
    }
    let due = |seen: &Seen| !RARE.contains(seen) && !seen.is_of_images();
    let missing: Vec<_> = coverage.missing().filter(due).collect();
    assert!(missing.is_empty(), "no {missing:?} in: {coverage}");
}

/// The long form is `--crash-images`, of each change of the disk.
#[test]
fn each_state_in_which_a_crash_may_leave_the_disk_is_one_to_start_from() {
    let mut coverage = Coverage::default();
    for seed in 10..25 {
        let outcome = run(seed, Options { images_every: 23, ..Options::default() });
        coverage += &outcome.coverage;
        let Some(violation) = outcome.violation else { continue };
        panic!("seed {seed}: {violation}\n{}", outcome.last.join("\n"));
    }
    let missing: Vec<_> = coverage.missing().filter(|seen| seen.is_of_images()).collect();
    assert!(missing.is_empty(), "no {missing:?} in: {coverage}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..10 {
        let one = run(seed, Options::default());
        assert_eq!(one, run(seed, Options::default()), "seed {seed}");
    }
}
