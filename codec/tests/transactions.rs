//! Compares records of transactions with the bytes of Kafka's own serializers.

#![allow(clippy::unwrap_used)]

mod kafka_vectors;

use kafka_vectors::unhex;
use muster_codec::record_batch::{Batch, EndTxnMarker, TransactionOutcome, validate};
use muster_codec::record_batch::{set_base_offset, set_partition_leader_epoch};
use muster_codec::records::{
    KeptCommit, TransactionLogKey, TransactionLogValue, TransactionPartitions, TransactionRecord,
};

const KEY: &str = "00000003742d31";

fn partitions(all: &[(&'static str, &[i32])]) -> Option<Vec<TransactionPartitions<'static>>> {
    let partitions = all.iter().map(|(topic, ids)| TransactionPartitions {
        topic: (*topic).into(),
        partition_ids: ids.to_vec(),
    });
    Some(partitions.collect())
}

/// The state of the id `t-1` with producer 1000 and a timeout of a minute. Times are in ms after
/// 1700000000000.
fn value(
    status: i8,
    epoch: i16,
    updated: i64,
    started: Option<i64>,
) -> TransactionLogValue<'static> {
    let at = |ms: i64| 1_700_000_000_000 + ms;
    TransactionLogValue {
        producer_id: 1000,
        producer_epoch: epoch,
        transaction_timeout_ms: 60_000,
        transaction_status: status,
        transaction_last_update_timestamp_ms: at(updated),
        transaction_start_timestamp_ms: started.map_or(-1, at),
        previous_producer_id: 1000,
        ..Default::default()
    }
}

fn record(value: Option<TransactionLogValue<'static>>) -> TransactionRecord<'static> {
    TransactionRecord { key: TransactionLogKey { transactional_id: "t-1".into() }, value }
}

#[test]
fn kept_commits_are_in_a_tagged_field() {
    let kept =
        |producer_epoch| KeptCommit { producer_id: 1000, producer_epoch, transaction_version: 2 };
    let with = record(Some(TransactionLogValue {
        kept_commits: vec![kept(3), kept(5)],
        ..value(0, 6, 0, None)
    }));
    let (mut key, mut bytes) = (Vec::new(), Vec::new());
    with.write_key(&mut key);
    assert!(with.write_value(&mut bytes));
    assert_eq!(TransactionRecord::read(&key, Some(&bytes)), Ok(Some(with)));
    let field = unhex("e807190300000000000003e80003020000000000000003e800050200");
    assert!(bytes.ends_with(&field), "{bytes:?}");
}

#[test]
fn records_match_kafkas_golden_bytes() {
    let written = partitions(&[("a", &[0, 1]), ("__consumer_offsets", &[7])]);
    let empty = value(0, 0, 0, None);
    let ongoing = TransactionLogValue {
        transaction_partitions: written.clone(),
        client_transaction_version: 2,
        ..value(1, 0, 200, Some(100))
    };
    let prepare_commit = TransactionLogValue {
        transaction_partitions: written,
        client_transaction_version: 2,
        ..value(2, 1, 300, Some(100))
    };
    let complete_commit = TransactionLogValue {
        transaction_partitions: partitions(&[]),
        client_transaction_version: 2,
        ..value(4, 1, 400, Some(100))
    };
    let last_abort = TransactionLogValue {
        transaction_partitions: partitions(&[("a", &[0])]),
        next_producer_id: 2000,
        client_transaction_version: 2,
        ..value(3, 32_767, 300, Some(100))
    };
    let rotated = TransactionLogValue {
        producer_id: 2000,
        transaction_partitions: partitions(&[]),
        client_transaction_version: 2,
        ..value(5, 0, 400, Some(100))
    };
    for (value, golden) in [
        (
            empty,
            "000100000000000003e800000000ea6000000000018bcfe56800ffffffffffffffff0100080000000000\
             0003e8",
        ),
        (
            ongoing,
            "000100000000000003e800000000ea600103026103000000000000000100135f5f636f6e73756d65725f\
             6f6666736574730200000007000000018bcfe568c80000018bcfe5686402000800000000000003e80202\
             0002",
        ),
        (
            prepare_commit,
            "000100000000000003e800010000ea600203026103000000000000000100135f5f636f6e73756d65725f\
             6f6666736574730200000007000000018bcfe5692c0000018bcfe5686402000800000000000003e80202\
             0002",
        ),
        (
            complete_commit,
            "000100000000000003e800010000ea6004010000018bcfe569900000018bcfe568640200080000000000\
             0003e802020002",
        ),
        (
            last_abort,
            "000100000000000003e87fff0000ea60030202610200000000000000018bcfe5692c0000018bcfe56864\
             03000800000000000003e8010800000000000007d002020002",
        ),
        (
            rotated,
            "000100000000000007d000000000ea6005010000018bcfe569900000018bcfe568640200080000000000\
             0003e802020002",
        ),
    ] {
        let (key, golden) = (unhex(KEY), unhex(golden));
        let record = record(Some(value));
        let (mut written_key, mut written_value) = (Vec::new(), Vec::new());
        record.write_key(&mut written_key);
        assert!(record.write_value(&mut written_value));
        assert_eq!((&written_key, &written_value), (&key, &golden));
        assert_eq!(TransactionRecord::read(&key, Some(&golden)), Ok(Some(record)));
    }
}

#[test]
fn records_of_version_0_are_read() {
    let key = unhex(KEY);
    let empty = unhex("000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff");
    let ongoing = unhex(
        "000000000000000003e800000000ea60010000000200016100000002000000000000000100125f5f636f6e73\
         756d65725f6f66667365747300000001000000070000018bcfe568c80000018bcfe56864",
    );
    let version_0 = |value| TransactionLogValue { previous_producer_id: -1, ..value };
    let expected = record(Some(version_0(value(0, 0, 0, None))));
    assert_eq!(TransactionRecord::read(&key, Some(&empty)), Ok(Some(expected)));
    let expected = record(Some(TransactionLogValue {
        transaction_partitions: partitions(&[("a", &[0, 1]), ("__consumer_offsets", &[7])]),
        ..version_0(value(1, 0, 200, Some(100)))
    }));
    assert_eq!(TransactionRecord::read(&key, Some(&ongoing)), Ok(Some(expected)));
}

#[test]
fn unknown_versions_are_skipped_and_a_null_is_a_tombstone() {
    let (key, mut out) = (unhex(KEY), Vec::new());
    let tombstone = TransactionRecord::read(&key, None).unwrap().unwrap();
    assert_eq!(tombstone, record(None));
    assert!(!tombstone.write_value(&mut out) && out.is_empty());
    assert_eq!(TransactionRecord::read(&unhex("0001000374"), None), Ok(None));
    assert_eq!(TransactionRecord::read(&key, Some(&[0, 2, 9])), Ok(None));
    assert!(TransactionRecord::read(&key, Some(&[0, 1, 9])).is_err());
    assert!(TransactionRecord::read(&key, Some(&[0])).is_err());
}

#[test]
fn markers_match_kafkas_golden_bytes() {
    for (outcome, golden) in [
        (
            TransactionOutcome::Commit,
            "0000000000000000000000420000000002f66f04d50030000000000000018bcfe568000000018bcfe568\
             0000000000000003e80001ffffffff000000012000000008000000010c00000000000700",
        ),
        (
            TransactionOutcome::Abort,
            "00000000000000000000004200000000020251d29d0030000000000000018bcfe568000000018bcfe568\
             0000000000000003e80001ffffffff000000012000000008000000000c00000000000700",
        ),
    ] {
        let marker = EndTxnMarker { outcome, coordinator_epoch: 7 };
        let mut batch = marker.batch(1000, 1, 1_700_000_000_000);
        assert_eq!(batch[..], unhex(golden));
        set_base_offset(&mut batch, 41);
        set_partition_leader_epoch(&mut batch, 3);
        let header = validate(&batch).unwrap();
        assert!(header.is_control() && header.is_transactional());
        assert_eq!(EndTxnMarker::of_batch(&Batch::read(&batch).unwrap()), Ok(Some(marker)));
    }
}
