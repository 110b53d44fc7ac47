//! `muster log import` and `muster log export`. Apache Kafka wrote the directory in `data/kafka`
//! (`kafka_files/golden` creates it). It contains groups of both protocols, with members and
//! without, transactions, tombstones, and batches in every compression.

use crate::support::offsets::{Offsets, commit, committed, muster_log};
use crate::support::transactional::{Producer, Version};
use crate::support::{Server, rules};
use clap::Parser;
use muster_codec::Response;
use muster_codec::messages::*;
use muster_codec::record_batch::{Batch, Batches};
use muster_log_tools::{LogCommand, Verdict, carry_out};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const OFFSETS_PARTITIONS: &str = "offsets.topic.num.partitions=3";

/// The committed offsets in the directory: a group, its offsets for the partitions 0, 1 and so on
/// of `orders`, and the metadata of its commits.
const COMMITTED: [(&str, &[i64], &str); 14] = [
    ("gzip", &[11], "of 0"),
    ("snappy", &[21], "of 0"),
    ("lz4", &[31], "of 0"),
    ("zstd", &[41], "of 0"),
    ("classic-left", &[8, 8, 8, 8], ""),
    ("classic-alive", &[8, 8, 8, 8], ""),
    ("consumer-left", &[8, 8, 8, 8], ""),
    ("consumer-alive", &[8, 0, 0, 0], ""),
    ("transaction-committed", &[20], "committed"),
    ("transaction-aborted", &[10], "aborted"),
    ("transaction-open", &[10], "open"),
    ("simple", &[7], "of 0"),
    ("shorter", &[5], ""),
    ("deleted", &[], ""),
];

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: LogCommand,
}

/// Runs a command in this process. Returns the verdict and the output, or the error.
pub(crate) fn carried_out(words: &[&str]) -> Result<(Verdict, String), String> {
    let cli = Cli::parse_from(["log"].iter().chain(words));
    let mut out = Vec::new();
    let verdict = carry_out(&cli.command, &mut out).map_err(|failure| failure.to_string())?;
    Ok((verdict, String::from_utf8(out).unwrap()))
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kafka")
}

/// A copy of the directory, which tests may change.
pub(crate) fn golden_copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_tree(&golden(), copy.path());
    copy
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Imports the directory into a new data directory.
pub(crate) fn import(
    kafka: &Path,
    data: &Path,
    more: &[&str],
) -> Result<(Verdict, String), String> {
    let words = ["import", kafka.to_str().unwrap(), "--data", data.to_str().unwrap()];
    carried_out(&[&words[..], more].concat())
}

fn expected(group: &str) -> Offsets {
    let (_, offsets, metadata) = COMMITTED.iter().find(|(name, ..)| *name == group).unwrap();
    let offset = |(partition, offset): (i32, &i64)| {
        (("orders".to_owned(), partition), (*offset, (*metadata).to_owned()))
    };
    (0..).zip(*offsets).map(offset).collect()
}

fn assert_all_committed(server: &Server) {
    for (group, ..) in COMMITTED {
        assert_eq!(committed(server, group), expected(group), "{group}");
    }
}

fn described(server: &Server, group: &str) -> (String, usize) {
    let groups = vec![group.to_owned().into()];
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    let response = server.coordinator(group).call(5, request.into());
    let Response::DescribeGroups(body) = response else { panic!("{response:?}") };
    (body.groups[0].group_state.to_string(), body.groups[0].members.len())
}

fn consumer_described(server: &Server, group: &str) -> (String, i32, usize) {
    let group_ids = vec![group.to_owned().into()];
    let request = ConsumerGroupDescribeRequest { group_ids, ..Default::default() };
    let response = server.coordinator(group).call(0, request.into());
    let Response::ConsumerGroupDescribe(body) = response else { panic!("{response:?}") };
    let group = &body.groups[0];
    (group.group_state.to_string(), group.group_epoch, group.members.len())
}

