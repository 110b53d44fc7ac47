//! Real clients beside the members. A script acts as the client.

use std::process::Command;

use loadgen::report::model::{Client, Report};
use tempfile::TempDir;

use crate::fake::{Config, Fake};
use crate::run::{Outcome, play, play_with, scenario};
use crate::running::Running;

/// A consumer that owns no partitions and ends when it is asked to. Its first line of output
/// contains every placeholder, replaced by its value.
const WELL_BEHAVED: &str = r#"
trap 'echo "{\"event\":\"revoked\",\"partitions\":[]}"; exit 0' TERM
echo "{name} of {group} at {bootstrap} reads {topics} for {session-timeout-ms} ms"
echo '{"event":"assigned","partitions":[]}'
while read line; do :; done
"#;

fn with_client(script: &str, phases: &str) -> String {
    let client = format!(
        "[[client]]\nname = \"script\"\ngroup = \"g\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n"
    );
    scenario("range", "", &format!("{client}\n{phases}"))
}

const START: &str = "[[phase]]\nname = \"client\"\nstart-clients = {}\nuntil = \"stable\"\n\
                     settle = \"500ms\"\nlimit = \"20s\"\n";

fn client(outcome: &Outcome) -> Client {
    let report: &Report = outcome.report.as_ref().unwrap_or_else(|| panic!("{outcome}"));
    assert_eq!(report.clients.len(), 1, "{outcome}");
    report.clients[0].clone()
}

#[test]
fn a_client_is_started_watched_and_asked_to_end() {
    let outcome = play(Config::default(), &with_client(WELL_BEHAVED, START));
    assert_eq!(outcome.status, Some(0), "{outcome}");
    let client = client(&outcome);
    let callbacks: Vec<_> = client.callbacks.iter().map(|one| one.event.as_str()).collect();
    assert_eq!(callbacks, ["assigned", "revoked"], "{outcome}");
    assert_eq!(client.how.as_deref(), Some("exit status 0"), "{outcome}");
    assert!(outcome.output.contains("script of g: 2 callbacks"), "{outcome}");
    assert!(outcome.left.is_empty(), "{:?} are left: {outcome}", outcome.left);
}

#[test]
fn a_client_that_is_killed_in_a_phase_and_started_again_is_no_problem() {
    let kill = "[[phase]]\nname = \"kill\"\nstop-clients = { kill = true }\n";
    let again = "[[phase]]\nname = \"again\"\nstart-clients = { clients = \"script\" }\n";
    let outcome =
        play(Config::default(), &with_client(WELL_BEHAVED, &[START, kill, again].concat()));
    assert_eq!(outcome.status, Some(0), "{outcome}");
    assert_eq!(client(&outcome).callbacks_count, 3, "{outcome}");
}

#[test]
fn a_client_that_ends_by_itself_is_the_problem_of_its_phase() {
    let outcome = play(Config::default(), &with_client("echo no module >&2; exit 4", START));
    assert_eq!(outcome.status, Some(1), "{outcome}");
    let problem = outcome.report.as_ref().unwrap().phases[1].problem.clone();
    let expected = "client script ended by itself: exit status 4: no module";
    assert_eq!(problem.as_deref(), Some(expected), "{outcome}");
}

/// The client claims partitions that the members of the run still own.
#[test]
fn a_client_that_owns_a_partition_of_a_member_proves_two_owners() {
    let script = r#"
echo '{"event":"assigned","partitions":[["{topics}",0]]}'
while read line; do :; done"#;
    let phase = "[[phase]]\nname = \"client\"\nstart-clients = {}\nlasts = \"11s\"\n";
    let with_client = with_client(script, phase).replace("\"1s\"", "\"30s\"");
    let outcome = play_with(Config::default(), &with_client.replace("\"10s\"", "\"30s\""), &[]);
    assert_eq!(outcome.status, Some(1), "{outcome}");
    assert_eq!(Vec::from_iter(outcome.rules()), ["two-owners"], "{outcome}");
    assert!(outcome.output.contains("client script"), "{outcome}");
}

/// After Ctrl-C twice no process of a client is left.
#[test]
fn clients_end_with_a_run_that_ends_at_once() {
    let (fake, directory) = (Fake::start(Config::default()), TempDir::new().unwrap());
    let pid = directory.path().join("pid");
    let script = format!(
        "trap '' TERM INT\necho $$ > {}\necho '{{\"event\":\"assigned\",\"partitions\":[]}}'\n\
         while :; do read line; done",
        pid.display()
    );
    let steady = "[[phase]]\nname = \"steady\"\nlasts = \"60s\"\n";
    let scenario = with_client(&script, &[START, steady].concat());
    let mut run = Running::start(&fake, &directory, &scenario, &[]);
    run.wait_for("steady");
    run.interrupt();
    run.wait_for("Ctrl-C again ends at once");
    run.interrupt();
    let (_, summary) = run.end();
    assert!(summary.contains("script of g"), "{summary}");
    let pid = std::fs::read_to_string(pid).unwrap();
    let alive = Command::new("kill").args(["-0", pid.trim()]).output().unwrap().status;
    assert!(!alive.success(), "process {pid} is left");
}

#[test]
fn clients_that_cannot_run_are_refused_before_the_run() {
    let never = with_client(WELL_BEHAVED, "");
    let of_none = with_client(WELL_BEHAVED, START).replace("group = \"g\"", "group = \"h\"");
    let many = with_client(WELL_BEHAVED, START).replace("[[client]]", "[[client]]\ncount = 101");
    let cases = [
        (never, "client script: no phase starts it (start-clients)"),
        (of_none, "client script: there is no group h, only g"),
        (many, "101 clients in total are more than 100"),
    ];
    for (scenario, sentence) in cases {
        play(Config::default(), &scenario).assert_refused(&[sentence]);
    }
}
