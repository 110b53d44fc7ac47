//! The end of a run: its exit status, and the topics and groups that it leaves.

use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

use kafka_protocol::messages::ApiKey;

use loadgen::report::model::Report;
use tempfile::TempDir;

use crate::fake::{Bug, Config, Fake, Nonsense};
use crate::run::{PROGRAM, called_with, outcome, play_with, program, scenario, write};
use crate::running::Running;

const STEADY: &str = "[[phase]]\nname = \"steady\"\nlasts = \"60s\"\n";

/// The exit status of a process that SIGINT ended.
const INTERRUPTED: Option<i32> = Some(130);

fn steady() -> String {
    scenario("range", "", STEADY)
}

/// After Ctrl-C in the middle of a run, members leave, topics and groups are deleted, and the
/// summary is shown.
#[test]
fn an_interrupted_run_winds_down() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let mut run = Running::start(&fake, &directory, &steady(), &[]);
    run.wait_for("6 stable");
    assert!(!fake.names().is_empty());
    run.interrupt();
    let (status, summary) = run.end();
    assert_eq!(status, INTERRUPTED, "{summary}");
    assert!(summary.contains("interrupted") && summary.contains("0 violations"), "{summary}");
    assert!(fake.names().is_empty(), "{:?} are left", fake.names());
}

/// `clean` finds the groups and topics of a dead run by its prefix. It first shows them, and
/// deletes them only after confirmation.
#[test]
fn clean_deletes_what_dead_runs_left() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let clean = |options: &[&str]| {
        called_with(&[&["clean", "--bootstrap", &fake.bootstrap()], options].concat())
    };
    let mut run = Running::start(&fake, &directory, &steady(), &["--keep"]);
    run.wait_for("6 stable");
    let busy = clean(&["--yes"]);
    assert!(busy.output.contains("have members: what it made stays"), "{busy}");
    assert_eq!(fake.names().len(), 2, "{busy}");
    run.interrupt();
    run.end();

    for (options, left) in [(&["--dry-run"][..], 2), (&[], 2), (&["--yes"], 0), (&["--yes"], 0)] {
        let cleaned = clean(options);
        assert_eq!(cleaned.status, Some(0), "{cleaned}");
        assert!(cleaned.output.contains("of dead runs (muster-load-*)"), "{cleaned}");
        assert_eq!(fake.names().len(), left, "{options:?}: {cleaned}");
    }
}

/// A run whose terminal closes winds down, and deletes its topics.
#[test]
fn a_hangup_winds_down_as_an_interrupt_does() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    // The tests may themselves run under nohup(1), which makes the program ignore SIGHUP.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", PROGRAM]);
    let options = ["--keep-up", "1min"];
    let mut run = Running::start_by(command, &fake, &directory, &steady(), &options);
    run.wait_for("6 stable");
    run.signal("-HUP");
    let (status, summary) = run.end();
    assert_eq!(status, INTERRUPTED, "{summary}");
    assert!(fake.names().is_empty(), "{:?} are left", fake.names());
}

/// If a result goes to standard output, the summary does not.
#[test]
fn a_result_can_go_to_standard_output() {
    let fake = Fake::start(Config::default());
    let directory = TempDir::new().unwrap();
    let file = write(&directory, &scenario("range", "", ""));
    let bootstrap = fake.bootstrap();
    let options = [file.to_str().unwrap(), "--bootstrap", &bootstrap, "--json", "-"];
    let outcome = called_with(&[&options[..], &["--keep-up", "1min", "--quiet"]].concat());
    assert_eq!(outcome.status, Some(0), "{outcome}");
    let report: Report = serde_json::from_str(&outcome.output).unwrap();
    assert_eq!(report.members.started, 6);
    assert!(outcome.errors.contains("0 violations"), "{outcome}");
}

/// Other programs can follow a run.
#[test]
fn the_state_is_streamed_while_it_runs() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let lines = directory.path().join("lines.jsonl");
    // This port was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = port.to_string();
    let options = ["--ndjson", lines.to_str().unwrap(), "--prometheus", &address];
    let mut run = Running::start(&fake, &directory, &steady(), &options);
    run.wait_for("6 stable");
    let mut client = std::net::TcpStream::connect(port).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("muster_load_members{state=\"stable\"} 6\n"), "{answer}");
    run.interrupt();
    let (status, summary) = run.end();
    assert_eq!(status, INTERRUPTED, "{summary}");
    let lines = std::fs::read_to_string(&lines).unwrap();
    let members = |line: &str| {
        let state: serde_json::Value = serde_json::from_str(line).unwrap();
        state["members"]["stable"].as_u64()
    };
    assert!(lines.lines().any(|line| members(line) == Some(6)), "{lines}");
}

