//! Fetches and look-ups of offsets on a real server: how much memory their answers take, and what
//! happens to the rest of an answer if something else happens while it is sent.

use crate::support::liveness::assert_alive_in_each_kind;
use crate::support::{Client, Server, create_topic, frame, produce, produce_to_all};
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;
use muster_codec::{ApiKey, Reader, Request, Response};
use std::io::Read;
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 64;
const RECORD_BYTES: usize = 880_000;

/// A server with a topic of 64 partitions, each with a large record.
fn wide_server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    create_topic(&server, "t", PARTITIONS);
    let mut client = server.client(0);
    for partition in 0..PARTITIONS {
        let partitions = partition..partition + 1;
        produce_to_all(&mut client, "t", partitions, &value(partition)).unwrap();
    }
    (directory, server)
}

fn value(partition: i32) -> Vec<u8> {
    (0..RECORD_BYTES).map(|at| (at * 7 + partition as usize) as u8).collect()
}

/// The default fetch of Java's consumer: at most 50 MB, and 1 MB per partition.
fn fetch() -> Request<'static> {
    let partition = |partition| FetchPartition {
        partition,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let partitions = (0..PARTITIONS).map(partition).collect();
    let topic = FetchTopic { topic: "t".into(), partitions, ..Default::default() };
    FetchRequest { max_bytes: 50 << 20, topics: vec![topic], ..Default::default() }.into()
}

fn all_of_it(response: Response<'_>) -> usize {
    let Response::Fetch(body) = response else { panic!("{response:?}") };
    let mut whole = 0;
    for data in &body.responses[0].partitions {
        assert_eq!(data.error_code, 0);
        for batch in Batches::new(data.records.as_deref().unwrap()).map_while(Result::ok) {
            batch.validate().unwrap();
            let record = batch.records().unwrap().next().unwrap().unwrap();
            assert!(record.value.unwrap() == value(data.partition_index));
            whole += 1;
        }
    }
    whole
}

#[test]
fn a_hundred_unread_fetches_cost_little_and_are_answered_in_the_end() {
    let (_directory, server) = wide_server();
    let mut bystander = server.client(0);
    let before = server.peak_memory();
    let mut deaf: Vec<Client> = (0..100).map(|_| server.client(0)).collect();
    deaf.iter_mut().for_each(|client| client.send_raw(&frame(4, 1, &fetch())));
    let deadline = Instant::now() + Duration::from_secs(2);
    while Instant::now() < deadline {
        bystander.call(3, Request::ApiVersions(ApiVersionsRequest::default()));
    }
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 100 fetches of 50 MB");
    for client in deaf.iter_mut().take(3) {
        assert!(all_of_it(client.receive(ApiKey::Fetch, 4, 1).unwrap()) > 50);
    }
    assert_alive_in_each_kind(&server);
}

#[test]
fn look_ups_by_time_read_little() {
    let (_directory, server) = wide_server();
    let before = server.peak_memory();
    let asked = |partition_index| ListOffsetsPartition {
        partition_index,
        current_leader_epoch: -1,
        timestamp: 0,
    };
    let partitions = (0..PARTITIONS).map(asked).collect();
    let topic = ListOffsetsTopic { name: "t".into(), partitions };
    let request = ListOffsetsRequest { topics: vec![topic], ..Default::default() }.into();
    let mut client = server.client(0);
    let pipelined: Vec<u8> = (0..900).flat_map(|id| frame(1, id, &request)).collect();
    client.send_raw(&pipelined);
    for id in 0..900 {
        let response = client.receive(ApiKey::ListOffsets, 1, id).unwrap();
        let Response::ListOffsets(body) = response else { panic!("{response:?}") };
        assert!(body.topics[0].partitions.iter().all(|it| (it.offset, it.error_code) == (0, 0)));
    }
    let grown = server.peak_memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 900 look-ups");
    assert_alive_in_each_kind(&server);
}

fn fetch_one(partition_max_bytes: i32) -> Request<'static> {
    let partition = FetchPartition { partition_max_bytes, ..Default::default() };
    let topic = FetchTopic { topic: "t".into(), partitions: vec![partition], ..Default::default() };
    FetchRequest { max_bytes: i32::MAX, topics: vec![topic], ..Default::default() }.into()
}

fn api_versions() -> Request<'static> {
    ApiVersionsRequest::default().into()
}

