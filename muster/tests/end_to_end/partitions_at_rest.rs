//! Partitions of user topics across restarts. Damage that a crash explains is repaired and logged.
//! Other damage takes only its partition offline. No offset is assigned twice.

use crate::support::offsets::{commit, muster_log};
use crate::support::{Client, Server, batch, create_topic, produce, rules, topic_id};
use muster_codec::Response;
use muster_codec::messages::*;
use muster_codec::record_batch::Batches;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TOPIC: &str = "orders";
const OFFSET_OUT_OF_RANGE: i16 = 1;
const CORRUPT_MESSAGE: i16 = 2;
const KAFKA_STORAGE_ERROR: i16 = 56;
const LEADER_NOT_AVAILABLE: i16 = 5;
/// The size of segments. Any record batch of these tests fits in a segment, but a few batches fill
/// it.
const SEGMENT_BYTES: usize = 1 << 20;

/// A server with one shard and a topic with one partition.
fn started(data: &Path) -> Server {
    let server = Server::start(data, 1, &[]);
    create_topic(&server, TOPIC, 1);
    commit(&server, "group", TOPIC, 0, 1);
    server
}

fn partition(data: &Path) -> PathBuf {
    let mut partitions = fs::read_dir(data.join("topics")).unwrap();
    partitions.next().unwrap().unwrap().path()
}

