//! A process with few file descriptors. It starts if it has enough, and logs how many it needs.
//! Thousands of clients do not use up the descriptors for files, and no answer needs more files
//! than may be open.

use crate::support::liveness::assert_alive_in_each_kind;
use crate::support::{
    Client, Server, create_topic, free_ports, limited, produce_to, produce_to_all,
};
use muster_codec::messages::*;
use muster_codec::{ApiKey, Response};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const OPEN_FILES: u64 = 1_024;
const CONNECTIONS: usize = 1_500;
/// More partitions than a shard can keep open with few descriptors.
const PARTITIONS: i32 = 2_000;

/// The number of descriptors that a shard needs: see `server/src/descriptors.rs`.
const PER_SHARD: u64 = 320;
const OF_ALL: u64 = 260;

/// The version of Fetch: one without fetch sessions.
const FETCH: i16 = 4;

#[test]
pub fn connections_leave_descriptors_to_the_files() {
    assert!(muster_uring::raise_open_files().unwrap().soft > CONNECTIONS as u64 + 100);
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::with_open_files(directory.path(), OPEN_FILES);
    create_topic(&server, "t", PARTITIONS);
    let mut client = server.client(0);
    assert_eq!(produce_to(&mut client, "t", 0, b"before"), Some(0));
    let address = ("127.0.0.1", server.port);
    let hoard: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for at_once in [1..100, 100..101, 101..PARTITIONS] {
        let offsets = produce_to_all(&mut client, "t", at_once, b"beside").unwrap();
        assert!(offsets.iter().all(|offset| *offset == 0));
    }
    drop(hoard);
    assert!(server.stop().success());
    let server = server.restart();
    let mut client = server.client(0);
    assert_eq!(produce_to(&mut client, "t", PARTITIONS - 1, b"after"), Some(1));
}

#[test]
fn one_fetch_of_more_partitions_than_files_may_be_open_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::with_open_files(directory.path(), OPEN_FILES);
    create_topic(&server, "t", 200);
    let mut client = server.client(0);
    produce_to_all(&mut client, "t", 0..200, b"record").unwrap();
    for wanted in [150, 200] {
        assert_eq!(fetched(&mut client, 0..wanted), wanted as usize);
        assert_alive_in_each_kind(&server);
    }
    assert!(server.stop().success());
}

/// Starts with the minimum number of descriptors, and with one less.
#[test]
fn too_few_are_refused_with_the_number_and_with_enough_all_is_served() {
    for shards in [1, 2, 5, 8] {
        let least = OF_ALL + u64::from(shards) * PER_SHARD;
        let directory = tempfile::tempdir().unwrap();
        let port = free_ports(shards);
        let refused = limited(directory.path(), port, least - 1, shards, &[]).output().unwrap();
        let text = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{shards} shards: {text}");
        assert!(text.contains(&format!("{least} are needed")), "{shards} shards: {text}");
        let mut server = Server::with_few_descriptors(directory.path(), least, shards, &[]);
        create_topic(&server, "t", 200);
        for shard in 0..shards {
            let mut client = server.client(shard);
            let led = led_by(&mut client, i32::from(shard));
            for partition in &led {
                assert_eq!(produce_to(&mut client, "t", *partition, b"record"), Some(0));
            }
            assert!(led.len() >= 200 / usize::from(shards) - 1);
            assert_eq!(fetched(&mut client, led.iter().copied()), led.len(), "of shard {shard}");
        }
        assert_alive_in_each_kind(&server);
        assert!(server.stop().success());
    }
}

/// A segment that the server does not have open is replaced by a pipe. A read of it never ends.
#[test]
fn a_stop_ends_in_its_time_though_an_operation_hangs() {
    let directory = tempfile::tempdir().unwrap();
    // Only io_uring waits for the pipe: a poller reads at an offset, which a pipe refuses at once.
    // The server's own check is off, because it would notice that the segment is gone.
    let unwatched = "state.check.max.bytes.per.second=0";
    let configs = ["stop.max.ms=8000", "io.driver=io_uring", unwatched];
    let mut server = Server::with_few_descriptors(directory.path(), OPEN_FILES, 1, &configs);
    create_topic(&server, "t", 200);
    let mut client = server.client(0);
    for offset in 0..300 {
        assert_eq!(produce_to(&mut client, "t", 0, &[7; 1_000]), Some(offset));
    }
    produce_to_all(&mut client, "t", 1..200, b"record").unwrap();
    assert_eq!(fetched(&mut client, 1..200), 199);
    let topics = std::fs::read_dir(directory.path().join("topics")).unwrap();
    let mut segments = topics.map(|entry| entry.unwrap().path());
    let first = segments.find(|path| path.to_string_lossy().ends_with("-0")).unwrap();
    let files = std::fs::read_dir(first).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.is_file()) {
        std::fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    }
    let mut hangs = server.client(0);
    hangs.stream().set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let id = hangs.send(FETCH, &fetch(0..1).into()).unwrap();
    assert!(hangs.receive(ApiKey::Fetch, FETCH, id).is_none(), "it reads from a pipe");
    assert_eq!(server.stop().code(), Some(1));
    let line = server.line_with("the stop has not ended within 8 s (stop.max.ms)");
    assert!(line.contains("shard 0 has not ended"), "{line}");
}

fn fetch(partitions: impl IntoIterator<Item = i32>) -> FetchRequest<'static> {
    let partition = |partition| FetchPartition {
        partition,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let partitions = partitions.into_iter().map(partition).collect();
    let topic = FetchTopic { topic: "t".into(), partitions, ..Default::default() };
    FetchRequest { max_bytes: 50 << 20, topics: vec![topic], ..Default::default() }
}

/// The number of partitions from which a fetch returns records.
fn fetched(client: &mut Client, partitions: impl IntoIterator<Item = i32>) -> usize {
    let Response::Fetch(body) = client.call(FETCH, fetch(partitions).into()) else { panic!() };
    let partitions = body.responses.iter().flat_map(|topic| &topic.partitions);
    let has_records = |it: &&PartitionData<'_>| {
        let bytes = it.records.clone().unwrap_or_default();
        it.error_code == 0 && !bytes.is_empty()
    };
    partitions.filter(has_records).count()
}

/// The partitions that this node leads.
fn led_by(client: &mut Client, node: i32) -> Vec<i32> {
    let topic = MetadataRequestTopic { name: Some("t".into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let Response::Metadata(body) = client.call(9, request.into()) else { panic!() };
    let led = body.topics[0].partitions.iter().filter(|it| it.leader_id == node);
    led.map(|it| it.partition_index).collect()
}
