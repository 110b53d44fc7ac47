//! Hostile input: the connection that sent it is closed with a reason, or gets a protocol error.
//! Other connections are not affected.

use crate::support::liveness::assert_alive_in_each_kind;
use crate::support::offsets::commit_request;
use crate::support::{Client, Server, create_topic, frame, free_ports};
use muster_codec::messages::*;
use muster_codec::{ApiKey, ErrorCode, Request, Response};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

fn server(configs: &[&str]) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, configs);
    (directory, server)
}

/// A client that was connected before, and must still be served.
struct Bystander(Client);

impl Bystander {
    fn of(server: &Server) -> Self {
        let mut bystander = Self(server.client(0));
        bystander.is_served();
        bystander
    }

    fn is_served(&mut self) {
        let response = self.0.call(4, heartbeat("no-member").into());
        let Response::Heartbeat(body) = response else { panic!("{response:?}") };
        assert_eq!(body.error_code, ErrorCode::UnknownMemberId.code());
    }
}

fn heartbeat(group: &str) -> HeartbeatRequest<'static> {
    HeartbeatRequest {
        group_id: group.to_owned().into(),
        generation_id: 1,
        member_id: "no-member".into(),
        ..Default::default()
    }
}

fn commit(group: &str, metadata: &str) -> Request<'static> {
    commit_request(group, "t", [0], 1, metadata).into()
}

#[test]
fn malformed_requests_close_the_connection() {
    let (_directory, server) = server(&["socket.request.max.bytes=1000000"]);
    let mut bystander = Bystander::of(&server);
    let claims_more = frame(12, 1, &MetadataRequest::default().into());
    let mut claims_more = claims_more[..claims_more.len() - 5].to_vec();
    claims_more.extend([0xff, 0xff, 0xff, 0xff, 0x07]);
    let cases: [(&str, Vec<u8>); 8] = [
        ("random bytes", (0..64).map(|i: u8| i.wrapping_mul(151).wrapping_add(91)).collect()),
        ("a negative length", vec![0xff; 8]),
        ("a length of zero", vec![0; 8]),
        ("a frame over socket.request.max.bytes", vec![0x00, 0x10, 0, 0, 0, 0]),
        ("an unknown API", vec![0, 0, 0, 10, 0, 200, 0, 0, 0, 0, 0, 1, 0xff, 0xff]),
        ("a version that is not served", vec![0, 0, 0, 10, 0, 8, 0, 1, 0, 0, 0, 1, 0xff, 0xff]),
        ("an array of two billion", claims_more),
        ("text", b"GET / HTTP/1.1\r\nHost: muster\r\n\r\n".to_vec()),
    ];
    for (case, bytes) in cases {
        let mut client = server.client(0);
        client.send_raw(&bytes);
        assert!(client.is_closed(), "{case}");
        bystander.is_served();
    }
    assert_alive_in_each_kind(&server);
}

#[test]
fn answers_before_the_garbage_still_arrive() {
    let (_directory, server) = server(&[]);
    let mut client = server.client(0);
    let mut bytes = frame(4, 7, &heartbeat("g").into());
    bytes.extend([0xff; 8]);
    client.send_raw(&bytes);
    let answer = client.receive_frame().expect("the answer to the first request");
    assert_eq!(answer[..4], [0, 0, 0, 7]);
    assert!(client.is_closed());
}

#[test]
fn an_unsupported_version_of_api_versions_is_answered_in_version_zero() {
    let (_directory, server) = server(&[]);
    let mut client = server.client(0);
    client.send_raw(&[0, 0, 0, 10, 0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff]);
    let answer = client.receive_frame().unwrap();
    let expected = [0, 0, 0, 5, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5];
    assert_eq!(answer, expected, "v0, UNSUPPORTED_VERSION, and the versions of ApiVersions");
    let response = client.call(3, Request::ApiVersions(software("test")));
    let Response::ApiVersions(body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, 0, "the connection continues");
}

fn software(name: &str) -> ApiVersionsRequest<'static> {
    ApiVersionsRequest {
        client_software_name: name.to_owned().into(),
        client_software_version: "1".into(),
        ..Default::default()
    }
}

#[test]
pub fn half_a_frame_and_silence_is_closed_when_idle() {
    let (_directory, server) = server(&["connections.max.idle.ms=300"]);
    let mut client = server.client(0);
    client.send_raw(&[0, 0, 1, 0, 0, 12]);
    assert!(client.is_closed(), "idle for longer than connections.max.idle.ms");
}