fn segments(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(partition(data)).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    paths.sort();
    paths
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The byte position in a segment at which the batch with this base offset ends.
fn end_of(segment: &Path, offset: i64) -> usize {
    let bytes = fs::read(segment).unwrap();
    let batches = Batches::new(&bytes).map(Result::unwrap);
    let before = batches.take_while(|batch| batch.header.base_offset <= offset);
    before.map(|batch| batch.bytes.len()).sum()
}

fn set_segment_bytes(server: &Server) {
    let size = SEGMENT_BYTES.to_string();
    rules::alter(server, rules::TOPIC, TOPIC, &[("segment.bytes", Some(&size))]);
}

/// Fills more than four segments. Returns their base offsets.
fn fill_segments(server: &Server, data: &Path) -> Vec<i64> {
    set_segment_bytes(server);
    let mut client = server.client(0);
    loop {
        produce(&mut client, TOPIC, &vec![7; SEGMENT_BYTES / 3]).unwrap();
        if segments(data).len() == 5 {
            break;
        }
    }
    let base = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    segments(data).iter().map(base).collect()
}

/// The error code of a fetch, and the first offset that it returns.
fn fetch(client: &mut Client, topic: &str, offset: i64) -> (i16, Option<i64>) {
    let id = topic_id(client, topic);
    let partition =
        FetchPartition { fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic { topic_id: id, partitions: vec![partition], ..Default::default() };
    let topics = vec![topic];
    let request = FetchRequest { max_bytes: 1 << 20, topics, ..Default::default() };
    let Response::Fetch(body) = client.call(13, request.into()) else { panic!() };
    let data = &body.responses[0].partitions[0];
    let records = data.records.as_deref().unwrap_or_default();
    let first = Batches::new(records).next().map(|batch| batch.unwrap().header.base_offset);
    (data.error_code, first)
}

/// The error code of a produce, and the offset of its record.
fn try_produce(client: &mut Client, topic: &'static str) -> (i16, i64) {
    let records = Some(muster_codec::Bytes::from(batch(b"value")));
    let partition_data = vec![PartitionProduceData { index: 0, records }];
    let data = TopicProduceData { name: topic.into(), partition_data, ..Default::default() };
    let topic_data = vec![data];
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data, ..Default::default() };
    let Response::Produce(body) = client.call(9, request.into()) else { panic!() };
    let answer = &body.responses[0].partition_responses[0];
    (answer.error_code, answer.base_offset)
}

/// The error code and the leader of the first partition of a topic, and its offline replicas.
fn leader(client: &mut Client, topic: &str) -> (i16, i32, Vec<i32>) {
    let topic = MetadataRequestTopic { name: Some(topic.to_owned().into()), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    let Response::Metadata(body) = client.call(12, request.into()) else { panic!() };
    let partition = &body.topics[0].partitions[0];
    (partition.error_code, partition.leader_id, partition.offline_replicas.clone())
}

/// Expects that the partition is offline, its file unchanged, and all other partitions served.
fn assert_offline(server: &Server, segment: &Path, bytes: &[u8]) {
    server.says("orders-0 is offline; all others are served");
    server.says(&segment.parent().unwrap().display().to_string());
    let mut client = server.client(0);
    assert_eq!(try_produce(&mut client, TOPIC).0, KAFKA_STORAGE_ERROR);
    assert_eq!(fetch(&mut client, TOPIC, 0), (KAFKA_STORAGE_ERROR, None));
    assert_eq!(leader(&mut client, TOPIC), (LEADER_NOT_AVAILABLE, -1, vec![0]));
    assert!(fs::read(segment).unwrap_or_default() == bytes, "nothing is cut");
    commit(server, "group", TOPIC, 0, 7);
    create_topic(server, "others", 1);
    assert_eq!(try_produce(&mut client, "others"), (0, 0));
    assert_eq!(fetch(&mut client, "others", 0), (0, Some(0)));
    assert_eq!(leader(&mut client, "others"), (0, 0, vec![]));
}

#[test]
fn a_bit_that_changes_after_a_clean_stop_costs_one_batch_until_it_is_repaired() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let mut server = started(data.path());
    for value in 0..20u8 {
        produce(&mut server.client(0), TOPIC, &[value; 50]).unwrap();
    }
    assert!(server.stop().success());
    let segment = segments(data.path()).remove(0);
    let mut end = 20;
    for offset in [0, 10, 19] {
        flip(&segment, end_of(&segment, offset) - 1);
        let damaged = fs::read(&segment).unwrap();
        server = server.restart();
        server.says(&format!("Readers of the offsets {offset} to {offset} get CORRUPT_MESSAGE"));
        let mut client = server.client(0);
        assert_eq!(fetch(&mut client, TOPIC, offset), (CORRUPT_MESSAGE, None));
        for sound in (0..end).filter(|it| *it != offset) {
            assert_eq!(fetch(&mut client, TOPIC, sound), (0, Some(sound)));
        }
        assert_eq!(try_produce(&mut client, TOPIC), (0, end));
        end += 1;
        assert!(server.stop().success());
        assert!(fs::read(&segment).unwrap().starts_with(&damaged), "byte {offset} is not cut");
        let verified = muster_log(["verify", path]);
        assert_eq!(verified.status, 1, "{verified:?}");
        assert!(
            verified.out.contains(&format!("from offset {offset} to {offset}")),
            "{verified:?}"
        );
        let found = muster_log(["recover", path]);
        let lost = format!("LOST of orders-0:\n  the records from offset {offset} to {offset}\n");
        assert!(found.status == 1 && found.out.contains(&lost), "{found:?}");
        assert_eq!(muster_log(["recover", path, "--accept-loss"]).status, 0);
        let verified = muster_log(["verify", path]);
        assert_eq!(verified.status, 0, "{verified:?}");
    }
    server = server.restart();
    let mut client = server.client(0);
    let lost = [0, 10, 19];
    for offset in 0..end {
        // Each lost batch was replaced by a batch that has its offsets, but no records.
        assert_eq!(fetch(&mut client, TOPIC, offset), (0, Some(offset)));
    }
    let trash = fs::read_dir(data.path().join("trash")).unwrap();
    assert_eq!(trash.count(), lost.len(), "the removed parts are kept");
    assert_eq!(try_produce(&mut client, TOPIC), (0, end));
}

#[test]
fn a_torn_end_after_a_crash_is_cut_logged_and_kept() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    for value in 0..3u8 {
        produce(&mut server.client(0), TOPIC, &[value; 50]).unwrap();
    }
    server.kill();
    let segment = segments(data.path()).remove(0);
    let whole = fs::read(&segment).unwrap();
    let two = whole.len() / 3 * 2;
    flip(&segment, whole.len() - 1);
    let server = server.restart();
    server.says(&format!("{} is cut at byte {two}", segment.display()));
    server.says(&format!("left {} torn bytes", whole.len() - two));
    assert_eq!(try_produce(&mut server.client(0), TOPIC), (0, 2));
    let kept = fs::read(segment.with_extension("cut")).unwrap();
    assert_eq!(kept[..kept.len() - 1], whole[two..whole.len() - 1]);
}

