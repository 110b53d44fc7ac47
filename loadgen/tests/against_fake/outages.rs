//! Outages: if a server is silent for a time, the measured latencies are at least as long.

use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use loadgen::report::json;
use loadgen::report::model::Report;
use tempfile::TempDir;

use crate::fake::{Config, Fake, Slow};
use crate::run::{play_with, scenario};
use crate::running::Running;

fn steady(group: &str, lasts: &str) -> String {
    let phases = format!("[[phase]]\nname = \"steady\"\nlasts = \"{lasts}\"\n");
    let scenario = scenario("range", group, &phases);
    scenario.replace("session-timeout = \"1s\"", "session-timeout = \"20s\"")
}

/// Starts a run, and applies `interfere` to the broker once the group is stable. Returns the
/// status, the output and the report.
fn interfered(
    scenario: &str,
    options: &[&str],
    interfere: impl FnOnce(Fake) -> Option<Fake>,
) -> (Option<i32>, String, Report) {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let result = directory.path().join("result.json");
    let options = [options, &["--json", result.to_str().unwrap()]].concat();
    let mut run = Running::start(&fake, &directory, scenario, &options);
    run.wait_for("6 stable");
    let fake = interfere(fake);
    let (status, output) = run.end();
    drop(fake);
    (status, output, json::load(&result).unwrap())
}

/// The broker stalls as if its process were stopped. Every request that was due during the stall
/// counts in the corrected figures, even if it could not be sent.
#[test]
fn a_stall_is_in_all_percentiles_that_it_belongs_to() {
    let options = ["--threshold", "heartbeat.max < 1s", "--threshold", "heartbeat.p50 < 2s"];
    let (status, output, report) = interfered(&steady("", "4s"), &options, |fake| {
        fake.stall(Duration::from_secs(2));
        Some(fake)
    });
    assert_eq!(status, Some(1), "{output}");
    let held: Vec<bool> = report.thresholds.iter().map(|threshold| threshold.held).collect();
    assert_eq!(held, [false, true], "{output}");
    let (corrected, sent) = (&report.latencies["heartbeat"], &report.uncorrected["heartbeat"]);
    assert!(corrected.max >= 1_900.0 && sent.max >= 1_900.0, "{output}");
    // Without the stall, each of the six members would have sent a request every 50 ms.
    assert!(corrected.count >= sent.count + 6 * 30, "{corrected:?} {sent:?}");
}

/// The broker ends and does not return. The run ends, and its figures contain the last seconds.
#[test]
fn a_dead_cluster_ends_the_run_and_has_no_good_figures() {
    let scenario = steady("commit = { every = \"50ms\" }", "60s");
    let options = ["--give-up", "3s"];
    let (status, output, report) = interfered(&scenario, &options, |fake| {
        drop(fake);
        None
    });
    assert_eq!(status, Some(2), "{output}");
    assert!(output.contains("no broker has answered for 3s"), "{output}");
    assert!(output.contains("their names begin with muster-load-"), "{output}");
    for of in ["heartbeat", "commit"] {
        let (corrected, sent) = (&report.latencies[of], &report.uncorrected[of]);
        assert!(corrected.max >= 2_500.0 && sent.max < 2_500.0, "{of}: {output}");
        assert!(corrected.count >= sent.count + 6 * 30, "{of}: {corrected:?} {sent:?}");
    }
    // Each of the six members had a heartbeat and a commit in flight when the broker ended. Lookups
    // of the coordinator that were refused afterwards are not counted.
    assert!(report.unanswered_count() <= 12, "{:?}: {output}", report.unanswered);
}

/// Answers are slower than the load, so requests queue. Only the corrected figures show this.
#[test]
fn answers_to_one_api_that_are_held_back_show_in_its_figure() {
    let slow = Slow { api: ApiKey::OffsetCommit, by: Duration::from_millis(400), from_members: 0 };
    let config = Config { slow: Some(slow), ..Config::default() };
    let scenario = steady("commit = { every = \"100ms\" }", "4s");
    let options = ["--threshold", "commit.p50 < 600ms"];
    let outcome = play_with(config, &scenario, &options);
    assert_eq!(outcome.status, Some(1), "{outcome}");
    let report = outcome.report.as_ref().unwrap();
    let (corrected, sent) = (&report.latencies["commit"], &report.uncorrected["commit"]);
    assert!(sent.p50 >= 390.0 && sent.p50 < 600.0, "{sent:?}");
    assert!(corrected.p50 > 600.0 && corrected.max > 2_000.0, "{corrected:?}");
}
