//! Fills file systems.

use super::{Client, PATIENCE};
use muster_codec::messages::*;
use muster_codec::{Bytes, ErrorCode, Response};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Fills the file system with `filler` until about `free` bytes are left. Repeats this, because a
/// server may free space meanwhile.
pub fn fill(volume: &Path, filler: &Path, free: u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (have, left) = (std::fs::metadata(filler).map_or(0, |it| it.len()), available(volume));
        if left <= free + (1 << 20) {
            return;
        }
        assert!(Instant::now() < deadline, "{left} are left");
        let length = (have + left.saturating_sub(free)).max(1).to_string();
        let _ = Command::new("fallocate").args(["-l", &length]).arg(filler).output().unwrap();
    }
}

/// Appends a record to partition 0 of the topic. Returns the error code and the offset.
pub fn try_produce(client: &mut Client, topic: &'static str) -> (ErrorCode, i64) {
    let records = Some(Bytes::from(super::batch(b"value")));
    let partition_data = vec![PartitionProduceData { index: 0, records }];
    let topic = TopicProduceData { name: topic.into(), partition_data, ..Default::default() };
    let topic_data = vec![topic];
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data, ..Default::default() };
    let Response::Produce(body) = client.call(9, request.into()) else { panic!() };
    let answer = &body.responses[0].partition_responses[0];
    (ErrorCode::from_code(answer.error_code).unwrap(), answer.base_offset)
}

fn available(volume: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(volume).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().trim().parse().unwrap()
}