/// The first and the next offset of each partition of `orders`, from the partition's leader.
fn bounds(server: &Server) -> Vec<(i64, i64)> {
    let at = |partition: i32, timestamp: i64| {
        let asked = |shard| {
            let partition = ListOffsetsPartition {
                partition_index: partition,
                timestamp,
                ..Default::default()
            };
            let topic = ListOffsetsTopic { name: "orders".into(), partitions: vec![partition] };
            let request = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
            let response = server.client(shard).call(5, request.into());
            let Response::ListOffsets(body) = response else { panic!("{response:?}") };
            let partition = &body.topics[0].partitions[0];
            (partition.error_code == 0).then_some(partition.offset)
        };
        (0..server.shards).find_map(asked).expect("a shard leads it")
    };
    (0..4).map(|partition| (at(partition, -2), at(partition, -1))).collect()
}

/// A config of a resource, as described by a shard.
fn config(server: &Server, resource_type: i8, resource: &'static str, name: &str) -> String {
    let request = rules::describe_configs(resource_type, resource, Some(name));
    let response = server.client(0).call(4, request.into());
    let Response::DescribeConfigs(body) = response else { panic!("{response:?}") };
    body.results[0].configs[0].value.as_deref().unwrap_or_default().to_owned()
}

#[test]
fn an_imported_kafka_cluster_is_served() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let words =
        ["import", golden().to_str().unwrap(), "--data", data.to_str().unwrap()].map(str::to_owned);
    let imported = muster_log(words.iter().map(String::as_str).chain(["--shards", "2"]));
    assert_eq!(imported.status, 0, "{imported:?}");
    assert!(imported.out.contains("13 groups in 34 records, 1 topics of 4 partitions"));
    assert!(imported.out.contains("1 offsets of transactions that never ended"), "{imported:?}");
    let mut server = Server::start(&data, 2, &[OFFSETS_PARTITIONS]);
    assert_all_committed(&server);
    assert_eq!(described(&server, "classic-alive"), ("Stable".to_owned(), 1));
    assert_eq!(described(&server, "classic-left"), ("Empty".to_owned(), 0));
    assert_eq!(described(&server, "deleted"), ("Dead".to_owned(), 0));
    assert_eq!(consumer_described(&server, "consumer-alive"), ("Stable".to_owned(), 2, 1));
    assert_eq!(consumer_described(&server, "consumer-left"), ("Empty".to_owned(), 3, 0));
    assert_eq!(bounds(&server), [(8, 8); 4], "without records, but not behind the offsets");
    assert_eq!(config(&server, 2, "orders", "retention.ms"), "864000000");
    assert_eq!(config(&server, 32, "consumer-left", "consumer.session.timeout.ms"), "50000");
    commit(&server, "simple", "orders", 0, 9);
    assert!(server.stop().success());
    // A server with another number of shards can open the data, too.
    let server = Server::start(&data, 1, &[OFFSETS_PARTITIONS]);
    assert_eq!(committed(&server, "simple").len(), 1);
    assert_eq!(committed(&server, "zstd"), expected("zstd"));
}

#[test]
fn records_are_imported_on_request() {
    let parent = tempfile::tempdir().unwrap();
    for (name, words) in [("all", ["--with-data", "--partial"]), ("one", ["--data-of", "orders"])] {
        let data = parent.path().join(name);
        let more = [&words[..], &["--shards", "1"]].concat();
        assert_eq!(import(&golden(), &data, &more).unwrap().0, Verdict::Good);
        let server = Server::start(&data, 1, &[OFFSETS_PARTITIONS]);
        assert_eq!(bounds(&server), [(0, 8); 4]);
        let records = fetched(&server, "orders", 2);
        assert_eq!(records.len(), 8);
        assert_eq!(records[&0], (b"key-2".to_vec(), Some(b"value-2".to_vec())));
    }
}

