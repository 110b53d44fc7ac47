//! Other programs fill the file system of the server. It then refuses produces, but serves groups,
//! fetches and deletions. It can start on a full file system, and a deletion then frees space. If
//! the machine cannot mount file systems, the test is skipped.

use crate::support::offsets::{commit, committed};
use crate::support::power::PowerSupply;
use crate::support::room::{fill, try_produce};
use crate::support::{Client, PATIENCE, Server, create_topic, produce, topic_id};
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;
use muster_codec::{ErrorCode, Response};
use std::time::Instant;

const DISK_BYTES: u64 = 512 << 20;
const RESERVE_BYTES: u64 = 16 << 20;
const RESERVE: &str = "disk.reserve.bytes=16777216";
const TOPIC: &str = "orders";

#[test]
fn a_disk_that_others_fill_stops_produces_and_nothing_else() {
    let volume = match PowerSupply::new(DISK_BYTES) {
        Ok(volume) => volume,
        Err(missing) => return test_skips::skip(missing),
    };
    let data = volume.path().join("data");
    let mut server = Server::start(&data, 1, &[RESERVE]);
    create_topic(&server, TOPIC, 1);
    create_topic(&server, "large", 1);
    assert_eq!(produce(&mut server.client(0), TOPIC, b"first"), Some(0));
    for _ in 0..40 {
        produce(&mut server.client(0), "large", &vec![7; 900_000]).unwrap();
    }
    commit(&server, "group", TOPIC, 0, 1);
    until("the reserve is made", || {
        std::fs::metadata(data.join("reserve")).is_ok_and(|file| file.len() == RESERVE_BYTES)
    });

    // The free space falls to about half of the size of the reserve file.
    let first = volume.path().join("first");
    fill(volume.path(), &first, RESERVE_BYTES / 2 + (1 << 20));
    server.says("produces get KAFKA_STORAGE_ERROR");
    serves_all_but_produces(&server, 2);
    std::fs::remove_file(&first).unwrap();
    server.says("produces are served");
    assert_eq!(try_produce(&mut server.client(0), TOPIC), (ErrorCode::None, 1));

    // The server starts on a full disk, and gives up its reserve file.
    assert!(server.stop().success());
    fill(volume.path(), &first, 0);
    let mut server = server.restart();
    server.says("gave up 16777216 bytes that were kept for a full disk");
    server.says("produces get KAFKA_STORAGE_ERROR");
    serves_all_but_produces(&server, 3);
    delete_topic(&server, "large");
    server.says("produces are served");
    assert_eq!(try_produce(&mut server.client(0), TOPIC), (ErrorCode::None, 2));
    assert!(server.stop().success());
}

/// Expects that produces are refused, and commits of this offset and other requests succeed.
fn serves_all_but_produces(server: &Server, offset: i64) {
    let mut client = server.client(0);
    assert_eq!(try_produce(&mut client, TOPIC), (ErrorCode::KafkaStorageError, -1));
    commit(server, "group", TOPIC, 0, offset);
    commit(server, "another group", TOPIC, 0, offset);
    assert_eq!(committed(server, "group")[&(TOPIC.to_owned(), 0)].0, offset);
    assert_eq!(fetched(&mut client), 0);
}

/// The first offset of the fetched records.
fn fetched(client: &mut Client) -> i64 {
    let topic_id = topic_id(client, TOPIC);
    let partition = FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() };
    let topics = vec![FetchTopic { topic_id, partitions: vec![partition], ..Default::default() }];
    let request = FetchRequest { max_bytes: 1 << 20, topics, ..Default::default() };
    let Response::Fetch(body) = client.call(13, request.into()) else { panic!() };
    let records = body.responses[0].partitions[0].records.as_deref().unwrap();
    Batches::new(records).next().unwrap().unwrap().header.base_offset
}

fn delete_topic(server: &Server, name: &'static str) {
    let topic = DeleteTopicState { name: Some(name.into()), ..Default::default() };
    let topics = vec![topic];
    let request = DeleteTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    let Response::DeleteTopics(body) = server.client(0).call(6, request.into()) else { panic!() };
    assert_eq!(body.responses[0].error_code, 0);
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "not yet: {what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
