//! Transactions are read back. A broker that shows only a part of a transaction is found.

use std::time::Duration;

use kafka_protocol::messages::ApiKey;

use crate::fake::{Bug, Config, Slow};
use crate::run::{Outcome, play};

const SCENARIO: &str = r#"
description = "a test"
[[topic]]
name = "t"
partitions = 3
[[producer]]
name = "p"
count = 2
records = 2
abort = "ABORT%"
produce = { rate = 50, partitions = 2 }
[[reader]]
name = "r"
[[phase]]
name = "begin"
start = { groups = "r" }
lasts = "300ms"
[[phase]]
name = "steady"
start = { groups = "p" }
lasts = "1500ms"
"#;

/// The broker answers Produce late: readers can read the records this long before the answer.
const LATER: Slow = Slow { api: ApiKey::Produce, by: Duration::from_millis(20), from_members: 0 };

fn with(bug: Option<Bug>, aborted: u32) -> Outcome {
    let config = Config { bug, slow: Some(LATER), ..Config::default() };
    play(config, &SCENARIO.replace("ABORT", &aborted.to_string()))
}

fn assert_found(bug: Bug, aborted: u32, rule: &str) {
    let outcome = with(Some(bug), aborted);
    assert_eq!(Vec::from_iter(outcome.rules()), [rule], "{outcome}");
    assert_eq!(outcome.status, Some(1), "{outcome}");
}

#[test]
fn all_transactions_of_a_correct_broker_become_visible() {
    let outcome = with(None, 30);
    assert_eq!(outcome.status, Some(0), "{outcome}");
    let report = outcome.report.as_ref().unwrap();
    assert!(report.transactions.committed > 10 && report.transactions.aborted > 0, "{outcome}");
    let visible = &report.latencies["visible"];
    assert_eq!(visible.count, report.transactions.committed, "{outcome}");
    assert!(!report.unanswered.contains_key("visible"), "{outcome}");
}

#[test]
fn records_of_an_aborted_transaction_are_shown() {
    assert_found(Bug::ShowsAbortedTransactions, 50, "aborted-read");
}

#[test]
fn a_partition_of_a_transaction_is_lost() {
    assert_found(Bug::LosesAPartition, 0, "transaction-torn");
}

#[test]
fn records_are_shown_before_their_transaction_is_committed() {
    assert_found(Bug::ShowsOpenTransactions, 0, "read-before-commit");
}
