//! A few seeds, and that a seed is a run: the same one each time.
#![allow(clippy::unwrap_used)]

use simulator::{Options, run};

#[test]
fn a_few_seeds_hold() {
    for seed in 0..8 {
        let outcome = run(seed, Options::default());
        let Some(violation) = outcome.violation else { continue };
        panic!("seed {seed}: {violation}\n{}", outcome.last.join("\n"));
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..3 {
        let one = run(seed, Options::default());
        assert_eq!(one, run(seed, Options::default()), "seed {seed}");
    }
}
