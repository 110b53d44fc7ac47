//! Snapshots on a real disk. The server recovers the same state with a snapshot as without, and a
//! damaged snapshot does no harm.

mod forged;

use self::forged::{entries, forged};
use crate::support::snapshots::has_groups;
use crate::support::{Client, PATIENCE, Server, create_topic, produce_to, topic_id};
use muster_codec::Response;
use muster_codec::messages::*;
use muster_coordinator::snapshot::ENTRY_BYTES;
use muster_storage::layout::SegmentHeader;
use muster_storage::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TOPIC: &str = "snapshots";
const ORDERS: &str = "orders";
const LEADER_NOT_AVAILABLE: i16 = 5;
const PARTITIONS: i32 = 100;
const GROUPS: usize = 40;

/// The length of the metadata of commits: the maximum by Kafka's default. The log grows fast, so
/// snapshots are written soon.
const METADATA_BYTES: usize = 4096;

/// An offset that is easy to find in a file.
const TELLING: i64 = 0x0123_4567_89ab_cdef;

/// The place of the magic byte in a batch. If it is wrong in the first batch of a segment, the
/// batches after it cannot be found: the partition is then offline.
const MAGIC: usize = 16;

/// Enough rounds of commits for at least one snapshot.
const ROUNDS: i64 = 2;

#[test]
fn a_start_with_a_snapshot_has_the_state_of_one_without() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, before) = cold(directory.path());
    assert_eq!(listed(&server), (0..GROUPS).map(group).collect(), "they are unloaded");
    assert_eq!(everything(&server), before);
    server.kill();
    fs::remove_file(snapshot(directory.path())).unwrap();
    server = server.restart();
    server.says("; groups: 40; records replayed: ");
    assert_eq!(everything(&server), before);
}

#[test]
fn groups_continue_from_a_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = filled(directory.path());
    server.kill();
    server = server.restart();
    commit(&mut server.client(0), 7, 1_000, "");
    delete_group(&server, 8);
    let before = everything(&server);
    server.kill();
    server = server.restart();
    assert_eq!(everything(&server), before, "the records behind the snapshot count");
    assert_eq!((before[7][0], before[8][0]), (1_000, -1));
}

#[test]
fn a_start_after_a_clean_stop_has_little_to_replay() {
    let directory = tempfile::tempdir().unwrap();
    let growth = ["metadata.log.max.record.bytes.between.snapshots=1048576"];
    let mut server = filled_by(directory.path(), 1, &growth);
    let before = everything(&server);
    commit(&mut server.client(0), 7, 1_000, &"m".repeat(METADATA_BYTES));
    assert!(server.stop().success());
    server = server.restart();
    let line = server.line_with("; groups: 40 (");
    let (_, cold) = line.split_once("; groups: 40 (").unwrap();
    let cold: usize = cold.split(' ').next().unwrap().parse().unwrap();
    // The log after the snapshot is at most about a quarter as long as the snapshot. Only groups
    // with records in it were replayed.
    assert!(cold >= GROUPS * 2 / 3, "{line}");
    assert_eq!(everything(&server)[8], before[8]);
}

#[test]
fn a_damaged_snapshot_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = filled(directory.path());
    let before = everything(&server);
    server.kill();
    let path = snapshot(directory.path());
    let whole = fs::read(&path).unwrap();
    let cut = |len: usize| whole[..len].to_vec();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let last = whole.iter().rposition(|byte| *byte != 0).unwrap();
    for damaged in [cut(0), cut(100), cut(whole.len() / 2), flipped(5), flipped(30), flipped(last)]
    {
        fs::write(&path, damaged).unwrap();
        server = server.restart();
        server.says("is not used, the log is replayed");
        assert_eq!(everything(&server), before);
        server.kill();
    }
}

#[test]
fn a_shard_with_a_damaged_group_is_loaded_again_from_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, before) = with_a_damaged_group(directory.path());
    assert!(snapshot(directory.path()).with_extension("damaged").exists());
    assert_eq!(everything(&server), before);
    assert_eq!(server.status(), None, "it continues");
}

