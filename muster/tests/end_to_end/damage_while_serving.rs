//! Damage while a server runs. If a shard's log is damaged, no acknowledged data are lost at the
//! next start or after a repair. If a file of a partition is lost, the partition takes no records.
//! If a batch in a partition is damaged, only this batch is lost.

use crate::support::http::{get, metric_until};
use crate::support::offsets::{commit, committed, muster_log};
use crate::support::records::fetched;
use crate::support::{Client, Server, batch, create_topic, free_ports, produce};
use muster_codec::messages::*;
use muster_codec::{Bytes, Response};
use muster_storage::layout::Block;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const GROUPS: i64 = 100;
const CORRUPT_MESSAGE: i16 = 2;
const KAFKA_STORAGE_ERROR: i16 = 56;

/// A high rate for the check that reads the log again and again. A small log is then read within a
/// moment.
const FAST: &str = "state.check.max.bytes.per.second=100000000";

fn group(number: i64) -> String {
    format!("group-{number}")
}

fn commit_all(server: &Server, offset: i64) {
    (0..GROUPS).for_each(|number| commit(server, &group(number), "orders", 0, offset + number));
}

#[track_caller]
fn has_all(server: &Server, offset: i64) {
    for number in 0..GROUPS {
        let found = committed(server, &group(number));
        assert_eq!(found[&("orders".to_owned(), 0)].0, offset + number, "{}", group(number));
    }
}

fn segment(data: &Path) -> PathBuf {
    data.join("shards-1/0/00000000000000000001.log")
}

/// Flips a bit in the block with this number, in place.
fn flip(data: &Path, number: usize) {
    let path = segment(data);
    let bytes = fs::read(&path).unwrap();
    let starts = (512..bytes.len()).step_by(512);
    let at = starts.filter(|at| Block::read(&bytes[*at..]).is_ok()).nth(number).unwrap() + 60;
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    file.sync_all().unwrap();
}

/// A server with a commit of each group, and the port of its admin listener.
fn filled(data: &Path, configs: &[&str]) -> (Server, u16) {
    let operator = free_ports(1);
    let admin = format!("admin.listener=127.0.0.1:{operator}");
    let configs: Vec<_> = [FAST, &admin].into_iter().chain(configs.iter().copied()).collect();
    let server = Server::start(data, 1, &configs);
    create_topic(&server, "orders", 1);
    commit_all(&server, 0);
    (server, operator)
}

/// Waits until the check has read each file of the log again.
fn look_at_all(operator: u16) {
    const ROUNDS: &str = "muster_check_file_rounds_total{";
    let line = metric_until(operator, ROUNDS, |_| true);
    let before: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    // The current round may have begun before the damage, so only the next whole round counts.
    metric_until(operator, ROUNDS, |rounds| rounds >= before + 2.0);
}

#[test]
fn a_flipped_bit_costs_nothing() {
    for (stops, configs) in [
        (true, &[][..]),
        (false, &[][..]),
        (true, &["metadata.log.max.snapshot.interval.ms=3000"][..]),
        (false, &["offsets.topic.segment.bytes=16777216"][..]),
    ] {
        let data = tempfile::tempdir().unwrap();
        let (mut server, operator) = filled(data.path(), configs);
        flip(data.path(), 5);
        server.says("the log is damaged");
        server.says("the log is rewritten");
        commit_all(&server, 1_000);
        has_all(&server, 1_000);
        let (status, _, ready) = get(operator, "/readyz", "text/plain");
        assert!(status == 200 && ready.contains("the log was rewritten from memory"), "{ready}");
        let (_, _, metrics) = get(operator, "/metrics", "text/plain");
        assert!(metrics.contains("\nmuster_log_rewritten_total{shard=\"0\"} 1\n"), "{metrics}");
        if stops {
            assert!(server.stop().success());
        } else {
            server.kill();
        }
        let recovered = muster_log(["recover", data.path().to_str().unwrap(), "--accept-loss"]);
        assert_eq!(recovered.out, "good: there is nothing to recover\n");
        let verified = muster_log(["verify", data.path().to_str().unwrap()]);
        assert_eq!(verified.status, 0, "{verified:?}");
        has_all(&Server::start(data.path(), 1, &[]), 1_000);
    }
}

#[test]
fn files_that_are_removed_or_cut_cost_nothing() {
    let remove = |data: &Path| fs::remove_file(segment(data)).unwrap();
    let remove_all = |data: &Path| fs::remove_dir_all(data.join("shards-1")).unwrap();
    let cut = |data: &Path| {
        File::options().write(true).open(segment(data)).unwrap().set_len(1_000_000).unwrap();
    };
    let harms: [fn(&Path); 4] = [remove, remove, remove_all, cut];
    for (way, stops) in harms.into_iter().zip([true, false, true, false]) {
        let data = tempfile::tempdir().unwrap();
        let (mut server, operator) = filled(data.path(), &[]);
        way(data.path());
        server.says("the log is damaged");
        commit_all(&server, 1_000);
        metric_until(operator, "muster_log_rewritten_total{", |times| times >= 1.0);
        // The file of the next segment may already have existed, and is then damaged or lost, too.
        look_at_all(operator);
        metric_until(operator, "muster_log_damaged{", |damaged| damaged == 0.0);
        commit_all(&server, 2_000);
        if stops {
            assert!(server.stop().success());
        } else {
            server.kill();
        }
        has_all(&Server::start(data.path(), 1, &[]), 2_000);
    }
}

