//! A load generator that gets next to no CPU time reports that its figures describe the load
//! machine.

use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::fake::{Config, Fake};
use crate::run::{PROGRAM, scenario};
use crate::running::Running;

/// Processes that use a CPU all the time.
struct Busy(Vec<Child>);

impl Busy {
    fn on(cpu: &str, count: usize) -> Self {
        let busy = || {
            let mut shell = Command::new("taskset");
            shell.args(["-c", cpu, "sh", "-c", "while :; do :; done"]);
            shell.stdin(Stdio::null()).spawn().unwrap()
        };
        Self((0..count).map(|_| busy()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_starved_generator_blames_itself() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let cpu = core_affinity::get_core_ids().unwrap()[0].id.to_string();
    let mut program = Command::new("nice");
    program.args(["-n", "19", "taskset", "-c", &cpu, PROGRAM]);
    let phases = "[[phase]]\nname = \"steady\"\nlasts = \"4s\"\n";
    let scenario = scenario("range", "", phases).replace("timeout = \"1s\"", "timeout = \"1min\"");
    // The busy processes inherit the niceness of the tests. If it is near the 19 of muster-load,
    // they make it only a little late, so the permitted lateness is small.
    let options = ["--keep-up", "20ms", "--threshold", "heartbeat.p50 < 1us"];
    let mut run = Running::start_by(program, &fake, &directory, &scenario, &options);
    run.wait_for("6 stable");
    let busy = Busy::on(&cpu, 3);
    let (status, summary) = run.end();
    drop(busy);
    assert_eq!(status, Some(3), "{summary}");
    assert!(summary.contains("this machine could not keep up: its timers were late by"));
    let heartbeats = summary.lines().find(|line| line.trim_start().starts_with("heartbeat "));
    assert!(heartbeats.is_some_and(|line| line.contains('~')), "{summary}");
}
