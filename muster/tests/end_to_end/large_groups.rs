//! Groups of thousands of members over real connections. They join, and continue after kill -9. An
//! assignment that is too large for a record gets an error.

use crate::support::{Client, Server};
use muster_codec::messages::*;
use muster_codec::{Bytes, ErrorCode, Response};
use std::time::Instant;

const GROUP: &str = "large";
/// The number of members that share a connection. It is below the limit of requests in flight on a
/// connection.
const MEMBERS_PER_CONNECTION: usize = 500;

/// A member, and the connection that it shares with others.
struct Member {
    connection: usize,
    id: String,
}

struct Crowd {
    connections: Vec<Client>,
    members: Vec<Member>,
    generation: i32,
    leader: String,
}

impl Crowd {
    fn new(server: &Server, size: usize) -> Self {
        let connection = |i| i / MEMBERS_PER_CONNECTION;
        Self {
            connections: (0..=connection(size - 1)).map(|_| server.coordinator(GROUP)).collect(),
            members: (0..size)
                .map(|i| Member { connection: connection(i), id: String::new() })
                .collect(),
            generation: -1,
            leader: String::new(),
        }
    }

    /// Sends a request for each member, and then passes the answers on.
    fn all<'a>(
        &mut self,
        version: i16,
        request: impl Fn(&Self, &Member) -> muster_codec::Request<'a>,
        mut answer: impl FnMut(&mut Self, usize, Response<'static>),
    ) {
        let api = request(self, &self.members[0]).api_key();
        let mut sent = Vec::new();
        for index in 0..self.members.len() {
            let (connection, request) =
                (self.members[index].connection, request(self, &self.members[index]));
            sent.push((connection, self.connections[connection].send(version, &request).unwrap()));
        }
        for (index, (connection, id)) in sent.into_iter().enumerate() {
            let response = self.connections[connection].receive(api, version, id).unwrap();
            answer(self, index, response);
        }
    }

    fn join(&mut self, metadata: &[u8]) {
        self.all(
            3,
            |_, member| join(member, metadata).into(),
            |crowd, index, response| {
                let Response::JoinGroup(body) = response else { panic!("{response:?}") };
                assert_eq!(body.error_code, 0);
                crowd.members[index].id = body.member_id.to_string();
                crowd.generation = body.generation_id;
                crowd.leader = body.leader.to_string();
                let is_leader = body.leader == body.member_id;
                assert_eq!(body.members.len(), if is_leader { crowd.members.len() } else { 0 });
            },
        );
    }

    /// Sends a SyncGroup for each member. Returns the error codes.
    fn sync(&mut self, assignment: &[u8]) -> Vec<i16> {
        let mut errors = Vec::new();
        self.all(
            1,
            |crowd, member| crowd.sync_of(member, assignment).into(),
            |_, _, response| {
                let Response::SyncGroup(body) = response else { panic!("{response:?}") };
                assert!(body.error_code != 0 || *body.assignment == *assignment);
                errors.push(body.error_code);
            },
        );
        errors
    }

    fn sync_of<'a>(&self, member: &Member, assignment: &'a [u8]) -> SyncGroupRequest<'a> {
        let of = |member: &Member| SyncGroupRequestAssignment {
            member_id: member.id.clone().into(),
            assignment: Bytes::borrowed(assignment),
        };
        let is_leader = member.id == self.leader;
        SyncGroupRequest {
            group_id: GROUP.into(),
            generation_id: self.generation,
            member_id: member.id.clone().into(),
            assignments: if is_leader { self.members.iter().map(of).collect() } else { Vec::new() },
            ..Default::default()
        }
    }

    /// The error codes of a heartbeat for each member.
    fn heartbeats(&mut self) -> Vec<i16> {
        let mut errors = Vec::new();
        self.all(
            3,
            |crowd, member| heartbeat(crowd.generation, member).into(),
            |_, _, response| {
                let Response::Heartbeat(body) = response else { panic!("{response:?}") };
                errors.push(body.error_code);
            },
        );
        errors
    }
}

fn join<'a>(member: &Member, metadata: &'a [u8]) -> JoinGroupRequest<'a> {
    let protocol =
        JoinGroupRequestProtocol { name: "range".into(), metadata: Bytes::borrowed(metadata) };
    JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 20_000,
        member_id: member.id.clone().into(),
        protocol_type: "test".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
}

fn heartbeat(generation: i32, member: &Member) -> HeartbeatRequest<'static> {
    HeartbeatRequest {
        group_id: GROUP.into(),
        generation_id: generation,
        member_id: member.id.clone().into(),
        ..Default::default()
    }
}

fn start(directory: &tempfile::TempDir) -> Server {
    Server::start(directory.path(), 1, &["group.initial.rebalance.delay.ms=500"])
}

#[test]
fn ten_thousand_members_join_and_continue_after_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = start(&directory);
    let mut crowd = Crowd::new(&server, 10_000);
    let started = Instant::now();
    crowd.join(&[7; 300]);
    println!("joined after {:?}", started.elapsed());
    let started = Instant::now();
    assert!(crowd.sync(&[8; 200]).iter().all(|error| *error == 0));
    println!("synced after {:?}", started.elapsed());
    let started = Instant::now();
    assert!(crowd.heartbeats().iter().all(|error| *error == 0));
    println!("heartbeats after {:?}", started.elapsed());

    server.kill();
    let server = server.restart();
    crowd.connections.iter_mut().for_each(|client| *client = server.coordinator(GROUP));
    assert!(crowd.heartbeats().iter().all(|error| *error == 0), "no member has to join again");
    assert!(crowd.sync(&[8; 200]).iter().all(|error| *error == 0), "with the same assignments");
}

#[test]
fn an_assignment_too_large_to_be_recorded_is_refused_and_the_next_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&directory);
    let mut crowd = Crowd::new(&server, 40);
    crowd.join(b"metadata");
    let refused = crowd.sync(&vec![8; 300_000]);
    // The leader's assignment is refused, which begins another rebalance. Members whose SyncGroup
    // arrives later get the error of this rebalance.
    let expected = [ErrorCode::UnknownServerError.code(), ErrorCode::RebalanceInProgress.code()];
    assert!(refused.iter().all(|error| expected.contains(error)), "{refused:?}");
    assert!(refused.contains(&expected[0]));
    let rebalance = ErrorCode::RebalanceInProgress.code();
    assert!(crowd.heartbeats().iter().all(|error| *error == rebalance), "all have to join again");
    let generation = crowd.generation;
    crowd.join(b"metadata");
    assert_eq!(crowd.generation, generation + 1);
    assert!(crowd.sync(&[8; 100]).iter().all(|error| *error == 0));
    assert!(crowd.heartbeats().iter().all(|error| *error == 0));
}
