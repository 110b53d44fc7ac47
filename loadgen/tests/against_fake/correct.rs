//! No run against a correct broker reports a violation.

use std::time::Duration;

use crate::fake::Config;
use crate::run::{Outcome, play, play_with, scenario};

const LOADS: &str = r#"
revocation-takes = "20ms"
commit = { every = "20ms" }
offset-fetch = { every = "50ms" }
"#;

/// Phases in which members leave, come back and crash, topics grow, offsets are read, and groups
/// are deleted.
const ALL_ACTIONS: &str = r#"
[[phase]]
name = "leave"
leave = { members = 2 }
until = "stable"
settle = "500ms"
[[phase]]
name = "return"
start = {}
until = "stable"
settle = "500ms"
[[phase]]
name = "crash"
crash = { members = 1 }
until = "stable"
settle = "500ms"
[[phase]]
name = "growth"
add-partitions = { by = 5 }
until = "stable"
settle = "500ms"
[[phase]]
name = "reading"
read-offsets = {}
[[phase]]
name = "deletion"
delete-groups = {}
[[phase]]
name = "afterwards"
read-offsets = {}
"#;

fn assert_good(outcome: &Outcome) {
    assert_eq!(outcome.status, Some(0), "{outcome}");
    assert!(outcome.rules().is_empty(), "{outcome}");
    assert!(outcome.left.is_empty(), "{:?} are left: {outcome}", outcome.left);
    let report = outcome.report.as_ref().unwrap();
    assert!(report.commits.accepted > 0, "{outcome}");
    for phase in &report.phases {
        assert_eq!(phase.problem, None, "{}: {outcome}", phase.name);
    }
}

#[test]
fn eager_members() {
    assert_good(&play(Config::default(), &scenario("sticky", LOADS, ALL_ACTIONS)));
}

#[test]
fn cooperative_members() {
    let scenario = scenario("cooperative-sticky", LOADS, ALL_ACTIONS);
    assert_good(&play(Config::default(), &scenario));
}

#[test]
fn members_of_a_consumer_group() {
    let config = Config { session_timeout: Duration::from_millis(1_200), ..Config::default() };
    assert_good(&play(config, &scenario("consumer", LOADS, ALL_ACTIONS)));
}

#[test]
fn members_that_share_connections() {
    let config = Config { session_timeout: Duration::from_millis(1_200), ..Config::default() };
    let scenario = scenario("consumer", LOADS, ALL_ACTIONS);
    assert_good(&play_with(config, &scenario, &["--members-per-connection", "4"]));
}

#[test]
fn static_members_that_restart_one_by_one() {
    let group = format!("static = 6\n{LOADS}");
    let phases = r#"
[[phase]]
name = "restarts"
roll = { members = 3, how = "close", down = "100ms" }
until = "stable"
settle = "500ms"
"#;
    assert_good(&play(Config::default(), &scenario("range", &group, phases)));
}
