//! A correct coordinator never breaks a rule, whatever faults occur in it, its members and their
//! connections. A coordinator with an injected bug breaks the rule of that bug.

use std::collections::BTreeSet;

use super::classic::{Classic, Classics};
use super::consumer::{Consumer, Consumers};
use super::world::{Bug, World};
use crate::check::Found;
use crate::history::Kind;

const MILLIS: u64 = 40_000;

#[derive(Clone, Copy, Debug)]
enum Protocol {
    Consumer,
    Eager,
    Cooperative,
}

const ALL: [Protocol; 3] = [Protocol::Consumer, Protocol::Eager, Protocol::Cooperative];

fn judge(protocol: Protocol, seed: u64, bug: Bug) -> Found {
    match protocol {
        Protocol::Consumer => {
            let coordinator = Consumers::new(bug);
            World::new(seed, bug, Kind::Consumer, coordinator, Consumer::new).judge(MILLIS)
        }
        Protocol::Eager => {
            let coordinator = Classics::new(bug, false);
            World::new(seed, bug, Kind::Classic, coordinator, Classic::eager).judge(MILLIS)
        }
        Protocol::Cooperative => {
            let coordinator = Classics::new(bug, true);
            World::new(seed, bug, Kind::Classic, coordinator, Classic::cooperative).judge(MILLIS)
        }
    }
}

/// `CHECK_SEEDS=1000` runs 1,000 seeds instead.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let wanted = std::env::var("CHECK_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    0..wanted.unwrap_or(count)
}

#[test]
fn a_correct_coordinator_breaks_no_rule() {
    for protocol in ALL {
        for seed in seeds(50) {
            let found = judge(protocol, seed, Bug::None);
            assert!(found.violations.is_empty(), "{protocol:?}, seed {seed}: {found:#?}");
        }
    }
}

#[test]
fn an_injected_bug_is_reported_as_its_own_rule() {
    for protocol in ALL {
        // If a partition has two owners, one of them may send no heartbeat for longer than its
        // lease. Its commits then look like those of a member that was removed.
        found_as(protocol, Bug::TwoOwners, &["two-owners", "fenced-commit-accepted"]);
        found_as(protocol, Bug::FencedCommit, &["fenced-commit-accepted"]);
        found_as(protocol, Bug::LostCommit, &["commit-lost"]);
        // A member that is removed early still owns partitions that are then assigned to others.
        found_as(protocol, Bug::EarlyEviction, &["evicted-early", "two-owners"]);
    }
    // The assignment of a classic group has no epoch that could go back.
    found_as(Protocol::Consumer, Bug::EpochBack, &["epoch-went-back"]);
}

/// Checks that the bug breaks the first of `rules` in most runs, and that no run breaks a rule that
/// is not in `rules`.
fn found_as(protocol: Protocol, bug: Bug, rules: &[&str]) {
    let runs: Vec<_> = seeds(12).map(|seed| broken(&judge(protocol, seed, bug))).collect();
    let hits = runs.iter().filter(|broken| broken.contains(rules[0])).count();
    assert!(hits * 3 >= runs.len() * 2, "{bug:?} in {protocol:?}: {hits} of {}", runs.len());
    for (seed, broken) in runs.iter().enumerate() {
        let others: Vec<_> = broken.iter().filter(|rule| !rules.contains(&rule.as_str())).collect();
        assert!(others.is_empty(), "{bug:?} in {protocol:?}, seed {seed}: {others:?}");
    }
}

fn broken(found: &Found) -> BTreeSet<String> {
    found.violations.iter().map(|violation| violation.rule.clone()).collect()
}
