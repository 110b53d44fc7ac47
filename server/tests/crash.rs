//! kill -9 at random moments under load: what was acknowledged is there afterwards.
//!
//! `MUSTER_KILLS` sets how often (3 by default), `MUSTER_SEED` the moments.

#![allow(clippy::unwrap_used)]

mod support;

use muster_codec::messages::*;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::{Bytes, Response};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use support::{Server, create_topic};

const WORKERS: usize = 8;
const SHARDS: u16 = 2;
const TOPIC: &str = "crash";

/// What one worker knows to be acknowledged: the last committed offset of its group, and the end of
/// what it produced to its partition.
#[derive(Default)]
struct Acknowledged {
    commit: AtomicI64,
    produced_end: AtomicI64,
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let kills: u64 = variable("MUSTER_KILLS", 3);
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    println!("MUSTER_SEED={seed} MUSTER_KILLS={kills}");
    let mut random = seed;
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), SHARDS, &[]);
    create_topic(&server, TOPIC, WORKERS as i32);
    let known: Vec<Arc<Acknowledged>> = (0..WORKERS).map(|_| Arc::default()).collect();
    for kill in 0..kills {
        let stop = Arc::new(AtomicBool::new(false));
        let workers = start_workers(&server, &known, &stop);
        std::thread::sleep(Duration::from_millis(next(&mut random) % 150));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        server = server.restart();
        check(&server, &known, kill);
    }
    let commits: i64 = known.iter().map(|k| k.commit.load(Ordering::Relaxed)).sum();
    println!("{commits} acknowledged commits survived {kills} kills");
    assert!(commits > 0, "the load was served");
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// xorshift64
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn start_workers(
    server: &Server,
    known: &[Arc<Acknowledged>],
    stop: &Arc<AtomicBool>,
) -> Vec<JoinHandle<()>> {
    let mut workers = Vec::new();
    for (index, known) in known.iter().enumerate() {
        let mut groups = server.coordinator(&group(index));
        let (stop_commits, commits) = (stop.clone(), known.clone());
        workers.push(std::thread::spawn(move || {
            while !stop_commits.load(Ordering::Relaxed) {
                let offset = commits.commit.load(Ordering::Relaxed) + 1;
                let Some(()) = commit(&mut groups, index, offset) else { return };
                commits.commit.store(offset, Ordering::Relaxed);
            }
        }));
        let mut leader = server.client(leader(server, index));
        let (stop_produce, produced) = (stop.clone(), known.clone());
        workers.push(std::thread::spawn(move || {
            while !stop_produce.load(Ordering::Relaxed) {
                let Some(offset) = produce(&mut leader, index) else { return };
                produced.produced_end.store(offset + 1, Ordering::Relaxed);
            }
        }));
    }
    workers
}

fn group(index: usize) -> String {
    format!("group-{index}")
}

fn commit(client: &mut support::Client, index: usize, offset: i64) -> Option<()> {
    let partition = OffsetCommitRequestPartition {
        partition_index: index as i32,
        committed_offset: offset,
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: TOPIC.into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group(index).into(),
        topics: vec![topic],
        ..Default::default()
    };
    let response = client.try_call(9, request.into())?;
    let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
    Some(())
}

/// The base offset that one record got; None once the server is gone.
fn produce(client: &mut support::Client, index: usize) -> Option<i64> {
    let mut builder = BatchBuilder::default();
    builder.append(0, &(&b"key"[..], Some(&b"value"[..])));
    let batch = builder.seal(0, -1).to_vec();
    let partition = PartitionProduceData { index: index as i32, records: Some(Bytes::from(batch)) };
    let topic = TopicProduceData {
        name: TOPIC.into(),
        partition_data: vec![partition],
        ..Default::default()
    };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 10_000,
        topic_data: vec![topic],
        ..Default::default()
    };
    let response = client.try_call(9, request.into())?;
    let Response::Produce(body) = response else { panic!("{response:?}") };
    let partition = &body.responses[0].partition_responses[0];
    assert_eq!(partition.error_code, 0);
    Some(partition.base_offset)
}

/// The shard that leads a partition, as Metadata says.
fn leader(server: &Server, index: usize) -> u16 {
    let topic = MetadataRequestTopic { name: Some(TOPIC.into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let response = server.client(0).call(9, request.into());
    let Response::Metadata(body) = response else { panic!("{response:?}") };
    let partitions = &body.topics[0].partitions;
    let partition = partitions.iter().find(|p| p.partition_index == index as i32).unwrap();
    partition.leader_id as u16
}

fn check(server: &Server, known: &[Arc<Acknowledged>], kill: u64) {
    for (index, known) in known.iter().enumerate() {
        let acknowledged = known.commit.load(Ordering::Relaxed);
        let committed = committed(server, index);
        // One more may have been written whose acknowledgement did not arrive.
        assert!(
            committed == acknowledged || committed == acknowledged + 1,
            "kill {kill}: {} has {committed}, acknowledged {acknowledged}",
            group(index),
        );
        known.commit.store(committed, Ordering::Relaxed);
        let acknowledged = known.produced_end.load(Ordering::Relaxed);
        let end = end_offset(server, index);
        assert!(
            end == acknowledged || end == acknowledged + 1,
            "kill {kill}: partition {index} ends at {end}, acknowledged {acknowledged}",
        );
        known.produced_end.store(end, Ordering::Relaxed);
    }
}

/// 0 if nothing was committed yet.
fn committed(server: &Server, index: usize) -> i64 {
    let topic = OffsetFetchRequestTopics {
        name: TOPIC.into(),
        partition_indexes: vec![index as i32],
        ..Default::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: group(index).into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let mut client = server.coordinator(&group.group_id);
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let response = client.call(9, request.into());
    let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
    assert_eq!(body.groups[0].error_code, 0);
    body.groups[0].topics[0].partitions[0].committed_offset.max(0)
}

fn end_offset(server: &Server, index: usize) -> i64 {
    let partition =
        ListOffsetsPartition { partition_index: index as i32, timestamp: -1, ..Default::default() };
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let response = server.client(leader(server, index)).call(7, request.into());
    let Response::ListOffsets(body) = response else { panic!("{response:?}") };
    let partition = &body.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    partition.offset
}
