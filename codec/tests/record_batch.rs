//! Tests of RecordBatch v2, with batches that a Kafka broker wrote and with bytes that no broker
//! would write.

#![allow(clippy::unwrap_used)]

use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{
    Batch, BatchBuilder, BatchHeader, Batches, Compression, Producer, Records, TimestampType,
    set_base_offset, set_max_timestamp, set_partition_leader_epoch, validate,
};
use muster_codec::wire::DecodeError;
use proptest::prelude::*;

/// Timestamp, key and value of a record.
type Parts = (i64, Vec<u8>, Option<Vec<u8>>);

/// A batch that a Kafka broker wrote: its header as printed by Kafka's dump tool, and its records.
struct Written {
    partition: i32,
    base_offset: i64,
    base_sequence: i32,
    producer_id: i64,
    producer_epoch: i16,
    attributes: i16,
    size: usize,
    crc: u32,
    records: Vec<Parts>,
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn written_by_kafka() -> Vec<Written> {
    let mut batches: Vec<Written> = Vec::new();
    for line in include_str!("data/consumer-offsets-batches.tsv").lines() {
        let column: Vec<&str> = line.split('\t').collect();
        match column[0] {
            "batch" => batches.push(Written {
                partition: column[1].parse().unwrap(),
                base_offset: column[2].parse().unwrap(),
                base_sequence: column[4].parse().unwrap(),
                producer_id: column[5].parse().unwrap(),
                producer_epoch: column[6].parse().unwrap(),
                attributes: column[7].parse().unwrap(),
                size: column[8].parse().unwrap(),
                crc: column[9].parse().unwrap(),
                records: Vec::new(),
            }),
            "record" => {
                let value = (column[3] != "null").then(|| unhex(column[3]));
                let record = (column[1].parse().unwrap(), unhex(column[2]), value);
                batches.last_mut().unwrap().records.push(record);
            }
            _ => {}
        }
    }
    batches
}

fn build(base_offset: i64, records: &[Parts]) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for (timestamp, key, value) in records {
        builder.append(*timestamp, &(key.as_slice(), value.as_deref()));
    }
    builder.seal(base_offset, 0).to_vec()
}

/// A batch of two records. The key of each has one byte, the value has two.
fn sample() -> Vec<u8> {
    let record = |byte: u8| (1_000, vec![byte], Some(vec![byte; 2]));
    build(7, &[record(1), record(2)])
}

#[test]
fn batches_have_the_size_and_checksum_that_kafka_gave_them() {
    let batches = written_by_kafka();
    assert!(batches.len() > 30);
    for written in batches {
        let mut batch = build(written.base_offset, &written.records);
        assert_eq!(batch.len(), written.size);
        // The builder writes batches as a coordinator does outside of transactions. The fields of a
        // transaction are written over them here.
        batch[21..23].copy_from_slice(&written.attributes.to_be_bytes());
        batch[43..51].copy_from_slice(&written.producer_id.to_be_bytes());
        batch[51..53].copy_from_slice(&written.producer_epoch.to_be_bytes());
        batch[53..57].copy_from_slice(&written.base_sequence.to_be_bytes());
        assert_eq!(crc32c::crc32c(&batch[21..]), written.crc);
    }
}

/// The batch that a Kafka 4.3.0 broker wrote for a TxnOffsetCommit of producer 1001.
const IN_TRANSACTION: &str = "\
    00000000000000090000007b0000000a027a489cf7001000000000000001a200\
    b29673000001a200b2967300000000000003e900000000000000000001900100\
    000046000100137472616e73616374696f6e2d61626f7274656400066f726465\
    7273000000003e0004000000000000000affffffff0861626f72746564000001\
    a200b296730000";

#[test]
fn a_batch_of_a_transaction_has_the_bytes_that_kafka_gave_it() {
    let kafka = unhex(IN_TRANSACTION);
    let batch = Batch::read(&kafka).unwrap();
    let mut builder = BatchBuilder::default();
    for record in batch.records().unwrap().map(Result::unwrap) {
        builder.append(batch.timestamp(&record), &(record.key.unwrap(), record.value));
    }
    let producer = Producer { id: 1_001, epoch: 0 };
    assert_eq!(builder.seal_in_transaction(9, 10, producer), kafka);
    let mut header = batch.header;
    header.clear_transaction();
    assert!(!header.is_transactional() && !header.has_producer_id());
}

