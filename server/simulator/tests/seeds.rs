//! A few seeds, that much happens in them, and that a seed is a run: the same one each time.
#![allow(clippy::unwrap_used)]

use simulator::coverage::{Coverage, Seen};
use simulator::{Options, run};

/// What a few seeds may come through without; a thousand do not.
const RARE: [Seen; 4] =
    [Seen::FileBack, Seen::MisdirectedWrite, Seen::CrashInReshard, Seen::CrashInCompaction];

#[test]
fn a_few_seeds_hold_and_see_much() {
    let mut coverage = Coverage::default();
    for seed in 0..60 {
        let outcome = run(seed, Options::default());
        coverage += &outcome.coverage;
        let Some(violation) = outcome.violation else { continue };
        panic!("seed {seed}: {violation}\n{}", outcome.last.join("\n"));
    }
    let missing: Vec<_> = coverage.missing().filter(|seen| !RARE.contains(seen)).collect();
    assert!(missing.is_empty(), "no {missing:?} in: {coverage}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..10 {
        let one = run(seed, Options::default());
        assert_eq!(one, run(seed, Options::default()), "seed {seed}");
    }
}
