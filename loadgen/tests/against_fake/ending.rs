//! How a run ends, and what is there afterwards.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::fake::{Bug, Config, Fake};
use crate::run::{PROGRAM, outcome, play_with, program, scenario, write};

const STEADY: &str = "[[phase]]\nname = \"steady\"\nlasts = \"60s\"\n";

/// Ctrl-C in the middle: members leave, topics and groups are deleted, the summary is shown.
#[test]
fn an_interrupted_run_winds_down() {
    let fake = Fake::start(Config::default());
    let directory = TempDir::new().unwrap();
    let file = write(&directory, &scenario("range", "", STEADY));
    let mut command = Command::new(PROGRAM);
    command.arg(file).args(["--bootstrap", &fake.bootstrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("6 stable")), "the group never was stable");
    assert!(!fake.names().is_empty());

    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    lines.for_each(drop);
    let mut summary = String::new();
    child.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
    assert!(child.wait().unwrap().success(), "{summary}");
    assert!(summary.contains("interrupted") && summary.contains("0 violations"), "{summary}");
    assert!(fake.names().is_empty(), "{:?} are left", fake.names());
}

#[test]
fn duration_ends_a_run_and_keep_leaves_what_it_made() {
    let scenario = scenario("consumer", "commit = { every = \"20ms\" }", STEADY);
    let options = ["--duration", "2s", "--keep"];
    let outcome = play_with(Config::default(), &scenario, &options);
    assert_eq!(outcome.status, Some(0), "{outcome}");
    assert_eq!(outcome.left.len(), 2, "{:?} are left: {outcome}", outcome.left);
}

#[test]
fn a_threshold_decides_the_status() {
    let formation = scenario("range", "", "");
    for (rule, status) in [("rebalance.max < 1us", 1), ("rebalance.max < 60s", 0)] {
        let outcome = play_with(Config::default(), &formation, &["--threshold", rule]);
        assert_eq!(outcome.status, Some(status), "{rule}: {outcome}");
    }
}

/// The history of a run tells the same afterwards as the run did.
#[test]
fn a_history_is_checked_again() {
    for (bug, status) in [(None, 0), (Some(Bug::EvictsEarly), 1)] {
        let directory = TempDir::new().unwrap();
        let history = directory.path().join("history.jsonl");
        let phases = STEADY.replace("60s", "500ms");
        let config = Config { bug, ..Config::default() };
        let options = ["--history", history.to_str().unwrap()];
        let played = play_with(config, &scenario("range", "", &phases), &options);
        assert_eq!(played.status, Some(status), "{played}");

        let checked = outcome(&program().arg("check").arg(&history).output().unwrap());
        assert_eq!(checked.status, Some(status), "{checked}");
        let told = checked.output.contains("evicted-early");
        assert_eq!(told, bug.is_some(), "{checked}");
    }
}
