//! `muster log import` and `muster log export` of share state, which muster and Kafka store in
//! different partitions.

use crate::log_exchange::{carried_out, golden_copy, import, records};
use muster_codec::Uuid;
use muster_codec::record_batch::BatchBuilder;
use muster_codec::records::{
    ShareRecord, ShareSnapshotValue, ShareStateBatch, ShareStateKey, ShareUpdateValue, ShareValue,
};
use muster_log_tools::Verdict;
use std::fs;
use std::path::Path;

/// The id of the topic `orders` in Kafka's directory.
fn orders(kafka: &Path) -> Uuid {
    let text = fs::read_to_string(kafka.join("orders-0/partition.metadata")).unwrap();
    let id = text.lines().find_map(|line| line.strip_prefix("topic_id: ")).unwrap();
    Uuid::parse(id).unwrap()
}

fn key(topic_id: Uuid, partition: i32) -> ShareStateKey<'static> {
    ShareStateKey { group_id: "g".into(), topic_id, partition }
}

fn batch_of(first_offset: i64) -> ShareStateBatch {
    let last_offset = first_offset + 4;
    ShareStateBatch { first_offset, last_offset, delivery_state: 2, delivery_count: 1 }
}

/// A snapshot record as Kafka writes it, and an update after it.
fn written(topic_id: Uuid, partition: i32) -> [ShareRecord<'static>; 2] {
    let snapshot = ShareSnapshotValue {
        snapshot_epoch: 7,
        state_epoch: 3,
        leader_epoch: 5,
        start_offset: 10 * i64::from(partition),
        delivery_complete_count: 5,
        state_batches: vec![batch_of(100)],
        ..Default::default()
    };
    let update = ShareUpdateValue {
        snapshot_epoch: 7,
        leader_epoch: 5,
        start_offset: -1,
        delivery_complete_count: 10,
        state_batches: vec![batch_of(105)],
    };
    [ShareValue::Snapshot(snapshot), ShareValue::Update(update)]
        .map(|value| ShareRecord { key: key(topic_id, partition), value })
}

/// The single record that an export writes instead of the two records of [`written`].
fn exported(topic_id: Uuid, partition: i32) -> ShareRecord<'static> {
    let snapshot = ShareSnapshotValue {
        snapshot_epoch: 7,
        state_epoch: 3,
        leader_epoch: 0,
        start_offset: 10 * i64::from(partition),
        delivery_complete_count: 10,
        state_batches: vec![ShareStateBatch { last_offset: 109, ..batch_of(100) }],
        ..Default::default()
    };
    ShareRecord { key: key(topic_id, partition), value: ShareValue::Snapshot(snapshot) }
}

/// Writes `__share_group_state` with one partition.
fn write(kafka: &Path, records: &[ShareRecord<'_>]) {
    let directory = kafka.join("__share_group_state-0");
    fs::create_dir(&directory).unwrap();
    let mut builder = BatchBuilder::default();
    records.iter().for_each(|record| builder.append(0, record));
    fs::write(directory.join("00000000000000000000.log"), builder.seal(0, 0)).unwrap();
}

/// The records of the topic in a directory of Kafka, each with its partition.
fn read(kafka: &Path) -> Vec<(u32, Vec<u8>, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for index in 0..50 {
        let segment = format!("__share_group_state-{index}/00000000000000000000.log");
        let all = records(&fs::read(kafka.join(segment)).unwrap());
        found.extend(all.into_values().map(|(key, value)| (index, key, value)));
    }
    found
}

/// The partition that Kafka chooses: `abs(name.hashCode()) % 50`.
fn java_partition(name: &str) -> u32 {
    let hash = |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte));
    name.bytes().fold(0, hash).unsigned_abs() % 50
}

#[test]
fn share_state_moves_to_its_slots_and_back() {
    let kafka = golden_copy();
    let (id, unknown) = (orders(kafka.path()), Uuid([9; 16]));
    let mut records: Vec<_> = (0..4).flat_map(|partition| written(id, partition)).collect();
    records.extend(written(unknown, 0));
    records.push(ShareRecord { key: key(id, 3), value: ShareValue::Deleted });
    write(kafka.path(), &records);
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name).to_str().unwrap().to_owned();
    let (data, back) = (path("data"), path("back"));
    let (verdict, said) = import(kafka.path(), data.as_ref(), &["--shards", "2"]).unwrap();
    assert_eq!(verdict, Verdict::Good);
    assert!(said.contains("the state of 3 share partitions"), "{said}");
    assert!(said.contains("state of 1 share partitions of unknown topics is left out"), "{said}");
    let dump = carried_out(&["dump", &data, "--group", "g"]).unwrap().1;
    assert_eq!(dump.matches("ShareSnapshot").count(), 3, "{dump}");

    let words = ["export", &data, "--to", &back, "--topic", "__share_group_state"];
    carried_out(&words).unwrap();
    let mut expected: Vec<_> = (0..3)
        .map(|partition| {
            let (record, mut key, mut value) = (exported(id, partition), vec![], vec![]);
            record.write_key(&mut key);
            record.write_value(&mut value);
            (java_partition(&format!("g:{id}:{partition}")), key, Some(value))
        })
        .collect();
    expected.sort();
    assert_eq!(read(back.as_ref()), expected);
}
