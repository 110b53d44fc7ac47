//! `muster doctor` on machines that are broken on purpose: with limits, a filter of system calls, a
//! file system without O_DIRECT, a noexec file system, or little locked memory. It is also run on
//! this machine as it is. Cases that need root are skipped without it.

use crate::support::driver::{EPERM, refuse_io_uring};
use crate::support::{Server, binary, free_ports};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The command that runs the doctor for a data directory. `wrapper` is a command that runs it.
fn doctor(wrapper: &[&str], data: &Path, more: &[&str]) -> Command {
    let doctor = binary();
    let mut words = wrapper.iter().copied();
    let mut command = match words.next() {
        Some(first) => Command::new(first),
        None => binary(),
    };
    command.args(words);
    if !wrapper.is_empty() {
        command.arg(doctor.get_program());
    }
    let port = free_ports(4);
    command.args(["doctor", "--profile", "container", "--form", "json", "--data"]).arg(data);
    command.args(["--listen", &format!("127.0.0.1:{port}")]).args(more);
    command
}

/// The state and the value of a rule in the output.
fn says(output: &Output, rule: &str) -> (String, String) {
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let rules = answer["rules"].as_array().unwrap();
    let found = rules.iter().find(|it| it["name"] == rule).unwrap();
    let of = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (of("state"), of("value"))
}

fn finding(output: &Output, rule: &str) -> String {
    let (state, value) = says(output, rule);
    assert_eq!(state, "finding", "{rule} = {value}");
    assert_eq!(output.status.code(), Some(1));
    value
}

/// Runs a command as root, but without root's privilege to exceed the limit of locked memory.
const WITHOUT_LOCK: [&str; 3] = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-all"];

#[test]
fn few_descriptors_are_found() {
    let data = tempfile::tempdir().unwrap();
    let output = doctor(&["prlimit", "--nofile=1000"], data.path(), &["--shards", "4"]).output();
    assert_eq!(finding(&output.unwrap(), "limit.nofile"), "1000");
}

#[test]
fn little_locked_memory_is_found() {
    let data = tempfile::tempdir().unwrap();
    let limited = |bytes: &'static str| [&["prlimit", bytes], &WITHOUT_LOCK[..]].concat();
    let shards = ["--shards", "4"];
    let output = doctor(&limited("--memlock=65536"), data.path(), &shards).output().unwrap();
    assert_eq!(finding(&output, "limit.memlock"), "64");
    assert_eq!(finding(&output, "limit.memlock_full"), "64");
    let output = doctor(&limited("--memlock=1048576"), data.path(), &shards).output().unwrap();
    assert_eq!(says(&output, "limit.memlock"), ("fine".to_owned(), "1024".to_owned()));
    assert_eq!(finding(&output, "limit.memlock_full"), "1024");
}

#[test]
fn a_filter_of_system_calls_is_found() {
    let confined = || {
        refuse_io_uring(EPERM);
        let data = tempfile::tempdir().unwrap();
        doctor(&[], data.path(), &["--shards", "1"]).output().unwrap()
    };
    let output = std::thread::spawn(confined).join().unwrap();
    assert!(finding(&output, "kernel.io_uring").contains("seccomp"));
    assert_eq!(finding(&output, "kernel.seccomp"), "2");
}

/// Runs the doctor in its own mount namespace, with a file system mounted on the data directory.
/// `None` if the machine does not permit that: the test is skipped then.
fn mounted(kind: &str, options: &str) -> Option<Output> {
    let data = tempfile::tempdir().unwrap();
    let script = format!("mount -t {kind} -o {options} none \"$0\" || exit 99; exec \"$@\"");
    let place = data.path().to_str().unwrap().to_owned();
    let wrapper = ["unshare", "--mount", "sh", "-c", &script, &place];
    let output = doctor(&wrapper, data.path(), &["--shards", "1"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(99) || error.starts_with("unshare:") {
        test_skips::skip(format!("mounting {kind} needs root and a mount namespace: {error}"));
        return None;
    }
    Some(output)
}

#[test]
fn a_file_system_without_direct_writes_that_is_in_memory_is_found() {
    let Some(output) = mounted("ramfs", "rw") else { return };
    assert_eq!(finding(&output, "disk.o_direct"), "no");
    assert_eq!(finding(&output, "disk.filesystem"), "ramfs");
    assert_eq!(finding(&output, "disk.survives"), "no");
}

#[test]
fn a_directory_from_which_nothing_is_executed_is_fine() {
    let Some(output) = mounted("tmpfs", "noexec,size=1m") else { return };
    assert_eq!(says(&output, "disk.noexec"), ("fine".to_owned(), "yes".to_owned()));
    assert_eq!(says(&output, "data.writable").0, "fine");
}

#[test]
fn a_server_that_runs_with_the_directory_is_named_and_not_in_the_way() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), 2, &[]);
    let listen = format!("127.0.0.1:{}", server.port);
    let ask = |data: &Path, form: &str| {
        let mut command = binary();
        command.args(["doctor", "--shards", "3", "--form", form, "--data"]).arg(data);
        command.args(["--listen", &listen]).output().unwrap()
    };
    let output = ask(data.path(), "json");
    for rule in ["data.unlocked", "port.in_use"] {
        assert_eq!(says(&output, rule).0, "absent", "{rule}");
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["server"], server.pid().to_string());
    let text = String::from_utf8(ask(data.path(), "text").stdout).unwrap();
    let line = format!("muster (pid {}) runs with this directory", server.pid());
    assert!(text.contains(&line), "{text}");

    // The ports are in use, because the server of another directory runs.
    let other = tempfile::tempdir().unwrap();
    let output = ask(other.path(), "json");
    assert_eq!(says(&output, "data.unlocked").0, "fine");
    let ports = finding(&output, "port.in_use");
    let next = format!("127.0.0.1:{}", server.port + 1);
    assert!([&listen, &next].iter().all(|it| ports.contains(&format!("{it} (Addr"))), "{ports}");
    // The process that has locked the directory is not a server.
    let directory = std::fs::File::open(other.path()).unwrap();
    directory.lock().unwrap();
    assert_eq!(finding(&ask(other.path(), "json"), "data.unlocked"), "no");
}

#[test]
fn what_was_seen_here_is_judged_elsewhere_alike_and_leaves_nothing() {
    let data = tempfile::tempdir().unwrap();
    let facts = doctor(&[], data.path(), &["--facts"]).output().unwrap();
    assert!(facts.status.success());
    let file = data.path().join("facts");
    std::fs::write(&file, &facts.stdout).unwrap();
    let entries: Vec<_> = std::fs::read_dir(data.path()).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    let file = file.to_str().unwrap();
    let output = doctor(&[], data.path(), &["--facts-of", file, "--only", "kernel.io_uring"]);
    let output = { output }.output().unwrap();
    assert_eq!(says(&output, "kernel.io_uring"), ("fine".to_owned(), "works".to_owned()));
    let none = doctor(&[], data.path(), &["--only", "no.such"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}