#[test]
fn a_log_is_read_back_batch_by_batch() {
    let batches = written_by_kafka();
    let log: Vec<&Written> =
        batches.iter().filter(|batch| batch.partition == 0 && batch.attributes == 0).collect();
    let bytes: Vec<u8> =
        log.iter().flat_map(|written| build(written.base_offset, &written.records)).collect();

    let mut read = Batches::new(&bytes);
    for written in log {
        let batch = read.next().unwrap().unwrap();
        batch.validate().unwrap();
        assert_eq!(batch.header.base_offset, written.base_offset);
        assert_eq!(batch.header.records_count as usize, written.records.len());
        batch.records().unwrap().validate().unwrap();
        for (record, (timestamp, key, value)) in batch.records().unwrap().zip(&written.records) {
            let record = record.unwrap();
            assert_eq!(record.key, Some(key.as_slice()));
            assert_eq!(record.value, value.as_deref());
            assert_eq!(batch.timestamp(&record), *timestamp);
        }
    }
    assert!(read.next().is_none());
    assert_eq!(read.consumed(), bytes.len());
}

#[test]
fn a_builder_is_reused_and_rewinds_an_append() {
    let mut builder = BatchBuilder::default();
    let first = (&b"k"[..], Some(&b"v"[..]));
    builder.append(5, &first);
    let mark = builder.mark();
    let len = builder.len();
    builder.append(9, &(&[0; 200][..], None));
    builder.rewind(mark);
    assert_eq!((builder.len(), builder.records()), (len, 1));
    let bytes = builder.seal(3, 1).to_vec();
    let header = validate(&bytes).unwrap();
    assert_eq!((header.base_offset, header.partition_leader_epoch), (3, 1));
    assert_eq!((header.base_timestamp, header.max_timestamp), (5, 5));

    builder.clear();
    assert!(builder.is_empty());
    builder.append(5, &first);
    assert_eq!(builder.seal(3, 1), bytes);
}

#[test]
fn timestamps_are_deltas_from_the_first_record() {
    let mut builder = BatchBuilder::default();
    for timestamp in [1_000, 1_700, 400] {
        builder.append(timestamp, &(&b"k"[..], None));
    }
    let bytes = builder.seal(0, 0).to_vec();
    let batch = Batch::read(&bytes).unwrap();
    let times: Vec<i64> =
        batch.records().unwrap().map(|record| batch.timestamp(&record.unwrap())).collect();
    assert_eq!(times, [1_000, 1_700, 400]);
    assert_eq!(batch.header.max_timestamp, 1_700);
}

#[test]
fn offsets_epoch_and_timestamp_are_patched_in_place() {
    let mut bytes = sample();
    set_base_offset(&mut bytes, 1 << 40);
    set_partition_leader_epoch(&mut bytes, 12);
    let header = validate(&bytes).unwrap();
    assert_eq!((header.base_offset, header.last_offset()), (1 << 40, (1 << 40) + 1));
    assert_eq!(header.partition_leader_epoch, 12);

    set_max_timestamp(&mut bytes, TimestampType::LogAppendTime, 5_000);
    let header = validate(&bytes).unwrap();
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    let batch = Batch::read(&bytes).unwrap();
    assert!(batch.records().unwrap().all(|record| batch.timestamp(&record.unwrap()) == 5_000));

    set_max_timestamp(&mut bytes, TimestampType::CreateTime, 1_000);
    set_base_offset(&mut bytes, 7);
    set_partition_leader_epoch(&mut bytes, 0);
    assert_eq!(bytes, sample());
}

#[test]
fn sequence_numbers_wrap_to_zero() {
    let header = BatchHeader::read(&sample()).unwrap();
    let last = |base_sequence| BatchHeader { base_sequence, ..header }.last_sequence();
    assert_eq!([last(-1), last(0), last(i32::MAX)], [-1, 1, 0]);
}

#[test]
fn batches_of_clients_are_held_to_the_rules_of_kafka() {
    let good = BatchHeader::read(&sample()).unwrap();
    good.validate_from_client().unwrap();
    let bad = [
        BatchHeader { last_offset_delta: -1, ..good },
        BatchHeader { records_count: 0, ..good },
        BatchHeader { records_count: 3, ..good },
        BatchHeader { attributes: 5, ..good },
        BatchHeader { attributes: 0x20, ..good },
        BatchHeader { producer_id: 4, base_sequence: -1, ..good },
    ];
    for header in bad {
        let error = header.validate_from_client().unwrap_err();
        assert!(matches!(error, DecodeError::InvalidBatch(_)), "{header:?}");
    }
}