#[test]
fn damage_in_an_old_segment_takes_one_partition_offline() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    fill_segments(&server, data.path());
    assert!(server.stop().success());
    let segment = segments(data.path()).remove(0);
    flip(&segment, 16);
    let damaged = fs::read(&segment).unwrap();
    let mut server = server.restart();
    assert_offline(&server, &segment, &damaged);
    // The topic can be deleted, and created again.
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: Some(TOPIC.into()), ..Default::default() }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let Response::DeleteTopics(body) = server.client(0).call(6, request.into()) else { panic!() };
    assert_eq!(body.responses[0].error_code, 0);
    create_topic(&server, TOPIC, 1);
    assert_eq!(try_produce(&mut server.client(0), TOPIC), (0, 0));
    assert!(server.stop().success());
    assert_eq!(muster_log(["verify", data.path().to_str().unwrap()]).status, 0);
}

#[test]
fn all_shards_report_no_leader_of_a_partition_that_is_offline() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    produce(&mut server.client(0), TOPIC, &[7; 50]).unwrap();
    assert!(server.stop().success());
    let segment = segments(data.path()).remove(0);
    flip(&segment, 16);
    let server = Server::start(data.path(), 3, &[]);
    let deadline = Instant::now() + Duration::from_secs(10);
    let has_no_leader = |shard| {
        let (error, leader, offline) = leader(&mut server.client(shard), TOPIC);
        (error, leader, offline.len()) == (LEADER_NOT_AVAILABLE, -1, 1)
    };
    while !(0..3).all(has_no_leader) {
        assert!(Instant::now() < deadline, "a shard names a leader");
    }
}

#[test]
fn an_empty_segment_among_synced_ones_takes_the_partition_offline() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    fill_segments(&server, data.path());
    assert!(server.stop().success());
    let segment = segments(data.path()).remove(2);
    fs::write(&segment, b"").unwrap();
    let server = server.restart();
    assert_offline(&server, &segment, b"");
}

#[test]
fn a_missing_segment_among_synced_ones_takes_the_partition_offline() {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    fill_segments(&server, data.path());
    assert!(server.stop().success());
    let segment = segments(data.path()).remove(2);
    fs::remove_file(&segment).unwrap();
    let server = server.restart();
    assert_offline(&server, &segment, b"");
}

#[test]
fn without_recovery_points_consumers_skip_missing_records() {
    for is_empty in [false, true] {
        let data = tempfile::tempdir().unwrap();
        let mut server = started(data.path());
        let bases = fill_segments(&server, data.path());
        assert!(server.stop().success());
        // The directory looks as if it had been copied without recovery points.
        fs::remove_dir_all(data.path().join("recovery-points")).unwrap();
        let segment = segments(data.path()).remove(2);
        if is_empty {
            fs::write(&segment, b"").unwrap()
        } else {
            fs::remove_file(&segment).unwrap()
        }
        let mut server = server.restart();
        server.says(&format!("has the offsets {} to {}", bases[2], bases[3] - 1));
        let mut client = server.client(0);
        for offset in bases[2]..bases[3] {
            assert_eq!(fetch(&mut client, TOPIC, offset), (0, Some(bases[3])));
        }
        assert_eq!(fetch(&mut client, TOPIC, bases[2] - 1), (0, Some(bases[2] - 1)));
        let end = try_produce(&mut client, TOPIC).1;
        assert!(end > bases[4]);
        assert!(server.stop().success());
        let server = server.restart();
        assert_eq!(try_produce(&mut server.client(0), TOPIC), (0, end + 1), "recorded by now");
    }
}

/// Damages the directory of a stopped server, recovers it, and starts the server again. Checks that
/// some records were lost, and that recovery changes nothing without `--accept-loss`. Returns what
/// recovery printed, the base offsets before the damage, and the end of the log.
fn recovered(damage: impl Fn(&Path)) -> (tempfile::TempDir, Server, String, Vec<i64>, i64) {
    let all = repaired(damage);
    assert!(all.2.contains("LOST of orders-0"), "{}", all.2);
    all
}