/// A broken threshold decides the status, even if Ctrl-C ended the run.
#[test]
fn an_interrupted_run_that_broke_a_threshold_has_status_1() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let mut run =
        Running::start(&fake, &directory, &steady(), &["--threshold", "rebalance.max < 1us"]);
    run.wait_for("6 stable");
    run.interrupt();
    let (status, summary) = run.end();
    assert_eq!(status, Some(1), "{summary}");
}

/// The broker does not answer LeaveGroup, so the run would wait half a minute for its members. A
/// second Ctrl-C ends it without this wait.
#[test]
fn a_second_interrupt_ends_at_once() {
    let fake = Fake::start(Config::hostile(ApiKey::LeaveGroup, Nonsense::NeverAnswers));
    let directory = TempDir::new().unwrap();
    let mut run = Running::start(&fake, &directory, &steady(), &[]);
    run.wait_for("6 stable");
    run.interrupt();
    run.wait_for("Ctrl-C again ends at once");
    run.interrupt();
    let (status, summary) = run.end();
    assert!(summary.contains("their names begin with muster-load-"), "{summary}");
    assert!(!summary.contains("had not left after"), "{summary}");
    assert_eq!(status, INTERRUPTED, "{summary}");
    assert!(summary.contains("interrupted"), "{summary}");
    assert!(!fake.names().is_empty(), "nothing was deleted");
}

#[test]
fn duration_ends_a_run_and_keep_leaves_its_topics_and_groups() {
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

/// Timers are always late by more than the permitted microsecond. A broken threshold then does not
/// decide the status, but a violation does: it is true even if the machine was slow.
#[test]
fn a_machine_that_cannot_keep_up_has_a_status_of_its_own() {
    let formation = scenario("range", "", "[[phase]]\nname = \"steady\"\nlasts = \"500ms\"\n");
    let options = ["--keep-up", "1us", "--threshold", "rebalance.max < 1us"];
    let outcome = play_with(Config::default(), &formation, &options);
    assert_eq!(outcome.status, Some(3), "{outcome}");
    assert!(outcome.output.contains("this machine could not keep up"), "{outcome}");
    let pace = &outcome.report.as_ref().unwrap().pace;
    assert!(pace.late.count > 0 && pace.turns.count > 0, "{outcome}");
    assert_eq!((pace.cores.len(), pace.bound), (1, Some(0.001)));

    let evicts = Config::with_bug(Bug::EvictsEarly);
    let outcome = play_with(evicts, &formation, &["--keep-up", "1us"]);
    assert_eq!(outcome.status, Some(1), "{outcome}");
}

/// A run writes its history. The command `check` finds the same violations in it as the run did.
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
        let reported = checked.output.contains("evicted-early");
        assert_eq!(reported, bug.is_some(), "{checked}");
    }
}

/// The run uses the session timeout that the broker reports, or else that of the scenario.
#[test]
fn the_session_timeout_of_consumer_groups_is_the_brokers() {
    let silent = Config { without: &[ApiKey::DescribeConfigs], ..Config::default() };
    let refuses = Config { refuses: Some((ApiKey::DescribeConfigs, 31)), ..Config::default() };
    for (config, expected) in [(Config::default(), 7_000), (silent, 1_000), (refuses, 1_000)] {
        let config = Config { session_timeout: Duration::from_secs(7), ..config };
        let directory = TempDir::new().unwrap();
        let history = directory.path().join("history.jsonl");
        let options = ["--history", history.to_str().unwrap(), "--duration", "1s"];
        let played = play_with(config, &scenario("consumer", "", ""), &options);
        let history = std::fs::read_to_string(&history).unwrap();
        let session = format!("\"session_timeout_ms\":{expected},");
        assert!(history.contains(&session), "no {session}: {played}");
        assert_eq!(played.errors.contains("does not report"), expected == 1_000, "{played}");
    }
}
