//! Small requests with large answers: the server's memory for the answers stays within its limits.

use crate::support::offsets::commit_request;
use crate::support::{Client, Server, frame, frame_of};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request, Response, Str};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

const MIB: usize = 1 << 20;

/// The number of partitions for which offsets are committed.
const PARTITIONS: i32 = 10_000;

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    crate::support::create_topic(&server, "t", PARTITIONS);
    (directory, server)
}

/// Commits one offset of the same group for each partition of the topic.
fn commit_all(client: &mut Client) {
    let response = client.call(9, commit_request("group", "t", 0..PARTITIONS, 1, "").into());
    let Response::OffsetCommit(body) = response else { panic!() };
    assert!(body.topics[0].partitions.iter().all(|it| it.error_code == 0));
}

/// A request for all offsets of these groups. A group may occur several times.
fn fetch_all(groups: &[&'static str]) -> Request<'static> {
    let group = |group_id: &&'static str| OffsetFetchRequestGroup {
        group_id: (*group_id).into(),
        topics: None,
        ..Default::default()
    };
    let groups = groups.iter().map(group).collect();
    OffsetFetchRequest { groups, ..Default::default() }.into()
}

#[test]
fn the_offsets_of_a_repeated_group_are_answered_once() {
    let (_directory, server) = server();
    let mut client = server.client(0);
    commit_all(&mut client);
    let before = server.peak_memory();
    let Response::OffsetFetch(body) = client.call(8, fetch_all(&["group"; 1_000])) else {
        panic!()
    };
    let [group] = &body.groups[..] else { panic!("{} groups", body.groups.len()) };
    assert_eq!((group.error_code, group.topics[0].partitions.len()), (0, PARTITIONS as usize));
    let grown = server.peak_memory() - before;
    assert!(grown < 64 * MIB, "{grown} bytes for a frame of some thousand");
}

#[test]
fn unread_answers_stay_within_their_budget() {
    let (_directory, server) = server();
    let mut client = server.client(0);
    commit_all(&mut client);
    let before = server.peak_memory();
    let request = frame(8, 1, &fetch_all(&["group"])).repeat(60);
    let mut deaf: Vec<Client> = (0..60).map(|_| server.client(0)).collect();
    deaf.iter_mut().for_each(|client| client.send_raw(&request));
    server.says("bytes of answers, while unread answers exceed the 67108864");
    client.call(9, commit_request("group", "t", 0..10, 1, "").into());
    let grown = server.peak_memory() - before;
    assert!(grown < 120 * MIB, "{grown} bytes");
    drop(deaf);
    let Response::OffsetFetch(body) = client.call(8, fetch_all(&["group"])) else { panic!() };
    assert_eq!(
        body.groups[0].topics[0].partitions.len(),
        PARTITIONS as usize,
        "within the budget again"
    );
}

fn join_frame(client_id: &str) -> Vec<u8> {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    let request = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 60_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "other".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    frame_of(client_id, 3, 1, &request.into())
}

#[test]
fn a_group_of_members_with_long_ids_is_described_once() {
    let (_directory, server) = server();
    let long = "c".repeat(32_000);
    let joining = join_frame(&long);
    let mut members: Vec<Client> = (0..150).map(|_| server.client(0)).collect();
    members.iter_mut().for_each(|member| member.send_raw(&joining));
    let mut client = server.client(0);
    let before = server.peak_memory();
    let groups = vec![Str::Borrowed("g"); 500];
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    let Response::DescribeGroups(body) = client.call(5, request.into()) else { panic!() };
    assert_eq!(body.groups.len(), 1);
    assert_eq!(body.groups[0].error_code, 0);
    let grown = server.peak_memory() - before;
    assert!(grown < 100 * MIB, "{grown} bytes for a frame of some thousand");
}

#[test]
fn configs_are_described_within_the_budget_of_an_answer() {
    let (_directory, server) = server();
    let mut client = server.client(0);
    let resource = |number: usize| DescribeConfigsResource {
        resource_type: 32,
        resource_name: format!("g{number}").into(),
        configuration_keys: None,
    };
    let resources = (0..100_000).map(resource).collect();
    let request = DescribeConfigsRequest { resources, ..Default::default() };
    let Response::DescribeConfigs(body) = client.call(4, request.into()) else { panic!() };
    let is_described = |result: &&DescribeConfigsResult<'_>| result.error_code == 0;
    let described = body.results.iter().filter(is_described).count();
    assert_eq!(body.results.len(), 100_000, "each has an answer or an error");
    assert!(described > 10_000 && described < 100_000, "{described}");
    assert!(body.results.iter().all(|it| is_described(&it) || it.error_code == -1));
    let peak = server.peak_memory();
    assert!(peak < 400 * MIB, "{peak} bytes");
}

#[test]
fn a_request_that_is_too_long_for_its_api_closes_the_connection() {
    let (_directory, server) = server();
    let mut client = server.client(0);
    let coordinator_keys = vec![Str::Borrowed("k"); 5_000_000];
    let request = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    client.send_raw(&frame(4, 1, &request.into())[..100]);
    assert!(client.is_closed());
    server.says("is too long for FindCoordinator: it may have 4194304");
    let keys = (0..100_000).map(|key| Str::Owned(format!("k{key}"))).collect();
    let request = FindCoordinatorRequest { coordinator_keys: keys, ..Default::default() };
    let response = server.client(0).call(4, request.into());
    let Response::FindCoordinator(body) = response else { panic!() };
    assert_eq!(body.coordinators.len(), 100_000);
}

/// The beginning of a Produce whose length field says 3.9 MB.
fn unfinished() -> Vec<u8> {
    let mut part = 3_900_000_u32.to_be_bytes().to_vec();
    part.resize(3_800_000, 0);
    part
}

#[test]
fn unfinished_frames_stay_within_their_budget() {
    let directory = tempfile::tempdir().unwrap();
    let sizes = [
        "socket.request.max.bytes=4000000",
        "queued.max.request.bytes=8000000",
        "message.max.bytes=4000000",
    ];
    let server = Server::start(directory.path(), 1, &sizes);
    crate::support::create_topic(&server, "t", 1_000);
    let before = server.peak_memory();
    let part = unfinished();
    let senders: Vec<TcpStream> = (0..12)
        .map(|_| {
            let stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            let _ = (&stream).write_all(&part);
            stream
        })
        .collect();
    let mut client = server.client(0);
    let request = || commit_request("g", "t", 0..1_000, 1, "");
    let Response::OffsetCommit(body) = client.call(9, request().into()) else { panic!() };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
    server.says("and no more, while waiting requests take all of");
    let Response::OffsetCommit(body) = client.call(9, request().into()) else { panic!() };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
    let grown = server.peak_memory() - before;
    assert!(grown < 32 * MIB, "{grown} bytes for 12 times 3.8 MB");
    drop(senders);
    let large = vec![7; 3_000_000];
    assert_eq!(
        crate::support::produce(&mut server.client(0), "t", &large),
        Some(0),
        "within the budget again"
    );
}

#[test]
fn a_commit_too_large_for_the_log_is_refused_at_once_and_leaves_no_group() {
    let (_directory, server) = server();
    let mut client = server.client(0);
    let request = commit_request("large", "t", 0..2_500, 1, &"m".repeat(4_000));
    let response = client.call(9, request.into());
    let Response::OffsetCommit(body) = response else { panic!() };
    let errors = body.topics[0].partitions.iter().map(|partition| partition.error_code);
    assert!(errors.into_iter().all(|code| code == ErrorCode::UnknownServerError.code()));
    let listed = client.call(4, ListGroupsRequest::default().into());
    let Response::ListGroups(body) = listed else { panic!() };
    assert_eq!(body.groups, [], "there is no group without a record");
}
