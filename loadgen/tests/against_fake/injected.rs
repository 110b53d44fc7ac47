//! Each bug that is injected into the broker is reported by its own rule.

use std::fs::File;
use std::time::Duration;

use tempfile::TempDir;

use crate::fake::{Bug, Config, Fake};
use crate::run::{Outcome, outcome, play, play_by, program, scenario, side_by_side, write};

const PROTOCOLS: [&str; 2] = ["range", "consumer"];

/// A phase in which members continue for a while.
const STEADY: &str = "
[[phase]]
name = \"steady\"
lasts = \"1s\"
";
const COMMITS: &str = "commit = { every = \"20ms\" }";

/// Members that are late on a slow machine do not exceed it, and a test can wait for it.
const SESSION_TIMEOUT: Duration = Duration::from_millis(1_200);

fn assert_found(protocol: &str, bug: Bug, group: &str, phases: &str, rule: &str) {
    let config = Config { session_timeout: SESSION_TIMEOUT, ..Config::with_bug(bug) };
    // Some bugs keep groups from becoming stable, so the limit is short.
    let scenario = scenario(protocol, group, phases).replace("limit = \"30s\"", "limit = \"4s\"");
    assert_reported(&play(config, &scenario), rule);
}

fn assert_reported(outcome: &Outcome, rule: &str) {
    let rules: Vec<String> = outcome.rules().into_iter().collect();
    assert_eq!(rules, [rule], "{outcome}");
    assert_eq!(outcome.status, Some(1), "{outcome}");
    assert!(outcome.output.contains(rule), "{outcome}");
}

#[test]
fn a_partition_that_is_assigned_twice() {
    side_by_side(PROTOCOLS, |protocol| {
        assert_found(protocol, Bug::AssignsTwice, "", STEADY, "two-owners");
    });
}

#[test]
fn a_violation_is_the_verdict_even_if_nothing_can_be_printed() {
    let scenario = scenario("consumer", "", STEADY);
    let config =
        || Config { session_timeout: SESSION_TIMEOUT, ..Config::with_bug(Bug::AssignsTwice) };
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let assert_found = |outcome: &Outcome| {
        assert_eq!(outcome.status, Some(1), "{outcome}");
        assert!(outcome.errors.contains("No space left on device"), "{outcome}");
    };
    let mut program_of_several = program();
    program_of_several.stdout(full());
    assert_found(&play_by(program_of_several, config(), &scenario, &["--repeat", "2"]));

    let (fake, directory) = (Fake::start(config()), TempDir::new().unwrap());
    let mut program = program();
    program.arg(write(&directory, &scenario)).arg("--bootstrap").arg(fake.bootstrap());
    program.args(["--json", "-", "--keep-up", "1min"]).stdout(full());
    assert_found(&outcome(&program.output().unwrap()));
}

#[test]
fn an_epoch_that_goes_back() {
    let phases = r#"
[[phase]]
name = "leave"
leave = { members = 1 }
until = "stable"
settle = "500ms"
limit = "30s"
[[phase]]
name = "return"
start = {}
lasts = "1500ms"
"#;
    side_by_side(PROTOCOLS, |protocol| {
        assert_found(protocol, Bug::EpochGoesBack, "", phases, "epoch-went-back");
    });
}

#[test]
fn commits_that_are_lost() {
    let phases = format!("{STEADY}\n[[phase]]\nname = \"reading\"\nread-offsets = {{}}\n");
    side_by_side(PROTOCOLS, |protocol| {
        assert_found(protocol, Bug::ForgetsCommits, COMMITS, &phases, "commit-lost");
    });
}

#[test]
fn commits_that_are_rolled_back() {
    let reading = "[[phase]]\nname = \"NAME\"\nread-offsets = {}\n";
    let (once, again) = (reading.replace("NAME", "once"), reading.replace("NAME", "again"));
    let rest = "[[phase]]\nname = \"rest\"\nwork = {}\nlasts = \"500ms\"\n";
    let phases = format!("{STEADY}\n{rest}\n{once}\n{again}");
    side_by_side(PROTOCOLS, |protocol| {
        assert_found(protocol, Bug::RollsBack, COMMITS, &phases, "commit-lost");
    });
}

#[test]
fn commits_of_a_fenced_member_that_are_accepted() {
    let phases = STEADY.replace("1s", "4s");
    side_by_side(PROTOCOLS, |protocol| {
        let rule = "fenced-commit-accepted";
        assert_found(protocol, Bug::AcceptsFencedCommits, COMMITS, &phases, rule);
    });
}

#[test]
fn a_member_that_is_evicted_early() {
    side_by_side(PROTOCOLS, |protocol| {
        assert_found(protocol, Bug::EvictsEarly, "", STEADY, "evicted-early");
    });
}

/// One member out of 64 repeats its SyncGroup.
#[test]
fn a_repeated_request_that_is_answered_differently() {
    let bug = Bug::AnswersRepeatsDifferently;
    let config = Config { session_timeout: SESSION_TIMEOUT, ..Config::with_bug(bug) };
    let scenario = scenario("range", "", STEADY).replace("members = 6", "members = 64");
    let scenario = scenario.replace("partitions = 12", "partitions = 64");
    assert_reported(&play(config, &scenario), "repeat-differed");
}

#[test]
fn a_deleted_group_that_comes_back() {
    let phases = format!(
        "{STEADY}\n[[phase]]\nname = \"deletion\"\ndelete-groups = {{}}\n\
         [[phase]]\nname = \"reading\"\nread-offsets = {{}}\n"
    );
    side_by_side(PROTOCOLS, |protocol| {
        let rule = "deleted-group-came-back";
        assert_found(protocol, Bug::KeepsDeletedGroups, COMMITS, &phases, rule);
    });
}
