//! A real server with the clients of the simulator, for a few of the simulator's seeds. It uses
//! io_uring in one test, and polls in the other. It is killed, stopped and paused meanwhile. The
//! simulator's judge checks the answers, and the server's state after each kill. `simulator
//! loopback` runs more seeds.

use crate::support::binary;
use simulator::coverage::{Coverage, Seen};
use simulator::{Options, Outcome, Target, run_loopback};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const SEEDS: [u64; 4] = [0, 1, 2, 3];

fn outcomes(server: PathBuf, driver: &str) -> [Outcome; SEEDS.len()] {
    let target = Target { server, driver: driver.to_owned() };
    let run = |seed| run_loopback(seed, &target, Options::default()).unwrap();
    std::thread::scope(|scope| {
        let running = SEEDS.map(|seed| scope.spawn(move || run(seed)));
        running.map(|running| running.join().unwrap())
    })
}

fn all_hold(driver: &str) {
    let mut coverage = Coverage::default();
    for outcome in outcomes(binary().get_program().into(), driver) {
        let last = outcome.last.join("\n");
        assert_eq!(outcome.violation, None, "seed {} with {driver}: {last}", outcome.seed);
        coverage += &outcome.coverage;
    }
    let due = [Seen::Kill, Seen::StartCompared, Seen::Joined, Seen::Rebalanced];
    let missing: Vec<_> = due.into_iter().filter(|seen| coverage.count(*seen) == 0).collect();
    assert!(missing.is_empty(), "no {missing:?} in: {coverage}");
}

#[test]
fn the_clients_of_simulated_runs_are_served_by_io_uring() {
    all_hold("io_uring");
}

#[test]
fn the_clients_of_simulated_runs_are_served_by_polling() {
    all_hold("poll");
}

/// Shows that the judge finds violations. This server loses its data at each start.
#[test]
fn a_server_that_forgets_what_it_acknowledged_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let server = directory.path().join("forgets");
    let muster = binary();
    let muster = muster.get_program().to_str().unwrap();
    // The data directory is the seventh argument.
    let script = format!("#!/bin/sh\nrm -rf \"$7\"\nexec '{muster}' \"$@\"\n");
    std::fs::write(&server, script).unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    let found = outcomes(server, "poll").map(|outcome| outcome.violation);
    // Violations such as "the server does not start" do not count here: no answer shows them.
    let is_of_process = |what: &&String| what.starts_with("the server");
    assert!(found.iter().flatten().any(|what| !is_of_process(&what)), "{found:?}");
}