#[test]
fn recovery_needs_no_block_that_is_older_than_its_snapshot() {
    let data = tempfile::tempdir().unwrap();
    let (mut server, _) = filled(data.path(), &["metadata.log.max.snapshot.interval.ms=100"]);
    commit_all(&server, 1_000);
    server.has_snapshot_at(2 * GROUPS + 1);
    server.kill();
    flip(data.path(), 5);
    let found = muster_log(["recover", data.path().to_str().unwrap(), "--accept-loss"]);
    assert!(found.status == 0 && found.out.contains("NOTE shards-1/0: segment"), "{found:?}");
    let mut server = Server::start(data.path(), 1, &[FAST]);
    server.says("the log is rewritten");
    has_all(&server, 1_000);
    commit_all(&server, 2_000);
    server.kill();
    has_all(&Server::start(data.path(), 1, &[]), 2_000);
}

/// Tries to produce a small record. Returns the error code.
fn refused(client: &mut Client) -> i16 {
    refused_value(client, b"b")
}

fn refused_value(client: &mut Client, value: &[u8]) -> i16 {
    let records = Some(Bytes::from(batch(value)));
    let partition_data = vec![PartitionProduceData { index: 0, records }];
    let topic = TopicProduceData { name: "orders".into(), partition_data, ..Default::default() };
    let topic_data = vec![topic];
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data, ..Default::default() };
    let Response::Produce(body) = client.call(9, request.into()) else { panic!() };
    body.responses[0].partition_responses[0].error_code
}

/// In each case the file to which a produce would write is lost.
#[test]
fn a_partition_whose_file_is_lost_says_so_and_takes_no_record() {
    let of_partition = |data: &Path| -> PathBuf {
        let mut partitions = fs::read_dir(data.join("topics")).unwrap();
        partitions.next().unwrap().unwrap().path()
    };
    let segment = |data: &Path| of_partition(data).join("00000000000000000000.log");
    let cut = |data: &Path| {
        File::options().write(true).open(segment(data)).unwrap().set_len(10).unwrap();
    };
    let remove = |data: &Path| fs::remove_file(segment(data)).unwrap();
    let rename = |data: &Path| {
        let directory = of_partition(data);
        fs::rename(&directory, directory.with_extension("elsewhere")).unwrap();
    };
    let remove_all = |data: &Path| fs::remove_dir_all(data.join("topics")).unwrap();
    let ways: [&dyn Fn(&Path); 4] = [&cut, &remove, &rename, &remove_all];
    for way in ways {
        let data = tempfile::tempdir().unwrap();
        let (mut server, operator) = filled(data.path(), &[]);
        let mut client = server.client(0);
        assert_eq!(produce(&mut client, "orders", b"a"), Some(0));
        way(data.path());
        server.says("orders-0: ");
        metric_until(operator, "muster_partitions_lost_files{", |lost| lost == 1.0);
        assert_eq!(refused(&mut client), KAFKA_STORAGE_ERROR);
        let (status, _, ready) = get(operator, "/readyz", "text/plain");
        assert!(status == 200 && ready.contains("1 files of partitions are lost"), "{ready}");
        assert!(server.stop().success());
    }
}

/// The segment loses its name while the server does not have the file open.
#[test]
fn a_segment_that_lost_its_name_is_not_made_again() {
    let data = tempfile::tempdir().unwrap();
    let mut server = filled(data.path(), &[]).0;
    for offset in 0..3 {
        assert_eq!(produce(&mut server.client(0), "orders", b"a"), Some(offset));
    }
    assert!(server.stop().success());
    let unwatched = "state.check.max.bytes.per.second=0";
    let mut server = Server::start(data.path(), 1, &[unwatched]);
    let topics = fs::read_dir(data.path().join("topics")).unwrap();
    let of_partition = topics.map(|it| it.unwrap().path()).find(|it| it.is_dir()).unwrap();
    let segment = of_partition.join("00000000000000000000.log");
    let elsewhere = data.path().join("elsewhere");
    fs::rename(&segment, &elsewhere).unwrap();
    let mut client = server.client(0);
    assert_eq!(fetched(&mut client, "orders", 0), (KAFKA_STORAGE_ERROR, None));
    server.says("a read of orders-0 failed: could not open ");
    assert_eq!(refused(&mut client), KAFKA_STORAGE_ERROR);
    server.says("Produces are refused until the next start");
    assert_eq!(fetched(&mut client, "orders", 2), (KAFKA_STORAGE_ERROR, None));
    assert!(!segment.exists());
    assert!(server.stop().success());
    let mut server = Server::start(data.path(), 1, &[unwatched]);
    server.says("orders-0 is offline");
    assert_eq!(refused(&mut server.client(0)), KAFKA_STORAGE_ERROR);
    assert!(server.stop().success() && !segment.exists());
    fs::rename(&elsewhere, &segment).unwrap();
    let server = Server::start(data.path(), 1, &[unwatched]);
    assert_eq!(fetched(&mut server.client(0), "orders", 2), (0, Some(2)));
    assert_eq!(produce(&mut server.client(0), "orders", b"a"), Some(3));
}