/// Kafka closes idle connections even while they wait for an answer. muster closes one that waits
/// for records, but keeps that of a member that waits for its group.
#[test]
fn a_parked_fetch_does_not_keep_an_idle_connection() {
    let delay = "group.initial.rebalance.delay.ms=2000";
    let (_directory, server) = server(&["connections.max.idle.ms=300", delay]);
    create_topic(&server, "t", 1);
    let topics = vec![FetchTopic {
        topic: "t".into(),
        partitions: vec![FetchPartition { partition_max_bytes: 1_000, ..Default::default() }],
        ..Default::default()
    }];
    let fetch = FetchRequest {
        max_wait_ms: 300_000,
        min_bytes: 1,
        max_bytes: 1_000,
        topics,
        ..Default::default()
    };
    let mut fetching = server.client(0);
    fetching.send(4, &fetch.into()).unwrap();
    let join = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "test".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), ..Default::default() }],
        ..Default::default()
    };
    let mut joining = server.client(0);
    let joined = joining.send(3, &join.into()).unwrap();
    server.says("idle for over connections.max.idle.ms=300");
    assert!(fetching.is_closed());
    assert!(joining.receive(ApiKey::JoinGroup, 3, joined).is_some());
}

#[test]
pub fn connections_over_the_limit_are_closed_and_counted_down_again() {
    let (_directory, server) = server(&["max.connections.per.ip=3"]);
    let mut kept: Vec<Bystander> = (0..3).map(|_| Bystander::of(&server)).collect();
    assert!(server.client(0).is_closed());
    kept.pop();
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.client(0).try_call(4, heartbeat("g").into()).is_none() {
        assert!(Instant::now() < deadline, "the place of a closed connection is free again");
    }
    kept.iter_mut().for_each(Bystander::is_served);
}

/// At its connection limit, a listener does not accept further clients. They wait until one of the
/// listener's own connections ends.
#[test]
pub fn connections_wait_for_a_place_of_their_listener() {
    let (directory, inside) = (tempfile::tempdir().unwrap(), free_ports(2));
    let outside = inside + 1;
    let listeners = format!("listeners=IN://127.0.0.1:{inside},OUT://127.0.0.1:{outside}");
    let configs = [
        &listeners,
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
        "listener.name.out.max.connections=1",
    ];
    let server = Server::with_arguments(directory.path(), inside, 1, &configs);
    let mut kept = Client::connect(outside);
    kept.call(4, heartbeat("g").into());
    let mut waiting = Client::connect(outside);
    let sent = waiting.send(4, &heartbeat("g").into()).unwrap();
    Bystander::of(&server);
    waiting.stream().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(waiting.stream().peek(&mut [0]).is_err(), "it has no place");
    waiting.stream().set_read_timeout(None).unwrap();
    drop(kept);
    assert!(waiting.receive(ApiKey::Heartbeat, 4, sent).is_some());
}

#[test]
pub fn a_client_that_never_reads_is_held_back_and_the_others_are_not() {
    let (_directory, server) = server(&[]);
    let mut bystander = Bystander::of(&server);
    let deaf = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    deaf.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let request = frame(3, 1, &Request::ApiVersions(software("deaf")));
    let many: Vec<u8> = request.iter().copied().cycle().take(request.len() * 1000).collect();
    let mut blocked = false;
    // Each answer has several hundred bytes. A server without a limit would accept all requests.
    for _ in 0..400 {
        if (&deaf).write_all(&many).is_err() {
            blocked = true;
            break;
        }
    }
    assert!(blocked, "the server stops reading from a client that does not read");
    bystander.is_served();
    deaf.shutdown(Shutdown::Both).unwrap();
    bystander.is_served();
    assert_alive_in_each_kind(&server);
}

#[test]
fn invalid_ids_and_metadata_get_the_protocols_errors() {
    let (_directory, server) = server(&[]);
    create_topic(&server, "t", 1);
    let mut client = server.client(0);
    let error = |response: Response<'_>| match response {
        Response::Heartbeat(body) => body.error_code,
        Response::JoinGroup(body) => body.error_code,
        Response::OffsetCommit(body) => body.topics[0].partitions[0].error_code,
        other => panic!("{other:?}"),
    };
    let invalid = ErrorCode::InvalidGroupId.code();
    assert_eq!(error(client.call(4, heartbeat("").into())), invalid);
    assert_eq!(error(client.call(9, JoinGroupRequest::default().into())), invalid);
    let long = "m".repeat(5_000);
    let too_large = ErrorCode::OffsetMetadataTooLarge.code();
    assert_eq!(error(client.call(9, commit("g", &long))), too_large);
    assert_eq!(error(client.call(9, commit("", ""))), 0, "an empty group may commit");
    let absent = ErrorCode::UnknownTopicOrPartition.code();
    let beyond = commit_request("g", "t", [1], 1, "");
    assert_eq!(error(client.call(9, beyond.into())), absent, "t has one partition");
    let stranger = OffsetCommitRequest {
        generation_id_or_member_epoch: 5,
        ..commit_request("no group", "no topic", [0], 1, "")
    };
    assert_eq!(error(client.call(9, stranger.into())), absent, "topics come before the group");
    let delete = |group_id: &'static str| -> Request<'static> {
        let partitions = vec![OffsetDeleteRequestPartition { partition_index: 1 }];
        let topics = vec![OffsetDeleteRequestTopic { name: "t".into(), partitions }];
        OffsetDeleteRequest { group_id: group_id.into(), topics }.into()
    };
    let deleted = |response| {
        let Response::OffsetDelete(body) = response else { panic!("{response:?}") };
        (body.error_code, body.topics.first().map(|topic| topic.partitions[0].error_code))
    };
    let group_first = (ErrorCode::GroupIdNotFound.code(), None);
    assert_eq!(deleted(client.call(0, delete("no group"))), group_first);
    assert_eq!(deleted(client.call(0, delete(""))), (invalid, None));
}