#[test]
fn records_that_are_lost_after_an_import_are_noticed() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    import(&golden(), &data, &["--with-data", "--partial", "--shards", "1"]).unwrap();
    let verify = ["verify", data.to_str().unwrap()];
    assert_eq!(carried_out(&verify).unwrap().0, Verdict::Good);

    let partitions = fs::read_dir(data.join("topics")).unwrap().map(|it| it.unwrap().path());
    let segment = partitions.map(|it| it.join("00000000000000000000.log")).next().unwrap();
    // Cuts off a whole batch. The rest is a valid log, and only the recovery point shows the loss.
    let bytes = fs::read(&segment).unwrap();
    let last = *batch_starts(&bytes).last().unwrap();
    fs::write(&segment, &bytes[..last]).unwrap();
    let (verdict, output) = carried_out(&verify).unwrap();
    assert_eq!(verdict, Verdict::Damaged, "{output}");
    let directory = segment.parent().unwrap().file_name().unwrap();
    assert!(output.contains(directory.to_str().unwrap()), "{output}");
}

#[test]
fn the_offsets_topic_ends_where_it_ended_from_the_first_answer_on() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    import(&golden(), &data, &["--shards", "1"]).unwrap();
    let mut server = Server::start(&data, 1, &[OFFSETS_PARTITIONS]);
    for _ in 0..3 {
        let partition =
            ListOffsetsPartition { partition_index: 1, timestamp: -1, ..Default::default() };
        let topic =
            ListOffsetsTopic { name: "__consumer_offsets".into(), partitions: vec![partition] };
        let request = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
        let response = server.client(0).call(5, request.into());
        let Response::ListOffsets(body) = response else { panic!("{response:?}") };
        assert_eq!(body.topics[0].partitions[0].offset, 19);
        server.kill();
        server = server.restart();
    }
}

pub(crate) type Records = BTreeMap<i64, (Vec<u8>, Option<Vec<u8>>)>;

/// All records of a partition, from its leader.
fn fetched(server: &Server, topic: &'static str, partition: i32) -> Records {
    let partition =
        FetchPartition { partition, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic =
        FetchTopic { topic: topic.into(), partitions: vec![partition], ..Default::default() };
    let request = FetchRequest { max_bytes: 1 << 20, topics: vec![topic], ..Default::default() };
    for shard in 0..server.shards {
        let response = server.client(shard).call(4, request.clone().into());
        let Response::Fetch(body) = response else { panic!("{response:?}") };
        let partition = &body.responses[0].partitions[0];
        if partition.error_code == 0 {
            return records(&partition.records.clone().unwrap_or_default());
        }
    }
    panic!("no shard leads it");
}

/// The records of the complete batches, by offset.
pub(crate) fn records(bytes: &[u8]) -> Records {
    let mut found = Records::new();
    for batch in Batches::new(bytes) {
        let batch = batch.unwrap();
        batch.validate().unwrap();
        for record in batch.records().unwrap() {
            let record = record.unwrap();
            let value = record.value.map(<[u8]>::to_vec);
            found.insert(batch.offset(&record), (record.key.unwrap().to_vec(), value));
        }
    }
    found
}

#[test]
fn an_export_has_the_batches_of_a_fetch_and_can_be_imported_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name).to_str().unwrap().to_owned();
    let (data, kafka) = (path("data"), path("kafka"));
    import(&golden(), data.as_ref(), &["--with-data", "--shards", "2"]).unwrap();
    let mut server = Server::start(data.as_ref(), 2, &[OFFSETS_PARTITIONS]);
    commit(&server, "simple", "orders", 0, 9);
    commit(&server, "simple", "orders", 0, 7);
    Producer::begin(&server, "id", Version::Two, "orders");
    let of_topic = |(topic, count)| (0..count).map(move |partition| (topic, partition));
    let internal = [("__consumer_offsets", 3), ("__transaction_state", 50)];
    let internal = internal.into_iter().flat_map(of_topic);
    let fetched: Vec<_> =
        internal.map(|(topic, at)| (topic, at, fetched(&server, topic, at))).collect();
    assert!(fetched[3..].iter().any(|(.., records)| !records.is_empty()), "{fetched:?}");
    assert!(server.stop().success());
    let internal = ["--topic", "__consumer_offsets", "--topic", "__transaction_state"];
    let topics = [&internal[..], &["--topic", "orders"]].concat();
    let export = carried_out(&[&["export", &data, "--to", &kafka], &topics[..]].concat()).unwrap();
    assert!(export.1.contains("orders-3: 8 records, offsets 0 to 8"), "{export:?}");
    for (topic, partition, fetched) in &fetched {
        let segment = format!("{kafka}/{topic}-{partition}/00000000000000000000.log");
        assert_eq!(records(&fs::read(segment).unwrap()), *fetched, "{topic}-{partition}");
    }
    let segment = "orders-1/00000000000000000000.log";
    let ours = fs::read(Path::new(&kafka).join(segment)).unwrap();
    assert!(ours == fs::read(golden().join(segment)).unwrap(), "byte for byte Kafka's");
    let again = carried_out(&["export", &data, "--to", &kafka]).unwrap_err();
    assert!(again.contains("__consumer_offsets-0"), "nothing is written over: {again}");
    // The export can be imported again.
    fs::write(format!("{kafka}/meta.properties"), "cluster.id=other\n").unwrap();
    let refused = import(kafka.as_ref(), path("back").as_ref(), &["--shards", "1"]).unwrap_err();
    assert!(refused.contains(".kafka_cleanshutdown"), "{refused}");
    let back = import(kafka.as_ref(), path("back").as_ref(), &["--shards", "1", "--unclean"]);
    assert_eq!(back.unwrap().0, Verdict::Good);
    let server = Server::start(path("back").as_ref(), 1, &[OFFSETS_PARTITIONS]);
    for (group, ..) in COMMITTED.iter().filter(|(group, ..)| *group != "simple") {
        assert_eq!(committed(&server, group), expected(group), "{group}");
    }
    let simple = BTreeMap::from([(("orders".to_owned(), 0), (7, "at 7".to_owned()))]);
    assert_eq!(committed(&server, "simple"), simple);
}