#[test]
fn an_index_that_changes_under_the_server_is_found_and_the_shard_loaded_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, before) = cold(directory.path());
    let path = snapshot(directory.path());
    let bytes = fs::read(&path).unwrap();
    let pid = server.pid();
    // Fills the second half of each slot's index with zeros. To the server this looks as if the
    // device returned other bytes when the kernel read the page again.
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    for row in Snapshot::open(&bytes).unwrap().sections.iter().filter(|row| has_groups(row)) {
        let entries = entries(&bytes, row);
        let second_half = &entries[entries.len() / 2..];
        file.seek(SeekFrom::Start(second_half[0] as u64)).unwrap();
        file.write_all(&vec![0; second_half.len() * ENTRY_BYTES]).unwrap();
    }
    let mut client = server.client(0);
    let ended = (0..GROUPS).find(|number| match fetch(&mut client, *number) {
        Some(offsets) => {
            assert_eq!(offsets, before[*number], "group {number}");
            false
        }
        None => true,
    });
    assert!(ended.is_some(), "the damage was not noticed");
    server.says("the snapshot is damaged: the index was changed after it was opened");
    server.says("serves again");
    assert!(path.with_extension("damaged").exists());
    assert_eq!(everything(&server), before);
    assert_eq!((server.status(), server.pid()), (None, pid), "it continues");
}

#[test]
fn a_shard_is_loaded_again_while_the_others_continue() {
    for damaged in 0..2 {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let (mut server, before) = killed(
            filled_by(data, 2, &["metadata.log.max.record.bytes.between.snapshots=1000000"]),
            data,
        );
        flip_middle(&snapshot_of(data, 2, damaged));
        server = server.restart();
        let coordinators = server.coordinators();
        let of = |shard: u16| {
            let is_of = |number: &usize| coordinators.shard(&group(*number)) == Some(shard);
            (0..GROUPS).filter(is_of).collect::<Vec<_>>()
        };
        let (mut there, mut beside) = (server.client(damaged), server.client(1 - damaged));
        let ended = of(damaged).into_iter().find(|number| fetch(&mut there, *number).is_none());
        assert!(ended.is_some(), "no group was damaged");
        server.says(&format!("shard {damaged} serves again"));
        for number in of(1 - damaged) {
            assert_eq!(fetch(&mut beside, number).as_ref(), Some(&before[number]), "no break");
        }
        assert_eq!(everything(&server), before);
        // The shards still exchange messages, and new data are kept.
        create_topic(&server, "later", 1);
        let id = topic_id(&mut beside, "later");
        server.kill();
        server = server.restart();
        assert_eq!(topic_id(&mut server.client(damaged), "later"), id);
        assert_eq!(everything(&server), before);
    }
}

/// When a shard is loaded again, offline partitions of all shards stay offline in the answers of
/// all shards. Only a partition of this shard whose file was repaired meanwhile is served again.
#[test]
fn partitions_are_offline_as_before_when_a_shard_is_loaded_again() {
    for is_mended in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let (server, segments) = with_offline_partitions(data);
        let reloaded = segments.iter().position(|(shard, _)| *shard == 0).unwrap();
        if is_mended {
            flip(&segments[reloaded].1, MAGIC);
        }
        let mut client = server.client(0);
        let coordinators = server.coordinators();
        let mut of_shard = (0..GROUPS).filter(|it| coordinators.shard(&group(*it)) == Some(0));
        let ended = of_shard.find(|number| fetch(&mut client, *number).is_none());
        assert!(ended.is_some(), "no group was damaged");
        server.says("shard 0 serves again");
        let mut expected = [(LEADER_NOT_AVAILABLE, -1); 2];
        if is_mended {
            expected[reloaded] = (0, 0);
        }
        await_leaders(&server, expected);
        if is_mended {
            let offset = produce_to(&mut server.client(0), ORDERS, reloaded as i32, b"later");
            assert_eq!(offset, Some(1));
        }
    }
}

#[test]
fn a_snapshot_that_contradicts_the_log_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let server = filled(directory.path());
    commit(&mut server.client(0), 0, TELLING, "");
    let (mut server, before) = killed(server, directory.path());
    let path = snapshot(directory.path());
    fs::write(&path, forged(fs::read(&path).unwrap())).unwrap();
    server = server.restart();
    server.says("; groups: 40 (40 not read yet)");
    server.says("but its records make");
    server.says("serves again");
    assert!(path.with_extension("damaged").exists());
    assert_eq!(everything(&server), before);
    // The server can then be stopped cleanly, and has the commits that it accepted after the
    // repair.
    commit(&mut server.client(0), 5, 1_000, "");
    assert!(server.stop().success());
    server = server.restart();
    assert_eq!(fetch(&mut server.client(0), 5).unwrap()[0], 1_000);
}

#[test]
fn a_snapshot_cut_short_under_the_server_ends_it_and_the_next_start_reads_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let (mut server, before) = cold(directory.path());
    let path = snapshot(directory.path());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let mut client = server.client(0);
    let ended = (0..GROUPS).find(|number| fetch(&mut client, *number).is_none());
    assert!(ended.is_some(), "no missing page was read");
    assert_eq!(server.wait().code(), Some(1));
    assert!(!path.exists() && path.with_extension("damaged").exists());
    server = server.restart();
    assert_eq!(everything(&server), before);
}

