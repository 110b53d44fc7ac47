//! A failed write, as on a full disk, ends the server with a message, and no acknowledged data are
//! lost. In these tests a limit of the file size (RLIMIT_FSIZE) makes the write fail.

use crate::support::offsets::commit_request;
use crate::support::{Client, Server, create_topic, produce, said};
use muster_codec::Response;
use muster_codec::messages::*;
use std::process::Command;

/// This number of operations is acknowledged before the limit is set. They take about 2 MB.
const BEFORE: i64 = 20;
/// The server must end long before this number of requests.
const REQUESTS_MAX: i64 = 1_000;
const BYTES: usize = 100_000;

/// Limits of file sizes. The first and the third are below the size that a file then has, so the
/// next write fails at once. With the others, a later write is written only in part. The last two
/// limits are no multiple of the block size.
const LIMITS: [usize; 4] = [64 << 10, 5 << 20, (64 << 10) + 1, (5 << 20) + 777];

/// An action of a client. Returns the acknowledged offset, or `None` once the server has ended.
type Act = fn(&mut Client, i64) -> Option<i64>;

fn commit(client: &mut Client, offset: i64) -> Option<i64> {
    let metadata = "m".repeat(BYTES / 25);
    let request = commit_request("g", "t", std::iter::repeat_n(0, 25), offset, &metadata);
    let Response::OffsetCommit(body) = client.try_call(8, request.into())? else { panic!() };
    assert!(body.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
    Some(offset)
}

fn committed(client: &mut Client) -> i64 {
    let topic = OffsetFetchRequestTopic { name: "t".into(), partition_indexes: vec![0] };
    let request = OffsetFetchRequest {
        group_id: "g".into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let Response::OffsetFetch(body) = client.call(5, request.into()) else { panic!() };
    body.topics[0].partitions[0].committed_offset
}

fn produce_large(client: &mut Client, _: i64) -> Option<i64> {
    produce(client, "t", &vec![7; BYTES])
}

fn last_produced(client: &mut Client) -> i64 {
    let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let topic = ListOffsetsTopic { name: "t".into(), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let Response::ListOffsets(body) = client.call(7, request.into()) else { panic!() };
    body.topics[0].partitions[0].offset - 1
}

#[test]
pub fn a_commit_that_cannot_be_written_ends_the_server_and_the_others_are_kept() {
    limited(commit, committed);
}

#[test]
fn a_record_that_cannot_be_written_ends_the_server_and_the_others_are_kept() {
    limited(produce_large, last_produced);
}

#[test]
fn a_removed_directory_is_not_created_again_for_half_a_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 1, &[]);
    create_topic(&server, "t", 1);
    let mut client = server.client(0);
    std::fs::remove_dir_all(directory.path()).unwrap();
    assert_eq!(produce_large(&mut client, 0), None);
    assert_eq!(server.wait().code(), Some(1));
    server.says("could not open");
    assert!(!directory.path().exists());
}

#[test]
fn a_server_that_may_write_no_whole_segment_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let server = crate::support::command(directory.path(), crate::support::free_ports(1), 1, &[]);
    let mut limited = Command::new("prlimit");
    limited.arg("--fsize=100001").arg(server.get_program()).args(server.get_args());
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = said(&output);
    assert!(log.contains("files may have 100001 bytes at most"), "{log}");
    assert!(!log.contains("Invalid argument"), "{log}");
}

fn limited(act: Act, last: fn(&mut Client) -> i64) {
    for limit in LIMITS {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Server::start(directory.path(), 1, &[]);
        create_topic(&server, "t", 1);
        let mut client = server.client(0);
        let before = (0..BEFORE).map(|number| act(&mut client, number).unwrap()).last().unwrap();
        limit_files(&server, limit);
        let after = (BEFORE..REQUESTS_MAX).map_while(|number| act(&mut client, number)).last();
        assert_eq!(server.wait().code(), Some(1), "with a limit of {limit}");
        assert!(server.line_with("could not write to a log").ends_with(". The server ends"));
        assert_eq!(server.lines_with("Invalid argument"), 0, "with a limit of {limit}");

        let server = server.restart();
        let acknowledged = after.unwrap_or(before);
        let kept = last(&mut server.client(0));
        // One more operation may have been written, whose acknowledgement was not sent.
        assert!((acknowledged..=acknowledged + 1).contains(&kept), "{acknowledged}, {kept}");
        assert!(act(&mut server.client(0), kept + 1).is_some(), "it continues");
    }
}

fn limit_files(server: &Server, bytes: usize) {
    let pid = server.pid().to_string();
    let fsize = format!("--fsize={bytes}:{bytes}");
    let limited = Command::new("prlimit").args(["--pid", &pid, &fsize]).status();
    assert!(limited.unwrap().success());
}