/// Expects that an import fails and leaves no files. Returns the error.
fn refused(kafka: &Path, more: &[&str]) -> String {
    let parent = tempfile::tempdir().unwrap();
    let more = [more, &["--shards", "1"]].concat();
    let error = import(kafka, &parent.path().join("data"), &more).unwrap_err();
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0, "{error}");
    error
}

#[test]
fn missing_parts_are_named() {
    let kafka = golden_copy();
    let path = |name: &str| kafka.path().join(name);
    fs::remove_file(path(".kafka_cleanshutdown")).unwrap();
    assert!(refused(kafka.path(), &[]).contains("Kafka runs, or was killed"));
    fs::remove_dir_all(path("__consumer_offsets-2")).unwrap();
    let error = refused(kafka.path(), &["--unclean"]);
    assert!(error.contains("--offsets-partitions"), "found by the hash of a group: {error}");
    let error = refused(kafka.path(), &["--unclean", "--offsets-partitions", "3"]);
    assert!(error.contains("__consumer_offsets-2 is in none of the directories"), "{error}");
    fs::write(path("orders-2/partition.metadata"), "version: 0\ntopic_id: none\n").unwrap();
    let more = ["--unclean", "--partial", "--offsets-partitions", "3"];
    assert!(refused(kafka.path(), &more).contains("it has no topic id"));
    fs::remove_dir_all(path("orders-2")).unwrap();
    fs::remove_dir_all(path("__cluster_metadata-0")).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let more = [&more[..], &["--shards", "1"]].concat();
    let (verdict, said) = import(kafka.path(), &data, &more).unwrap();
    assert_eq!(verdict, Verdict::Good);
    assert!(said.contains("none of the directories has __cluster_metadata"), "{said}");
    let error = import(kafka.path(), &data, &more).unwrap_err();
    assert!(error.contains("is not empty"), "{error}");
    let with_slashes = parent.path().join("other//");
    fs::create_dir_all(parent.path().join("other.importing")).unwrap();
    let error = import(kafka.path(), &with_slashes, &more).unwrap_err();
    assert!(error.contains("other.importing exists: remove it"), "{error}");
    fs::remove_dir(parent.path().join("other.importing")).unwrap();
    import(kafka.path(), &with_slashes, &more).unwrap();
    assert!(parent.path().join("other/meta.properties").exists());
    assert!(refused(parent.path(), &[]).contains("not a log directory of Kafka's"));
}