#[test]
fn every_flipped_bit_under_the_checksum_is_noticed() {
    let bytes = sample();
    for bit in (17 * 8)..(bytes.len() * 8) {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(validate(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn a_batch_that_ends_too_early_is_refused() {
    let bytes = sample();
    for len in 0..bytes.len() {
        assert!(validate(&bytes[..len]).is_err(), "{len} bytes");
        let mut batches = Batches::new(&bytes[..len]);
        assert!(len == 0 || batches.next().unwrap().is_err());
        assert!(batches.next().is_none());
    }
    let mut short = bytes;
    short[8..12].copy_from_slice(&48i32.to_be_bytes());
    assert!(BatchHeader::read(&short).is_err(), "a length shorter than the header");
}

#[test]
fn records_with_wrong_lengths_are_refused() {
    let cases: [(&str, &[u8]); 6] = [
        ("negative length", &[1]),
        ("longer than the batch", &[100, 0, 0, 0, 1, 1, 0]),
        ("longer than its fields", &[14, 0, 0, 0, 1, 1, 0, 0]),
        ("shorter than its fields", &[4, 0, 0, 0, 1, 1, 0]),
        ("more headers than bytes", &[12, 0, 0, 0, 1, 1, 100]),
        ("bytes after the last record", &[12, 0, 0, 0, 1, 1, 0, 0]),
    ];
    for (what, payload) in cases {
        assert!(Records::new(payload, 1).validate().is_err(), "{what}");
    }
    assert!(Records::new(&[12, 0, 0, 0, 1, 1, 0], 1).validate().is_ok());
    assert!(Records::new(&[12, 0, 0, 2, 1, 1, 0], 1).validate().is_err(), "offsets count from 0");
}

#[test]
fn compressed_records_are_not_read() {
    let mut bytes = sample();
    bytes[22] = 4;
    let batch = Batch::read(&bytes).unwrap();
    assert_eq!(batch.header.compression(), Some(Compression::Zstd));
    assert!(batch.records().is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if bytes.len() > RECORD_BATCH_HEADER_BYTES {
            bytes[16] = 2;
            let length = (bytes.len() - 12) as i32;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
        }
        let _ = validate(&bytes);
        for batch in Batches::new(&bytes).flatten() {
            let _ = (batch.header.next_offset(), batch.header.last_sequence());
            let _ = batch.header.validate_from_client();
            for record in Records::new(batch.payload(), batch.header.records_count).flatten() {
                let _ = (batch.timestamp(&record), batch.offset(&record));
            }
        }
    }

    #[test]
    fn a_batch_that_was_built_is_read_back(
        records in prop::collection::vec(
            (0..=i64::MAX, prop::collection::vec(any::<u8>(), 0..200),
             prop::option::of(prop::collection::vec(any::<u8>(), 0..9_000))), 1..40),
    ) {
        let bytes = build(9, &records);
        let batch = Batch::read(&bytes).unwrap();
        validate(&bytes).unwrap();
        let mut read: Vec<Parts> = Vec::new();
        for record in batch.records().unwrap() {
            let record = record.unwrap();
            let (key, value) = (record.key.unwrap().to_vec(), record.value.map(<[u8]>::to_vec));
            read.push((batch.timestamp(&record), key, value));
        }
        prop_assert_eq!(read, records);
    }
}

#[test]
fn a_header_is_written_as_it_was_read() {
    let batch = build(7, &[(5, b"a".to_vec(), None), (6, b"b".to_vec(), Some(b"1".to_vec()))]);
    let header = BatchHeader::read(&batch).unwrap();
    let mut written = batch.clone();
    written[..RECORD_BATCH_HEADER_BYTES].fill(0xaa);
    header.write(&mut written);
    assert_eq!(written, batch);
}

#[test]
fn a_delete_horizon_takes_the_place_of_the_base_timestamp() {
    let batch = build(7, &[(5, b"a".to_vec(), None)]);
    let mut header = BatchHeader::read(&batch).unwrap();
    assert_eq!(header.delete_horizon(), None);
    header.set_delete_horizon(90_000);
    let mut written = batch.clone();
    header.write(&mut written);
    let read = validate(&written).unwrap();
    assert_eq!((read.delete_horizon(), read.base_timestamp), (Some(90_000), 90_000));
    assert_eq!((read.attributes, read.max_timestamp), (0x40, 5));

    header.clear_records();
    let mut empty = written[..RECORD_BATCH_HEADER_BYTES].to_vec();
    header.write(&mut empty);
    let batch = Batch::read(&empty).unwrap();
    batch.validate().unwrap();
    assert_eq!(batch.records().unwrap().count(), 0);
    let BatchHeader { base_offset, attributes, base_timestamp, .. } = batch.header;
    assert_eq!((base_offset, attributes, base_timestamp), (7, 0, -1));
    assert_eq!(batch.header.next_offset(), 8, "the offsets stay");
}
