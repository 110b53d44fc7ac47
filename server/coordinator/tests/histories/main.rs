//! Random histories of classic groups, consumer groups, and groups that change between the two
//! protocols. `shard.rs` and `witness.rs` check properties after each call.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod action;
mod classic;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod compacted;
mod consumer;
mod history;
mod shard;
mod witness;

use action::{Plan, plans};
use compacted::{compactions, read_beside};
use history::History;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

/// Longer than any request may be parked in these tests.
const FOR_EVER_MS: i64 = 1_000_000;

/// All [`witness::EVENTS`] must occur in this number of histories.
const HISTORIES: usize = 150;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// After each call, the log alone must produce the same state ([`shard::Shard::check`]), no
    /// partition may have two owners, and no epoch may decrease ([`witness::Witness`]).
    #[test]
    fn the_log_holds_the_durable_state(plan in plans()) {
        let history = History::of(&plan);
        let durable = history.shard.durable();
        prop_assert_eq!(&durable, &history.shard.replayed(&history.shard.log), "the log");
        prop_assert_eq!(&durable, &history.shard.replayed(&durable), "compacted");
    }

    #[test]
    fn a_compacted_log_produces_the_same_state(plan in plans(), compaction in compactions()) {
        let shard = History::of(&plan).shard;
        let left = compaction.of(&shard.log);
        prop_assert_eq!(shard.replayed(&left), shard.replayed(&shard.log));
    }

    #[test]
    fn a_log_that_is_compacted_while_it_is_read_produces_the_same_state(
        plan in plans(),
        read in 0..=1_000usize,
    ) {
        let shard = History::of(&plan).shard;
        let found = read_beside(&shard.log, shard.log.len() * read / 1_000);
        prop_assert_eq!(shard.replayed(&found), shard.replayed(&shard.log));
    }

    #[test]
    fn the_same_history_has_the_same_output(plan in plans()) {
        let (one, other) = (History::of(&plan), History::of(&plan));
        prop_assert_eq!(one.shard.outputs, other.shard.outputs);
        prop_assert_eq!(one.shard.log, other.shard.log);
    }

    #[test]
    fn no_request_waits_for_ever(plan in plans()) {
        let mut history = History::of(&plan);
        history.shard.advance(FOR_EVER_MS);
        prop_assert!(history.shard.waiting.is_empty(), "{:?}", history.shard.waiting);
    }

    #[test]
    fn groups_settle_in_a_bounded_number_of_heartbeats(plan in plans()) {
        History::of(&plan).settle_down();
    }
}

/// Checks that each of [`witness::EVENTS`] occurs in at least one history. If an event never
/// occurred, the properties would not be tested with it.
#[test]
fn histories_include_all_required_events() {
    let mut runner = TestRunner::deterministic();
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..HISTORIES {
        let plan: Plan = plans().new_tree(&mut runner).unwrap().current();
        for (event, times) in History::of(&plan).shard.witness.met {
            *met.entry(event).or_default() += times;
        }
    }
    println!("{HISTORIES} histories met {met:?}");
    let missed = witness::EVENTS.iter().filter(|event| !met.contains_key(*event));
    assert_eq!(missed.collect::<Vec<_>>(), Vec::<&&str>::new(), "never met");
}
