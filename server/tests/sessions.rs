//! Members whose server could not hear them keep their sessions: it was stopped, or had much to do.

#![allow(clippy::unwrap_used)]

mod support;

use std::process::Command;
use std::time::Duration;
use support::Server;
use support::sessions::{MEMBERS, SESSION_CONFIGS, SESSION_MS, join_all};

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &SESSION_CONFIGS);
    (directory, server)
}

fn signal(server: &Server, name: &str) {
    let kill = Command::new("kill").args([name, &server.pid().to_string()]).status().unwrap();
    assert!(kill.success());
}

#[test]
fn members_outlive_a_server_that_was_stopped_for_longer_than_their_sessions() {
    let (_directory, server) = server();
    let mut members = join_all(&server, "stopped");
    signal(&server, "-STOP");
    let asked: Vec<_> = members.iter_mut().take(MEMBERS / 2).map(|it| it.ask()).collect();
    std::thread::sleep(Duration::from_millis(SESSION_MS + SESSION_MS / 2));
    signal(&server, "-CONT");
    // The others are heard a while later: the time of the stop is not theirs.
    std::thread::sleep(Duration::from_millis(SESSION_MS / 4));
    let (first, others) = members.split_at_mut(MEMBERS / 2);
    for (member, id) in first.iter_mut().zip(asked) {
        assert!(member.is_answered(id), "it was in the socket");
    }
    for member in others {
        let id = member.ask();
        assert!(member.is_answered(id), "it had no chance to be heard");
    }
}
