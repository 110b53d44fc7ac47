//! Compaction under endless commits to the same keys. The disk usage stays small, kill -9 at any
//! moment of compaction loses nothing, and the offsets topic can be read throughout.
//!
//! `MUSTER_KILLS` sets the number of kills (3 by default), `MUSTER_SEED` seeds their times.

use crate::support::offsets::commit_request;
use crate::support::{Client, PATIENCE, Random, Server, create_topic, variable};
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;
use muster_codec::records::GroupRecord;
use muster_codec::{Request, Response};
use muster_storage::layout::SegmentHeader;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Instant;

const WORKERS: usize = 4;
const TOPIC: &str = "orders";
const PARTITIONS: i32 = 16;
const OFFSETS_PARTITIONS: i32 = 5;

/// The size of a commit's metadata. It makes commits long, so that few of them fill a segment.
const METADATA_BYTES: usize = 4_000;

/// The clients commit at least this number of bytes before each kill.
const WRITTEN_BYTES: i64 = 80 << 20;
/// The maximum size of the log on the disk: eight segments (the dirty one and one more, the active
/// one, the ready one, and four spare ones) and 1 MiB for the live records.
const DISK_BYTES_MAX: u64 = (8 * 16 + 1) << 20;

#[test]
fn endless_commits_take_little_disk_and_survive_kill_9() {
    let kills: u64 = variable("MUSTER_KILLS", 3);
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    println!("MUSTER_SEED={seed} MUSTER_KILLS={kills}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let partitions = format!("offsets.topic.num.partitions={OFFSETS_PARTITIONS}");
    let configs = ["offsets.topic.segment.bytes=16777216", &partitions];
    let mut server = Server::start(directory.path(), 1, &configs);
    create_topic(&server, TOPIC, PARTITIONS);
    let committed: Vec<_> = (0..WORKERS).map(|_| Arc::new(AtomicI64::new(0))).collect();
    let mut most = 0;
    for _ in 0..kills {
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let (client, stop) = (server.client(0), stop.clone());
                let committed = committed[worker].clone();
                std::thread::spawn(move || commit_until(client, worker, &committed, &stop))
            })
            .collect();
        let until = bytes(&committed) + WRITTEN_BYTES + (random.next() % (16 << 20)) as i64;
        let patience = Instant::now() + PATIENCE;
        while bytes(&committed) < until {
            assert!(Instant::now() < patience, "{} bytes", bytes(&committed));
            most = most.max(disk_bytes(directory.path()));
            check_offsets_topic(&mut server.client(0));
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        server = server.restart();
        (0..WORKERS).for_each(|worker| check(&server, worker, &committed[worker]));
        check_offsets_topic(&mut server.client(0));
    }
    let written = bytes(&committed);
    println!("{written} bytes of commits, at most {most} on the disk");
    let first = std::fs::read(log(directory.path()).join("00000000000000000001.log")).unwrap();
    let (header, _) = SegmentHeader::read(&first).unwrap();
    assert!(header.compacted.is_some(), "nothing was compacted");
    assert!(most <= DISK_BYTES_MAX, "{most} bytes on the disk");
    assert!(kills < 3 || written > DISK_BYTES_MAX as i64, "{written} bytes show nothing");
}

/// The minimum number of log bytes that the acknowledged commits take.
fn bytes(committed: &[Arc<AtomicI64>]) -> i64 {
    let commits: i64 = committed.iter().map(|it| it.load(Ordering::Relaxed)).sum();
    commits * i64::from(PARTITIONS) * METADATA_BYTES as i64
}

fn log(directory: &Path) -> PathBuf {
    directory.join("shards-1/0")
}

fn disk_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(log(directory)).unwrap().map(Result::unwrap);
    // A file may have been removed since it was listed.
    files.map(|file| file.metadata().map_or(0, |it| it.len())).sum()
}

/// Commits the offset 1 for all partitions, then 2, 3 and so on. Ends when it is stopped, or when
/// the server has ended.
fn commit_until(mut client: Client, worker: usize, committed: &AtomicI64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let offset = committed.load(Ordering::Relaxed) + 1;
        let Some(response) = client.try_call(8, commit(worker, offset)) else { return };
        let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
        assert!(body.topics[0].partitions.iter().all(|it| it.error_code == 0));
        committed.store(offset, Ordering::Relaxed);
    }
}

fn group(worker: usize) -> String {
    format!("group-{worker}")
}

fn commit(worker: usize, offset: i64) -> Request<'static> {
    commit_request(&group(worker), TOPIC, 0..PARTITIONS, offset, &"m".repeat(METADATA_BYTES)).into()
}

/// Expects for all partitions the last acknowledged commit, or a later one that was in flight.
fn check(server: &Server, worker: usize, committed: &AtomicI64) {
    let group_id = group(worker).into();
    let group = OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let response = server.client(0).call(8, request.into());
    let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
    let acknowledged = committed.load(Ordering::Relaxed);
    let partitions = &body.groups[0].topics[0].partitions;
    assert_eq!(partitions.len(), PARTITIONS as usize);
    let found = partitions[0].committed_offset;
    assert!(partitions.iter().all(|it| it.committed_offset == found), "by halves");
    assert!((acknowledged..=acknowledged + 1).contains(&found), "{acknowledged}, {found}");
    committed.store(found, Ordering::Relaxed);
}

/// Reads all partitions of the offsets topic from start to end. Checks that the offsets of records
/// rise, and that for each key the committed offsets rise, too.
fn check_offsets_topic(client: &mut Client) {
    for index in 0..OFFSETS_PARTITIONS {
        let mut newest = BTreeMap::new();
        let (mut offset, mut end) = (0, 1);
        while offset < end {
            let Some((batches, high_watermark)) = fetch(client, index, offset) else { return };
            end = high_watermark;
            if end == 0 {
                break;
            }
            let before = offset;
            for batch in Batches::new(&batches) {
                // The last batch may be incomplete.
                let Ok(batch) = batch else { break };
                batch.validate().unwrap();
                assert!(batch.header.next_offset() > offset, "partition {index}");
                offset = batch.header.next_offset();
                for record in batch.records().unwrap().map(Result::unwrap) {
                    note(&mut newest, record.key.unwrap(), record.value);
                }
            }
            assert!(offset > before, "partition {index} at {offset} of {end}");
        }
    }
}

fn note(newest: &mut BTreeMap<Vec<u8>, i64>, key: &[u8], value: Option<&[u8]>) {
    let record = GroupRecord::read(key, value).unwrap();
    if let Some(GroupRecord::OffsetCommit(_, Some(value))) = record {
        let before = newest.insert(key.to_vec(), value.offset);
        assert!(before.is_none_or(|before| before < value.offset), "a commit goes back");
    }
}

/// Records from this offset on, and the end of the partition.
fn fetch(client: &mut Client, index: i32, offset: i64) -> Option<(Vec<u8>, i64)> {
    let partition = FetchPartition {
        partition: index,
        fetch_offset: offset,
        partition_max_bytes: 4 << 20,
        ..Default::default()
    };
    let topic = FetchTopic {
        topic: "__consumer_offsets".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = FetchRequest { max_bytes: 4 << 20, topics: vec![topic], ..Default::default() };
    let Response::Fetch(body) = client.try_call(4, request.into())? else { panic!() };
    let partition = &body.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0, "partition {index} at {offset}");
    let records = partition.records.as_ref().map(|records| records.to_vec());
    Some((records.unwrap_or_default(), partition.high_watermark))
}