#[test]
fn a_snapshot_is_not_used_once_the_log_has_dropped_later_deletions() {
    let directory = tempfile::tempdir().unwrap();
    let (data, path) = (directory.path(), snapshot(directory.path()));
    let rules = ["log.cleaner.delete.retention.ms=0", "log.cleaner.min.cleanable.ratio=0"];
    let mut server = filled_by(data, 1, &rules);
    let old = fs::read(&path).unwrap();
    let from = Snapshot::open(&old).unwrap().header.from;
    delete_group(&server, 8);
    let metadata = "m".repeat(METADATA_BYTES);
    for round in ROUNDS + 1.. {
        assert!(round < 100, "the deletion is never dropped");
        (0..4).for_each(|number| commit(&mut server.client(0), number, round, &metadata));
        let is_outdated = dropped_position(data) > from;
        let newest = Snapshot::open(&fs::read(&path).unwrap()).unwrap().header.from;
        // When compaction drops a deletion that a snapshot lacks, the snapshot is outdated. A new
        // one replaces it, even if little was written since.
        if is_outdated && newest >= dropped_position(data) {
            break;
        }
    }
    let before = everything(&server);
    server.kill();
    fs::write(&path, old).unwrap();
    server = server.restart();
    server.says("compaction of the log has dropped later deletions");
    assert_eq!(everything(&server), before);
    assert_eq!(before[8][0], -1);
}

#[test]
fn a_quiet_server_writes_a_snapshot_of_little_data() {
    let directory = tempfile::tempdir().unwrap();
    let rules = ["metadata.log.max.snapshot.interval.ms=200"];
    let mut server = Server::start(directory.path(), 1, &rules);
    create_topic(&server, TOPIC, PARTITIONS);
    commit(&mut server.client(0), 3, 7, "");
    server.has_snapshot_at(2);
    server.kill();
    server = server.restart();
    let line = server.line_with("; groups: 1 (1 not read yet)");
    assert!(!line.contains("replayed"), "{line}");
    assert_eq!(fetch(&mut server.client(0), 3).unwrap()[0], 7);
}

/// The position of the last deletion (an operation in the log) that compaction has dropped.
fn dropped_position(data: &Path) -> u64 {
    let files = fs::read_dir(data.join("shards-1").join("0")).unwrap();
    let bytes = files.filter_map(|file| fs::read(file.unwrap().path()).ok());
    let header =
        |bytes: Vec<u8>| Some(SegmentHeader::read(&bytes).ok()?.0.compacted?.dropped_position);
    bytes.filter_map(header).max().unwrap_or(0)
}

/// A server with enough commits for a snapshot.
fn filled(data: &Path) -> Server {
    filled_by(data, 1, &[])
}

fn filled_by(data: &Path, shards: u16, configs: &[&str]) -> Server {
    let server = Server::start(data, shards, configs);
    create_topic(&server, TOPIC, PARTITIONS);
    let metadata = "m".repeat(METADATA_BYTES);
    for number in 0..GROUPS {
        let mut client = server.coordinator(&group(number));
        (1..=ROUNDS).for_each(|round| commit(&mut client, number, round, &metadata));
    }
    (0..shards).for_each(|number| await_file(&snapshot_of(data, shards, number)));
    server
}

/// A server that was killed, with a snapshot that covers its whole log. Also returns all offsets.
fn covered(data: &Path) -> (Server, Vec<Vec<i64>>) {
    killed(filled(data), data)
}

/// A server that found a damaged group in its snapshot, and serves again.
pub fn with_a_damaged_group(data: &Path) -> (Server, Vec<Vec<i64>>) {
    let (server, before) = covered(data);
    flip_middle(&snapshot(data));
    let server = server.restart();
    let mut client = server.client(0);
    let ended = (0..GROUPS).find(|number| fetch(&mut client, *number).is_none());
    assert!(ended.is_some(), "no group was damaged");
    ["the snapshot is damaged", "serves again"].iter().for_each(|it| server.says(it));
    (server, before)
}

fn killed(mut server: Server, data: &Path) -> (Server, Vec<Vec<i64>>) {
    server.kill();
    // The server writes a new snapshot of the whole log if it starts without one.
    let shards = server.shards;
    (0..shards).for_each(|number| fs::remove_file(snapshot_of(data, shards, number)).unwrap());
    server = server.restart();
    (0..shards).for_each(|number| await_file(&snapshot_of(data, shards, number)));
    let all = everything(&server);
    server.kill();
    (server, all)
}

/// Like [`covered`], after a restart: all its groups are unloaded.
fn cold(data: &Path) -> (Server, Vec<Vec<i64>>) {
    let (server, all) = covered(data);
    let server = server.restart();
    server.says("; groups: 40 (40 not read yet)");
    (server, all)
}

