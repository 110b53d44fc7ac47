//! Back-pressure. A client may send faster than the disk can write, or request more than it reads.
//! The server then stops reading its requests. The memory for this client is limited, none of its
//! requests is lost, and other clients are not affected.

use crate::support::liveness::assert_alive_in_each_kind;
use crate::support::offsets::commit_request;
use crate::support::{Client, Server, create_topic, produce};
use muster_codec::messages::*;
use muster_codec::{ApiKey, Request, Response};
use std::thread;

/// The number of clients. Even one of them sends more than the log accepts at once.
const CLIENTS: usize = 16;
const COMMITS: usize = 60;
const PARTITIONS: usize = 50;

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    create_topic(&server, "t", 1);
    (directory, server)
}

fn large_commit(group: usize) -> Request<'static> {
    let partitions = std::iter::repeat_n(0, PARTITIONS);
    commit_request(&format!("group-{group}"), "t", partitions, 1, &"m".repeat(4_000)).into()
}

#[test]
pub fn clients_that_fill_the_log_are_answered_when_it_accepts_again() {
    let (_directory, server) = server();
    let pipelines: Vec<_> = (0..CLIENTS)
        .map(|group| {
            let mut client = server.client(0);
            thread::spawn(move || pipelined_commits(&mut client, group))
        })
        .collect();
    for pipeline in pipelines {
        assert_eq!(pipeline.join().unwrap(), COMMITS, "every commit is answered");
    }
    assert_alive_in_each_kind(&server);
}

/// Sends commits without waiting for answers. Returns the number of answers.
fn pipelined_commits(client: &mut Client, group: usize) -> usize {
    let commit = large_commit(group);
    let ids: Vec<_> = (0..COMMITS).map_while(|_| client.send(8, &commit)).collect();
    ids.iter().map_while(|id| client.receive(ApiKey::OffsetCommit, 8, *id)).count()
}

const RECORD_BYTES: usize = 900_000;
const FETCHES: usize = 400;

/// After this number of turns (passes of its loop) the shard has certainly read all fetches. Each
/// request of another client takes one turn, as it is sent after the answer to the one before.
const TURNS: usize = 2 * FETCHES;

fn produce_large(client: &mut Client) {
    produce(client, "t", &vec![7; RECORD_BYTES]).unwrap();
}

fn fetch() -> Request<'static> {
    let partition = FetchPartition { partition_max_bytes: i32::MAX, ..Default::default() };
    let topic = FetchTopic { topic: "t".into(), partitions: vec![partition], ..Default::default() };
    FetchRequest { max_bytes: i32::MAX, topics: vec![topic], ..Default::default() }.into()
}

#[test]
fn unread_fetches_take_the_memory_of_a_few() {
    let (_directory, server) = server();
    let mut bystander = server.client(0);
    produce_large(&mut bystander);
    let before = resident_bytes(&server);
    let mut deaf = server.client(0);
    let pipelined: Vec<u8> =
        (0..FETCHES as i32).flat_map(|id| crate::support::frame(4, id, &fetch())).collect();
    deaf.send_raw(&pipelined);
    deaf.stream().peek(&mut [0]).expect("the first bytes of the first answer");
    let mut most = 0;
    for _ in 0..20 {
        (0..TURNS / 20).for_each(|_| is_served(&mut bystander));
        most = most.max(resident_bytes(&server));
    }
    let grown = most.saturating_sub(before);
    assert!(grown < FETCHES * RECORD_BYTES / 5, "{grown} bytes for a client that does not read");
    assert_alive_in_each_kind(&server);
}

fn is_served(client: &mut Client) {
    client.call(3, Request::ApiVersions(ApiVersionsRequest::default()));
}

#[test]
pub fn pipelined_fetches_are_answered_in_order() {
    let (_directory, server) = server();
    let mut client = server.client(0);
    produce_large(&mut client);
    let ids: Vec<_> = (0..20).map(|_| client.send(4, &fetch()).unwrap()).collect();
    for id in ids {
        let response = client.receive(ApiKey::Fetch, 4, id).unwrap();
        let Response::Fetch(body) = response else { panic!("{response:?}") };
        let records = body.responses[0].partitions[0].records.as_ref().unwrap();
        assert!(records.len() > RECORD_BYTES);
    }
}

#[test]
pub fn a_stop_does_not_wait_for_clients_that_do_not_read() {
    let (_directory, mut server) = server();
    produce_large(&mut server.client(0));
    let mut deaf: Vec<Client> = (0..3).map(|_| server.client(0)).collect();
    let pipelined: Vec<u8> =
        (0..20).flat_map(|id| crate::support::frame(4, id, &fetch())).collect();
    deaf.iter_mut().for_each(|client| client.send_raw(&pipelined));
    is_served(&mut server.client(0));
    assert!(server.stop().success());
}

fn resident_bytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}
