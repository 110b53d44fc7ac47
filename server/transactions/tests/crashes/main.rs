//! Random transactions over a network that loses, repeats and reorders messages, with crashes of
//! each kind at any moment. A transaction must stay atomic, an acknowledged commit must never be
//! lost, and every transaction must end.
//!
//! `MUSTER_TRANSACTIONS_SEED=7` runs one seed; `MUSTER_TRANSACTIONS_SEEDS=1000` runs a thousand.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod client;
#[path = "../common/mod.rs"]
mod common;
mod fault;
mod slots;
mod world;

use fault::Fault;
use std::env::var;
use std::panic::catch_unwind;
use world::World;

#[test]
fn transactions_are_whole_after_every_crash() {
    let number = |name| var(name).ok().map(|it| it.parse::<u64>().unwrap());
    let seeds = match number("MUSTER_TRANSACTIONS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("MUSTER_TRANSACTIONS_SEEDS").unwrap_or(200),
    };
    let (mut commits, mut aborts, mut crashes) = (0, 0, 0);
    for seed in seeds {
        println!("MUSTER_TRANSACTIONS_SEED={seed}");
        let world = run(seed, None);
        commits += world.commits();
        aborts += world.aborts();
        crashes += world.crashes;
    }
    println!("{commits} commits, {aborts} aborts, {crashes} crashes");
    assert!(commits > 0 && aborts > 0 && crashes > 0);
}

/// The checks must find each injected fault.
#[test]
fn injected_faults_are_found() {
    for fault in Fault::ALL {
        let is_found = |seed: &u64| catch_unwind(|| run(*seed, Some(fault))).is_err();
        let found = (0..1_000).find(is_found);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}

fn run(seed: u64, fault: Option<Fault>) -> World {
    let mut world = World::new(seed, fault);
    (0..1_500).for_each(|_| world.step());
    world.come_to_rest();
    world.check();
    world
}