/// Two shards, each with a damaged partition that is offline. In the snapshot of shard 0 a group is
/// damaged. Returns the shard and the file of each partition.
fn with_offline_partitions(data: &Path) -> (Server, Vec<(i32, PathBuf)>) {
    let mut server =
        filled_by(data, 2, &["metadata.log.max.record.bytes.between.snapshots=1000000"]);
    create_topic(&server, ORDERS, 2);
    let led = leaders(&server, 0);
    for (index, (_, shard)) in (0..).zip(&led) {
        produce_to(&mut server.client(*shard as u16), ORDERS, index, b"value").unwrap();
    }
    assert!(server.stop().success(), "all that partitions have is known to be durable");
    let segments: Vec<_> =
        (0..).zip(led).map(|(index, (_, shard))| (shard, segment(data, index))).collect();
    let (server, _) = killed(server.restart(), data);
    segments.iter().for_each(|(_, path)| flip(path, MAGIC));
    flip_middle(&snapshot_of(data, 2, 0));
    let server = server.restart();
    await_leaders(&server, [(LEADER_NOT_AVAILABLE, -1); 2]);
    (server, segments)
}

/// For each partition of the topic, the error code and the leader in a shard's answer.
fn leaders(server: &Server, shard: u16) -> Vec<(i16, i32)> {
    let topic = MetadataRequestTopic { name: Some(ORDERS.into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let Response::Metadata(body) = server.client(shard).call(12, request.into()) else { panic!() };
    let partitions = body.topics[0].partitions.iter();
    partitions.map(|partition| (partition.error_code, partition.leader_id)).collect()
}

/// Waits for these leaders. A shard learns about the partitions of other shards a moment later.
fn await_leaders(server: &Server, expected: [(i16, i32); 2]) {
    let deadline = Instant::now() + PATIENCE;
    while !(0..2).all(|shard| leaders(server, shard) == expected) {
        assert!(Instant::now() < deadline, "not {expected:?}: {:?}", leaders(server, 0));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The file of a partition's only segment.
fn segment(data: &Path, index: i32) -> PathBuf {
    let ends = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("-{index}"));
    let of = |path: PathBuf| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut logs = of(data.join("topics")).filter(ends).flat_map(of);
    logs.find(|path| path.extension().is_some_and(|it| it == "log")).unwrap()
}

fn snapshot(data: &Path) -> PathBuf {
    snapshot_of(data, 1, 0)
}

fn snapshot_of(data: &Path, shards: u16, number: u16) -> PathBuf {
    data.join(format!("shards-{shards}")).join(number.to_string()).join("snapshot")
}

fn await_file(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < deadline, "there is no {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn flip_middle(path: &Path) {
    flip(path, fs::metadata(path).unwrap().len() as usize / 2);
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn group(number: usize) -> String {
    format!("group-{number:02}")
}

fn commit(client: &mut Client, number: usize, round: i64, metadata: &str) {
    let partition = |partition_index: i32| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: round + i64::from(partition_index),
        committed_metadata: Some(metadata.to_owned().into()),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: TOPIC.into(),
        partitions: (0..PARTITIONS).map(partition).collect(),
        ..Default::default()
    };
    let request = OffsetCommitRequest {
        group_id: group(number).into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let Response::OffsetCommit(body) = client.call(9, request.into()) else { panic!() };
    assert!(body.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
}

fn delete_group(server: &Server, number: usize) {
    let request = DeleteGroupsRequest { groups_names: vec![group(number).into()] };
    let Response::DeleteGroups(body) = server.client(0).call(2, request.into()) else { panic!() };
    assert_eq!(body.results[0].error_code, 0);
}

/// The offsets of all groups.
fn everything(server: &Server) -> Vec<Vec<i64>> {
    let of = |number| fetch(&mut server.coordinator(&group(number)), number).unwrap();
    (0..GROUPS).map(of).collect()
}

/// The committed offsets of a group. `None` if the server ends.
fn fetch(client: &mut Client, number: usize) -> Option<Vec<i64>> {
    let topic = OffsetFetchRequestTopics {
        name: TOPIC.into(),
        partition_indexes: (0..PARTITIONS).collect(),
        ..Default::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: group(number).into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let Response::OffsetFetch(body) = client.try_call(9, request.into())? else { panic!() };
    let partitions = &body.groups[0].topics[0].partitions;
    Some(partitions.iter().map(|partition| partition.committed_offset).collect())
}

fn listed(server: &Server) -> BTreeSet<String> {
    let response = server.client(0).call(4, ListGroupsRequest::default().into());
    let Response::ListGroups(body) = response else { panic!("{response:?}") };
    body.groups.iter().map(|group| group.group_id.to_string()).collect()
}
