//! Compares records of `__share_group_state` with the bytes of Kafka's own serializer.

#![allow(clippy::unwrap_used)]

mod kafka_vectors;

use kafka_vectors::unhex;
use muster_codec::Uuid;
use muster_codec::records::{
    ShareRecord, ShareSnapshotValue, ShareStateBatch, ShareStateKey, ShareUpdateValue, ShareValue,
};

const SNAPSHOT_KEY: &str = "0000000167000000746f706963000000000000000100000001";
const UPDATE_KEY: &str = "0001000167000000746f706963000000000000000100000001";
const NOW: i64 = 1_700_000_000_000;

fn key() -> ShareStateKey<'static> {
    let topic_id = Uuid(*b"\0\0\0topic\0\0\0\0\0\0\0\x01");
    ShareStateKey { group_id: "g".into(), topic_id, partition: 1 }
}

fn batches(all: &[(i64, i64, i8, i16)]) -> Vec<ShareStateBatch> {
    let batch = |&(first_offset, last_offset, delivery_state, delivery_count): &_| {
        ShareStateBatch { first_offset, last_offset, delivery_state, delivery_count }
    };
    all.iter().map(batch).collect()
}

#[test]
fn records_match_what_kafkas_share_coordinator_writes() {
    let initialized = ShareSnapshotValue {
        state_epoch: 3,
        start_offset: -1,
        create_timestamp: NOW,
        write_timestamp: NOW,
        ..ShareSnapshotValue::default()
    };
    let read =
        ShareUpdateValue { leader_epoch: 5, start_offset: -1, ..ShareUpdateValue::default() };
    let written = ShareUpdateValue {
        leader_epoch: 5,
        start_offset: 10,
        delivery_complete_count: 4,
        state_batches: batches(&[(10, 10, 0, 1), (11, 14, 2, 1)]),
        ..ShareUpdateValue::default()
    };
    let snapshot = ShareSnapshotValue {
        snapshot_epoch: 1,
        state_epoch: 3,
        leader_epoch: 5,
        start_offset: 10,
        delivery_complete_count: 5,
        create_timestamp: NOW + 1_000,
        write_timestamp: NOW + 1_000,
        state_batches: batches(&[(10, 10, 4, 5), (11, 14, 2, 1), (15, 19, 0, 2)]),
    };
    for (value, key_bytes, golden) in [
        (
            ShareValue::Snapshot(initialized),
            SNAPSHOT_KEY,
            "0000000000000000000300000000ffffffffffffffff0000018bcfe568000000018bcfe568000100",
        ),
        (ShareValue::Update(read), UPDATE_KEY, "00000000000000000005ffffffffffffffff0100"),
        (
            ShareValue::Update(written),
            UPDATE_KEY,
            "00000000000000000005000000000000000a03000000000000000a000000000000000a00000100000000\
             000000000b000000000000000e0200010001000400000004",
        ),
        (
            ShareValue::Snapshot(snapshot),
            SNAPSHOT_KEY,
            "0000000000010000000300000005000000000000000a0000018bcfe56be80000018bcfe56be804000000\
             000000000a000000000000000a04000500000000000000000b000000000000000e020001000000000000\
             00000f00000000000000130000020001000400000005",
        ),
    ] {
        let record = ShareRecord { key: key(), value };
        let (key, golden) = (unhex(key_bytes), unhex(golden));
        let (mut written_key, mut written_value) = (Vec::new(), Vec::new());
        record.write_key(&mut written_key);
        assert!(record.write_value(&mut written_value));
        assert_eq!((&written_key, &written_value), (&key, &golden));
        assert_eq!(ShareRecord::read(&key, Some(&golden)), Ok(Some(record)));
    }
}

#[test]
fn share_records_match_kafkas_golden_bytes() {
    let of = |name| std::fs::read_to_string(format!("tests/data/{name}")).unwrap();
    let text = of("record-vectors.tsv") + &of("record-vectors-4.4.tsv");
    let mut seen = 0;
    for line in text.lines().filter(|line| line.starts_with("share\t")) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (key, value) = (unhex(columns[4]), unhex(columns[5]));
        let record = ShareRecord::read(&key, Some(&value)).unwrap().unwrap();
        let (mut written_key, mut written_value) = (Vec::new(), Vec::new());
        record.write_key(&mut written_key);
        assert!(record.write_value(&mut written_value));
        assert_eq!((written_key, written_value), (key, value), "{line}");
        seen += 1;
    }
    assert_eq!(seen, 6, "a small and a full one of each type, and two with states of Kafka 4.4");
}

#[test]
fn a_null_deletes_and_unknown_records_are_skipped() {
    let (snapshot_key, update_key) = (unhex(SNAPSHOT_KEY), unhex(UPDATE_KEY));
    let tombstone = ShareRecord::read(&snapshot_key, None).unwrap().unwrap();
    assert_eq!(tombstone, ShareRecord { key: key(), value: ShareValue::Deleted });
    let mut out = Vec::new();
    assert!(!tombstone.write_value(&mut out) && out.is_empty());
    assert_eq!(ShareRecord::read(&update_key, None), Ok(None));
    assert_eq!(ShareRecord::read(&unhex("00020001670000"), Some(&[0, 0])), Ok(None));
    assert_eq!(ShareRecord::read(&snapshot_key, Some(&[0, 1, 9])), Ok(None));
    assert!(ShareRecord::read(&snapshot_key, Some(&[0, 0, 9])).is_err());
    assert!(ShareRecord::read(&snapshot_key[..9], None).is_err());
}
