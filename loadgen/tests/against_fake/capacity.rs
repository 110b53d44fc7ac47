//! The capacity search against a broker that is slow above a known number of members.

use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use loadgen::report::capacity::{Capacity, End};
use tempfile::TempDir;

use crate::fake::{Config, Fake, Slow};
use crate::run::{Outcome, called_with};

const RULE: &str = "heartbeat.p50 < 500ms";

fn searched(options: &[&str]) -> (Outcome, Capacity, String) {
    let by = Duration::from_secs(1);
    let slow = Slow { api: ApiKey::ConsumerGroupHeartbeat, by, from_members: 12 };
    let fake = Fake::start(Config { slow: Some(slow), ..Config::default() });
    let directory = TempDir::new().unwrap();
    let [json, html] = ["found.json", "found.html"].map(|name| directory.path().join(name));
    let files = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let bootstrap = fake.bootstrap();
    let common = ["capacity", "--bootstrap", &bootstrap, "--protocol", "consumer"];
    let outcome = called_with(&[&common[..], &files, options].concat());
    let found = std::fs::read(json).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    let page = std::fs::read_to_string(html).unwrap();
    (outcome, serde_json::from_slice(&found).unwrap(), page)
}

#[test]
fn the_limit_of_a_slow_broker_is_found_exactly() {
    let steps = ["--from", "4", "--to", "64", "--precision", "0", "--tries", "1", "--lasts", "1s"];
    let options = ["--threshold", RULE, "--keep-up", "1min"];
    let (outcome, found, page) = searched(&[&steps[..], &options].concat());
    assert_eq!(outcome.status, Some(0), "{outcome}");
    assert_eq!((found.holds, found.breaks, &found.end), (Some(11), Some(12), &End::Found));
    let sizes: Vec<u64> = found.steps.iter().map(|step| step.size).collect();
    assert_eq!(sizes, [4, 8, 16, 12, 10, 11], "{outcome}");
    // The figure in the brackets may be less than a second, although each answer takes a second.
    // Heartbeats also count that were due while another one was unanswered, and they waited less.
    let sentence = "holds 11 members, breaks at 12: consumer-heartbeat.p50 < 500ms (";
    assert!(outcome.output.contains(sentence) && page.contains("holds 11 members"), "{outcome}");
    assert!(outcome.errors.contains("8 members held: "), "{outcome}");
}

#[test]
fn a_machine_that_cannot_keep_up_is_no_limit_of_the_cluster() {
    let options = ["--from", "2", "--lasts", "500ms", "--keep-up", "1us", "--threshold", RULE];
    let (outcome, found, _) = searched(&options);
    assert_eq!(outcome.status, Some(3), "{outcome}");
    assert_eq!((found.holds, found.breaks), (None, None));
    assert!(outcome.output.contains("this machine could not keep up with 2 members"), "{outcome}");
}

#[test]
fn a_size_that_does_not_hold_at_all_has_status_1() {
    let options =
        ["--from", "2", "--to", "2", "--lasts", "500ms", "--threshold", "rebalance.max < 1us"];
    let (outcome, found, _) = searched(&[&options[..], &["--keep-up", "1min"]].concat());
    assert_eq!(outcome.status, Some(1), "{outcome}");
    assert_eq!((found.holds, found.breaks), (None, Some(1)), "{outcome}");
    assert_eq!(found.steps.len(), 4, "each is tried twice: {outcome}");
}