#[test]
fn a_torn_end_is_cut_only_where_kafka_would_cut_it() {
    let kafka = golden_copy();
    let segment = kafka.path().join("__consumer_offsets-0/00000000000000000000.log");
    let mut bytes = fs::read(&segment).unwrap();
    bytes.truncate(bytes.len() - 1);
    fs::write(&segment, &bytes).unwrap();
    let error = refused(kafka.path(), &[]);
    assert!(error.contains("__consumer_offsets-0/00000000000000000000.log: byte "), "{error}");
    assert!(error.contains("the file ends within a batch"), "{error}");
    let parent = tempfile::tempdir().unwrap();
    let more = ["--unclean", "--shards", "1"];
    assert!(import(kafka.path(), &parent.path().join("data"), &more).is_ok());
}

/// Flips single bits of each file. The damaged place is reported, nothing panics, and no files are
/// left.
#[test]
fn damage_anywhere_is_reported_with_its_place() {
    let kafka = golden_copy();
    for partition in 0..3 {
        let segment =
            kafka.path().join(format!("__consumer_offsets-{partition}/00000000000000000000.log"));
        let whole = fs::read(&segment).unwrap();
        for at in (0..whole.len()).step_by(11) {
            let starts: Vec<usize> = batch_starts(&whole);
            let start = starts.iter().rev().find(|start| **start <= at).unwrap();
            // The checksum does not cover the base offset and the leader epoch.
            if at - start < 8 || (12..16).contains(&(at - start)) {
                continue;
            }
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            fs::write(&segment, &bytes).unwrap();
            let error = refused(kafka.path(), &[]);
            let place = format!("{}: byte {start}: ", segment.display());
            assert!(error.starts_with(&place), "byte {at}: {error}");
        }
        fs::write(&segment, &whole).unwrap();
    }
}

#[test]
fn a_dry_run_prints_what_an_import_prints_and_writes_nothing() {
    let kafka = golden_copy();
    for more in [&["--shards", "1"][..], &["--shards", "1", "--with-data"]] {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("data");
        let said = import(kafka.path(), &data, &[more, &["--dry-run"]].concat()).unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        assert_eq!(said, import(kafka.path(), &data, more).unwrap());
    }
    let segment = kafka.path().join("orders-3/00000000000000000000.log");
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    assert!(refused(kafka.path(), &["--dry-run"]).contains("the file ends within a batch"));
}

/// Data with valid checksums may still be hostile. They must not cause a panic.
#[test]
fn hostile_records_with_valid_checksums_are_read_or_refused() {
    let kafka = golden_copy();
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let mut refused = 0;
    for partition in 0..3 {
        let segment =
            kafka.path().join(format!("__consumer_offsets-{partition}/00000000000000000000.log"));
        let whole = fs::read(&segment).unwrap();
        for at in (0..whole.len()).step_by(211) {
            let starts = batch_starts(&whole);
            let start = *starts.iter().rev().find(|start| **start <= at).unwrap();
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            let end = start + Batch::read(&whole[start..]).unwrap().bytes.len();
            let crc = crc32c::crc32c(&bytes[start + 21..end]);
            bytes[start + 17..start + 21].copy_from_slice(&crc.to_be_bytes());
            fs::write(&segment, &bytes).unwrap();
            match import(kafka.path(), &data, &["--shards", "1"]) {
                Ok(_) => fs::remove_dir_all(&data).unwrap(),
                Err(_) => refused += 1,
            }
            assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        }
        fs::write(&segment, &whole).unwrap();
    }
    assert!(refused > 10, "{refused}");
}

fn batch_starts(bytes: &[u8]) -> Vec<usize> {
    let mut batches = Batches::new(bytes);
    let mut starts = vec![0];
    while batches.next().is_some() {
        starts.push(batches.consumed());
    }
    starts.pop();
    starts
}
