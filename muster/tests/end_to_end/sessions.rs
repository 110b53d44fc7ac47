//! Heartbeats may wait in a socket, because the server is stopped or busy and does not read them.
//! Their members must keep their sessions.

use crate::support::Server;
use crate::support::offsets::commit_request;
use crate::support::sessions::{MEMBERS, SESSION_CONFIGS, SESSION_MS, join_all};
use muster_codec::messages::ListGroupsRequest;
use std::process::Command;
use std::time::{Duration, Instant};

/// The number of groups.
const GROUPS: usize = 5_000;
/// The number of ListGroups requests that a client sends at once. Each has to look at all groups.
const LISTINGS: usize = 900;

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
pub fn members_survive_a_server_stopped_for_longer_than_their_sessions() {
    let (_directory, server) = server();
    let mut members = join_all(&server, "stopped");
    signal(&server, "-STOP");
    let asked: Vec<_> = members.iter_mut().take(MEMBERS / 2).map(|it| it.ask()).collect();
    std::thread::sleep(Duration::from_millis(SESSION_MS + SESSION_MS / 2));
    signal(&server, "-CONT");
    // The other members send their heartbeats only now. Their sessions must not have expired: the
    // time for which the server was stopped does not count.
    std::thread::sleep(Duration::from_millis(SESSION_MS / 4));
    let (first, others) = members.split_at_mut(MEMBERS / 2);
    let asked_later: Vec<_> = others.iter_mut().map(|it| it.ask()).collect();
    for (member, id) in first.iter_mut().zip(asked) {
        assert!(member.is_answered(id), "it was in the socket");
    }
    for (member, id) in others.iter_mut().zip(asked_later) {
        assert!(member.is_answered(id), "its heartbeat could not be read");
    }
}

#[test]
fn members_survive_a_client_that_lists_all_groups_repeatedly() {
    let (_directory, server) = server();
    let mut hostile = server.client(0);
    for group in 0..GROUPS {
        let request = commit_request(&format!("group-{group}"), "t", [0], 1, "");
        hostile.send(8, &request.into()).unwrap();
    }
    (0..GROUPS).for_each(|_| drop(hostile.receive_frame().unwrap()));
    let mut members = join_all(&server, "quiet");
    let request = ListGroupsRequest { states_filter: vec!["none".into()], ..Default::default() };
    for _ in 0..LISTINGS {
        hostile.send(4, &request.clone().into()).unwrap();
    }
    let until = Instant::now() + Duration::from_millis(3 * SESSION_MS);
    while Instant::now() < until {
        let asked: Vec<_> = members.iter_mut().map(|it| it.ask()).collect();
        for (member, id) in members.iter_mut().zip(asked) {
            assert!(member.is_answered(id));
        }
        std::thread::sleep(Duration::from_millis(SESSION_MS / 10));
    }
}