/// The next record needs a new segment.
#[test]
fn a_directory_that_was_moved_away_is_not_made_again() {
    let configs = ["log.segment.bytes=1048576", "state.check.max.bytes.per.second=0"];
    let data = tempfile::tempdir().unwrap();
    let mut server = filled(data.path(), &configs).0;
    for offset in 0..3 {
        assert_eq!(produce(&mut server.client(0), "orders", &[1; 250_000]), Some(offset));
    }
    assert!(server.stop().success());
    let mut server = Server::start(data.path(), 1, &configs);
    let mut client = server.client(0);
    assert_eq!(produce(&mut client, "orders", b"a"), Some(3));
    let topics = fs::read_dir(data.path().join("topics")).unwrap();
    let of_partition = topics.map(|it| it.unwrap().path()).find(|it| it.is_dir()).unwrap();
    let elsewhere = data.path().join("elsewhere");
    fs::rename(&of_partition, &elsewhere).unwrap();
    for _ in 0..2 {
        assert_eq!(refused_value(&mut client, &[1; 500_000]), KAFKA_STORAGE_ERROR);
    }
    server.says("Produces are refused until the next start");
    assert_eq!(refused(&mut client), KAFKA_STORAGE_ERROR);
    assert!(server.stop().success() && !of_partition.exists());
    let mut server = Server::start(data.path(), 1, &configs);
    server.says("orders-0 is offline");
    assert!(server.stop().success() && !of_partition.exists());
    fs::rename(&elsewhere, &of_partition).unwrap();
    let server = Server::start(data.path(), 1, &configs);
    assert_eq!(fetched(&mut server.client(0), "orders", 2), (0, Some(2)));
    assert_eq!(produce(&mut server.client(0), "orders", &[1; 500_000]), Some(4));
}

/// The server itself reads old segments again.
#[test]
fn damage_of_an_old_segment_is_noticed_and_costs_one_batch() {
    let data = tempfile::tempdir().unwrap();
    let (mut server, operator) = filled(data.path(), &["log.segment.bytes=1048576"]);
    let mut client = server.client(0);
    for offset in 0..12 {
        assert_eq!(produce(&mut client, "orders", &[1; 250_000]), Some(offset));
    }
    metric_until(operator, "muster_partitions_scrubs_total{", |passes| passes >= 2.0);
    let topics = fs::read_dir(data.path().join("topics")).unwrap();
    let of_partition = topics.map(|it| it.unwrap().path()).find(|it| it.is_dir()).unwrap();
    let oldest = of_partition.join("00000000000000000000.log");
    let file = File::options().write(true).open(&oldest).unwrap();
    file.write_all_at(&[0xff], 300_000).unwrap();
    server.says("orders-0: bytes 250");
    server.says("Readers of the offsets 1 to 1 get CORRUPT_MESSAGE");
    metric_until(operator, "muster_partitions_damaged_parts{", |parts| parts == 1.0);
    let (status, _, ready) = get(operator, "/readyz", "text/plain");
    assert!(status == 200 && ready.contains("1 parts of partitions cannot be read"), "{ready}");
    assert_eq!(fetched(&mut client, "orders", 1), (CORRUPT_MESSAGE, None));
    for offset in [0, 2, 3, 4, 11] {
        assert_eq!(fetched(&mut client, "orders", offset), (0, Some(offset)));
    }
    assert_eq!(produce(&mut client, "orders", b"a"), Some(12));
    // The damage is counted once, however often it is read.
    let line = metric_until(operator, "muster_partitions_scrubs_total{", |_| true);
    let passes: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    metric_until(operator, "muster_partitions_scrubs_total{", |now| now >= passes + 2.0);
    metric_until(operator, "muster_partitions_damage_found_total{", |found| found == 1.0);
    // Recovery reads only the newest segments. A scrub finds the damage again.
    server.kill();
    let server = Server::start(data.path(), 1, &[FAST]);
    server.says("Readers of the offsets 1 to 1 get CORRUPT_MESSAGE");
    assert_eq!(fetched(&mut server.client(0), "orders", 1), (CORRUPT_MESSAGE, None));
    assert_eq!(fetched(&mut server.client(0), "orders", 2), (0, Some(2)));
}