#[test]
pub fn a_fetch_between_other_requests_is_answered_in_its_place_byte_by_byte() {
    let (_directory, server) = wide_server();
    let client = &mut server.client(0);
    let pipelined: Vec<u8> = (0..30)
        .flat_map(|id| match id % 3 {
            1 => frame(4, id, &fetch_one(i32::MAX)),
            _ => frame(3, id, &api_versions()),
        })
        .collect();
    client.send_raw(&pipelined);
    for id in 0..30 {
        let mut stream = client.stream();
        let mut length = [0; 4];
        length.chunks_mut(1).for_each(|byte| stream.read_exact(byte).unwrap());
        let mut body = vec![0; i32::from_be_bytes(length) as usize];
        let slow_bytes = body.len().min(100);
        let (slowly, rest) = body.split_at_mut(slow_bytes);
        slowly.chunks_mut(1).for_each(|byte| stream.read_exact(byte).unwrap());
        stream.read_exact(rest).unwrap();
        let mut reader = Reader::new(&body);
        assert_eq!(reader.i32().unwrap(), id);
        if id % 3 == 1 {
            let response = Response::read(ApiKey::Fetch, 4, &mut reader).unwrap();
            assert_eq!(all_of_it(response), 1);
        }
    }
}

fn delete_topic() -> Request<'static> {
    let topic_names = vec!["t".into()];
    DeleteTopicsRequest { topic_names, timeout_ms: 10_000, ..Default::default() }.into()
}

#[test]
pub fn an_answer_under_way_is_complete_though_its_topic_is_deleted() {
    let (directory, server) = wide_server();
    let mut slow = server.client(0);
    slow.send_raw(&frame(4, 1, &fetch()));
    let mut gone = server.client(0);
    gone.send_raw(&frame(4, 1, &fetch()));
    let mut first = [0; 1000];
    gone.stream().read_exact(&mut first).unwrap();
    let Response::DeleteTopics(body) = server.client(0).call(5, delete_topic()) else { panic!() };
    assert_eq!(body.responses[0].error_code, 0);
    let topics = directory.path().join("topics");
    assert!(std::fs::read_dir(&topics).unwrap().count() > 0, "they are being sent");
    assert!(all_of_it(slow.receive(ApiKey::Fetch, 4, 1).unwrap()) > 50);
    drop(gone);
    let deadline = Instant::now() + crate::support::PATIENCE;
    while std::fs::read_dir(&topics).unwrap().count() > 0 {
        assert!(Instant::now() < deadline, "the directories are not removed");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
pub fn a_file_that_is_too_short_ends_only_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    create_topic(&server, "t", 1);
    let mut client = server.client(0);
    for _ in 0..20 {
        produce(&mut client, "t", &value(0)).unwrap();
    }
    let topics = directory.path().join("topics");
    let partition = std::fs::read_dir(topics).unwrap().next().unwrap().unwrap().path();
    let log = partition.join("00000000000000000000.log");
    let file = std::fs::File::options().write(true).open(log).unwrap();
    file.set_len(5 * RECORD_BYTES as u64).unwrap();
    client.send_raw(&frame(4, 7, &fetch_one(i32::MAX)));
    assert!(client.receive_frame().is_none(), "the connection ends in the middle");
    server.says("could not be read: only");
    let mut client = server.client(0);
    client.call(3, api_versions());
    let id = client.send(4, &fetch_one(1_000_000)).unwrap();
    assert_eq!(
        all_of_it(client.receive(ApiKey::Fetch, 4, id).unwrap()),
        1,
        "the record of the file"
    );
    assert_alive_in_each_kind(&server);
}

#[test]
fn an_interrupted_answer_releases_its_files() {
    let (directory, server) = wide_server();
    for _ in 0..20 {
        let mut client = server.client(0);
        client.send_raw(&frame(4, 1, &fetch()));
        client.send_raw(&frame(4, 2, &fetch()));
        let mut some = [0; 100_000];
        client.stream().read_exact(&mut some).unwrap();
    }
    let mut client = server.client(0);
    let Response::DeleteTopics(_) = client.call(5, delete_topic()) else { panic!() };
    let topics = directory.path().join("topics");
    let deadline = Instant::now() + crate::support::PATIENCE;
    while std::fs::read_dir(&topics).unwrap().count() > 0 {
        assert!(Instant::now() < deadline, "a file is still held");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_alive_in_each_kind(&server);
}