/// Like [`recovered`], but no loss is required.
fn repaired(damage: impl Fn(&Path)) -> (tempfile::TempDir, Server, String, Vec<i64>, i64) {
    let data = tempfile::tempdir().unwrap();
    let mut server = started(data.path());
    let bases = fill_segments(&server, data.path());
    let end = try_produce(&mut server.client(0), TOPIC).1 + 1;
    assert!(server.stop().success());
    damage(data.path());
    let path = data.path().to_str().unwrap();
    let before: Vec<_> = segments(data.path()).iter().map(|path| fs::read(path).unwrap()).collect();
    let found = muster_log(["recover", path]);
    assert_eq!(found.status, 1, "{found:?}");
    assert!(found.out.contains("nothing was changed"), "{found:?}");
    let after: Vec<_> = segments(data.path()).iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(before == after, "the directory was changed");
    let other = muster_log(["recover", path, "--topic", "no-such-topic"]);
    assert_eq!(other.status, 2, "{other:?}");
    let repaired = muster_log(["recover", path, "--accept-loss", "--topic", TOPIC]);
    assert_eq!(repaired.status, 0, "{repaired:?}");
    let good = muster_log(["recover", path]);
    assert_eq!((good.status, &*good.out), (0, "good: there is nothing to recover\n"));
    let verified = muster_log(["verify", path]);
    assert_eq!(verified.status, 0, "{verified:?}");
    (data, server.restart(), found.out, bases, end)
}

/// Overwrites the beginning of a batch with zeros, as a disk may do.
fn zero(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[..4_096].fill(0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_recovered_partition_has_all_but_the_batches_with_the_damage() {
    let (data, server, output, bases, end) = recovered(|data| zero(&segments(data)[1]));
    let lost = format!("the records from offset {} to {}\n", bases[1], bases[1]);
    assert!(output.contains(&lost), "{output}");
    let mut client = server.client(0);
    for offset in 0..end {
        assert_eq!(fetch(&mut client, TOPIC, offset), (0, Some(offset)));
    }
    assert_eq!(try_produce(&mut client, TOPIC), (0, end));
    let trash = fs::read_dir(data.path().join("trash")).unwrap();
    assert_eq!(trash.count(), 1, "the removed part is kept");
}

#[test]
fn a_batch_of_which_the_length_or_magic_is_damaged_is_restored() {
    for at in [8, 11, 16] {
        let (_data, server, output, _, end) = repaired(|data| flip(&segments(data)[1], at));
        assert!(output.contains("DAMAGED orders-0, of which nothing is lost"), "{output}");
        let mut client = server.client(0);
        for offset in 0..end {
            assert_eq!(fetch(&mut client, TOPIC, offset), (0, Some(offset)));
        }
    }
}

#[test]
fn a_partition_that_lost_its_first_segment_begins_behind_it() {
    let (_data, server, output, bases, end) = recovered(|data| {
        let first = &segments(data)[0];
        let len = fs::read(first).unwrap().len();
        fs::write(first, vec![0; len]).unwrap();
    });
    assert!(output.contains(&format!("from offset 0 to {}", bases[1] - 1)), "{output}");
    let mut client = server.client(0);
    assert_eq!(fetch(&mut client, TOPIC, 0), (OFFSET_OUT_OF_RANGE, None));
    assert_eq!(fetch(&mut client, TOPIC, bases[1]), (0, Some(bases[1])));
    assert_eq!(try_produce(&mut client, TOPIC), (0, end));
}

#[test]
fn a_recovered_partition_assigns_no_offset_again() {
    let damages: [fn(&Path); 3] = [
        |data| {
            let last = segments(data).pop().unwrap();
            let len = fs::read(&last).unwrap().len();
            flip(&last, len - 1);
        },
        |data| fs::remove_file(segments(data).pop().unwrap()).unwrap(),
        |data| segments(data).iter().for_each(|path| fs::remove_file(path).unwrap()),
    ];
    for damage in damages {
        let (_data, mut server, output, _, end) = recovered(damage);
        assert!(output.contains(&format!("to {}", end - 1)), "{output}");
        assert_eq!(try_produce(&mut server.client(0), TOPIC), (0, end));
        assert_eq!(fetch(&mut server.client(0), TOPIC, end), (0, Some(end)));
        server.kill();
        let server = server.restart();
        assert_eq!(try_produce(&mut server.client(0), TOPIC), (0, end + 1));
    }
}

#[test]
fn segments_accepted_as_lost_are_skipped() {
    let (_data, server, output, bases, end) = recovered(|data| {
        fs::write(&segments(data)[1], b"").unwrap();
        fs::remove_file(&segments(data)[3]).unwrap();
    });
    for at in [1, 3] {
        let lost = format!("the records from offset {} to {}", bases[at], bases[at + 1] - 1);
        assert!(output.contains(&lost), "{output}");
        let found = fetch(&mut server.client(0), TOPIC, bases[at]);
        assert_eq!(found, (0, Some(bases[at + 1])));
    }
    assert_eq!(try_produce(&mut server.client(0), TOPIC), (0, end));
}
