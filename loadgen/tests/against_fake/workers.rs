//! Runs with load from several processes: `muster-load serve`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use loadgen::report::model::Report;
use tempfile::TempDir;

use crate::fake::{Config, Fake};
use crate::run::{Outcome, PROGRAM, called_with, scenario, write};

const LOST_A_WORKER: Option<i32> = Some(4);
const WORK: &str = "
[[phase]]
name = \"work\"
work = { commit = { every = \"50ms\" } }
lasts = \"3s\"
";

/// A worker in its own process, which ends with the test.
struct Worker {
    child: Child,
    address: String,
}

impl Worker {
    fn start(fake: &Fake) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", "127.0.0.1:0", "--bootstrap", &fake.bootstrap()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("serves on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Runs the scenario with these options. The report and the history are written to the directory.
fn play(directory: &TempDir, scenario: &str, options: &[&str]) -> (Outcome, Option<Report>) {
    let scenario = write(directory, scenario);
    let (report, history) = (directory.path().join("r.json"), directory.path().join("h.jsonl"));
    let files = ["--json", report.to_str().unwrap(), "--history", history.to_str().unwrap()];
    let fixed = [scenario.to_str().unwrap(), "--keep-up", "1min", "--seed", "7"];
    let outcome = called_with(&[&fixed[..], &files[..], options].concat());
    let report = std::fs::read(report).ok();
    (outcome, report.map(|bytes| serde_json::from_slice(&bytes).unwrap()))
}

/// Two workers do what a single process does with the same seed. Only the numbers of requests may
/// differ a little, because they depend on the speed of the machine.
#[test]
fn two_workers_are_one_run() {
    let scenario = scenario("range", "", WORK);
    let directory = TempDir::new().unwrap();
    let fake = Fake::start(Config::default());
    let (one, alone) = play(&directory, &scenario, &["--bootstrap", &fake.bootstrap()]);
    assert_eq!(one.status, Some(0), "{one}");

    let workers = [Worker::start(&fake), Worker::start(&fake)];
    let addresses = workers.each_ref().map(|worker| worker.address.clone()).join(",");
    let (both, merged) = play(&directory, &scenario, &["--workers", &addresses]);
    assert_eq!(both.status, Some(0), "{both}");
    let (alone, merged) = (alone.unwrap(), merged.unwrap());
    assert_eq!(merged.run.workers.len(), 2);
    assert_eq!(merged.run.cores, 2);
    assert_eq!((alone.members.started, merged.members.started), (6, 6));
    assert_eq!(merged.violation_count(), 0);
    // One file is the history of both workers. `check` finds no violation in it, either.
    let history = directory.path().join("h.jsonl");
    let text = std::fs::read_to_string(&history).unwrap();
    assert!(text.contains("clock_error_us"), "{}", &text[..500.min(text.len())]);
    let checked = called_with(&["check", history.to_str().unwrap()]);
    assert!(checked.output.contains("of 1 groups, 0 violations"), "{checked}");
    // The members join and commit about as often in both runs: commits have a schedule.
    let count = |report: &Report, name: &str| report.latencies[name].count as f64;
    for name in ["commit", "sync"] {
        let (alone, merged) = (count(&alone, name), count(&merged, name));
        assert!((merged / alone - 1.0).abs() < 0.3, "{name}: {alone} alone, {merged} merged");
    }
    // The history contains commits of members of both workers.
    let commits_of = |member: u32| {
        let wanted = format!("\"member\":{member},\"event\":\"commit-sent\"");
        text.lines().filter(|line| line.contains(&wanted)).count()
    };
    assert!((0..6).all(|member| commits_of(member) > 10), "{:?}", (0..6).map(commits_of));
    assert!(fake.names().is_empty(), "{:?} are left", fake.names());
    // A worker can serve another run.
    let (next, _) = play(&directory, &scenario, &["--workers", &workers[1].address]);
    assert_eq!(next.status, Some(0), "{next}");
}

/// Members choose random ids themselves. No two workers may choose the same ids.
#[test]
fn members_of_two_workers_have_different_ids() {
    let directory = TempDir::new().unwrap();
    let fake = Fake::start(Config::default());
    let workers = [Worker::start(&fake), Worker::start(&fake)];
    let addresses = workers.each_ref().map(|worker| worker.address.clone()).join(",");
    let scenario = scenario("consumer", "", WORK);
    let (outcome, report) = play(&directory, &scenario, &["--workers", &addresses]);
    assert_eq!(outcome.status, Some(0), "{outcome}");
    let report = report.unwrap();
    assert_eq!((report.members.started, report.members.fenced), (6, 0), "{outcome}");
    let history = std::fs::read_to_string(directory.path().join("h.jsonl")).unwrap();
    let id = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["member_id"].as_str().map(str::to_owned)
    };
    let ids: std::collections::BTreeSet<_> = history.lines().filter_map(id).collect();
    assert_eq!(ids.len(), 6, "{ids:?}");
}

#[test]
fn a_worker_that_is_lost_ends_the_run() {
    let fake = Fake::start(Config::default());
    let directory = TempDir::new().unwrap();
    let [stays, mut goes] = [Worker::start(&fake), Worker::start(&fake)];
    let long = scenario("range", "", &WORK.replace("3s", "60s"));
    let scenario = write(&directory, &long);
    let addresses = format!("{},{}", stays.address, goes.address);
    let mut run = Command::new(PROGRAM)
        .arg(scenario)
        .args(["--keep-up", "1min", "--workers", &addresses])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("6 stable")), "never stable");
    goes.child.kill().unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(run.wait().unwrap().code(), LOST_A_WORKER, "{rest:?}");
    let sentence = format!("worker {} was lost", goes.address);
    assert!(rest.iter().any(|line| line.contains(&sentence)), "{rest:?}");
}

#[test]
fn a_worker_that_cannot_be_reached_or_has_no_cluster_is_named() {
    let fake = Fake::start(Config::default());
    let worker = Worker::start(&fake);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let both = format!("{},{closed}", worker.address);
    called_with(&["--workers", &both]).assert_refused(&[&closed.to_string(), "refused"]);
    let address = worker.address.clone();
    drop(fake);
    called_with(&["--workers", &address]).assert_refused(&[&address, "worker"]);
}