#[test]
fn ten_mebibytes_of_metadata_are_refused() {
    let (_directory, server) = server(&[]);
    let mut bystander = Bystander::of(&server);
    let mut client = server.client(0);
    let protocol =
        JoinGroupRequestProtocol { name: "range".into(), metadata: vec![7; 10 << 20].into() };
    let request = JoinGroupRequest {
        group_id: "large".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "other".into(),
        protocols: vec![protocol],
        ..Default::default()
    };
    // Kafka accepts the request, and fails later, when the group's record is too large for its log.
    let response = client.call(9, request.into());
    let Response::JoinGroup(body) = response else { panic!("{response:?}") };
    assert_eq!(body.error_code, ErrorCode::UnknownServerError.code());
    bystander.is_served();
    assert_alive_in_each_kind(&server);
}

#[test]
pub fn a_client_that_ends_its_input_still_gets_its_answers() {
    let (_directory, server) = server(&["group.initial.rebalance.delay.ms=300"]);
    create_topic(&server, "t", 1);
    let mut client = server.client(0);
    let requests = 50;
    for number in 0..requests {
        client.send(8, &commit("g", &number.to_string())).unwrap();
    }
    let joining = client.send(3, &join_group()).unwrap();
    client.stream().shutdown(Shutdown::Write).unwrap();
    for number in 0..requests {
        let answer = client.receive(ApiKey::OffsetCommit, 8, number + 1);
        let Some(Response::OffsetCommit(body)) = answer else { panic!("{answer:?}") };
        assert_eq!(body.topics[0].partitions[0].error_code, 0);
    }
    let Some(Response::JoinGroup(body)) = client.receive(ApiKey::JoinGroup, 3, joining) else {
        panic!("a parked request is answered, too")
    };
    assert_eq!(body.error_code, 0);
    assert!(client.is_closed(), "no further answers");
}

fn join_group() -> Request<'static> {
    let protocol = JoinGroupRequestProtocol { name: "range".into(), ..Default::default() };
    JoinGroupRequest {
        group_id: "joined".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol],
        ..Default::default()
    }
    .into()
}

#[test]
fn a_client_that_ends_its_input_without_requests_is_closed_at_once() {
    let (_directory, server) = server(&[]);
    for half_a_frame in [&[][..], &[0, 0, 1, 0, 0, 12]] {
        let mut client = server.client(0);
        client.send_raw(half_a_frame);
        let began = Instant::now();
        client.stream().shutdown(Shutdown::Write).unwrap();
        assert!(client.is_closed());
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "long before the limit of idle connections"
        );
    }
}

#[test]
pub fn a_client_that_ends_its_input_gets_records_and_is_closed_then() {
    let (_directory, server) = server(&[]);
    create_topic(&server, "t", 1);
    let mut client = server.client(0);
    crate::support::produce(&mut client, "t", &[7; 500_000]).unwrap();
    let partition = FetchPartition { partition_max_bytes: 1_000_000, ..Default::default() };
    let topic = FetchTopic { topic: "t".into(), partitions: vec![partition], ..Default::default() };
    let request = FetchRequest { max_bytes: 1_000_000, topics: vec![topic], ..Default::default() };
    let fetching = client.send(11, &request.into()).unwrap();
    client.stream().shutdown(Shutdown::Write).unwrap();
    let began = Instant::now();
    let Some(Response::Fetch(body)) = client.receive(ApiKey::Fetch, 11, fetching) else { panic!() };
    assert_eq!(body.responses[0].partitions[0].error_code, 0);
    assert!(client.is_closed());
    assert!(began.elapsed() < Duration::from_secs(20), "long before the patience ends");
}

/// Reads the kernel's table of connections. There a timer of kind 2 is TCP keepalive.
#[test]
fn a_silent_connection_has_tcp_keepalive() {
    let (_directory, server) = server(&[]);
    let _silent = Bystander::of(&server);
    let local = format!("0100007F:{:04X}", server.port);
    let is_asked = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
        let mut established = rows.filter(|row| row[1] == local && row[3] == "01");
        established.next().is_some_and(|row| row[5].starts_with("02:"))
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_asked() {
        assert!(Instant::now() < deadline, "no timer runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}
