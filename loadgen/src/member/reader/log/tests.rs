//! Logs with aborted transactions, control batches and batches that are cut off.

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use muster_codec::messages::AbortedTransaction;
use proptest::prelude::*;

use super::*;
use crate::plan::{MemberIndex, TopicIndex};

const P: Partition = Partition { topic: TopicIndex(0), number: 1 };

/// A batch that begins at this offset, with a record for each key.
fn batch(base: i64, producer: i64, control: bool, keys: &[Bytes]) -> Vec<u8> {
    let records = keys.iter().zip(base..).map(|(key, offset)| Record {
        transactional: true,
        control,
        delete_horizon: false,
        partition_leader_epoch: 0,
        producer_id: producer,
        producer_epoch: 0,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: (offset - base) as i32,
        timestamp: 1_000,
        key: Some(key.clone()),
        value: Some(Bytes::from_static(b"value")),
        headers: Default::default(),
    });
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &Vec::from_iter(records), &options).unwrap();
    bytes.to_vec()
}

/// A batch with two records of a transaction.
fn written(base: i64, producer: u32, number: u64) -> Vec<u8> {
    let key = |place| Numbered { producer: MemberIndex(producer), number, place }.key();
    batch(base, producer.into(), false, &[key(0), key(1)])
}

fn ended(base: i64, producer: i64, committed: bool) -> Vec<u8> {
    batch(base, producer, true, &[Bytes::from(vec![0, 0, 0, u8::from(committed)])])
}

fn data(batches: &[Vec<u8>], aborted: &[(i64, i64)]) -> PartitionData<'static> {
    let aborted = aborted.iter();
    let aborted = aborted.map(|(producer_id, first_offset)| AbortedTransaction {
        producer_id: *producer_id,
        first_offset: *first_offset,
    });
    PartitionData {
        aborted_transactions: Some(aborted.collect()),
        records: Some(batches.concat().into()),
        ..PartitionData::default()
    }
}

fn read_from(from: i64, data: &PartitionData<'_>, isolation: Isolation) -> Log {
    read(P, from, data, isolation).unwrap_or_else(|Fatal(why)| panic!("{why}"))
}

fn returned(offset: i64, producer: u32, number: u64, first: u32, count: u32) -> Returned {
    Returned { partition: P, offset, producer: MemberIndex(producer), number, first, count }
}

#[test]
fn aborted_records_and_markers_are_left_out() {
    // Producers 1 and 2 write at the same time. Producer 1 aborts its first transaction, and
    // commits the second.
    let batches = [
        written(0, 1, 10),
        written(2, 2, 20),
        ended(4, 1, false),
        ended(5, 2, true),
        written(6, 1, 11),
        ended(8, 1, true),
    ];
    let data = data(&batches, &[(1, 0)]);
    let log = read_from(0, &data, Isolation::ReadCommitted);
    let committed = [returned(2, 2, 20, 0, 2), returned(6, 1, 11, 0, 2)];
    assert_eq!(log, Log { returned: committed.into(), next: 9 });
    let all = read_from(0, &data, Isolation::ReadUncommitted);
    assert_eq!(all.returned, [vec![returned(0, 1, 10, 0, 2)], committed.into()].concat());
}

#[test]
fn an_abort_list_is_followed_in_the_order_of_its_offsets() {
    let batches = [written(0, 1, 10), ended(2, 1, false), written(3, 1, 11), ended(5, 1, false)];
    let log = read_from(0, &data(&batches, &[(1, 3), (1, 0)]), Isolation::ReadCommitted);
    assert_eq!(log, Log { returned: Vec::new(), next: 6 });
}

#[test]
fn reading_continues_within_a_batch_and_before_one_that_is_cut_off() {
    let mut last = written(4, 1, 12);
    last.truncate(last.len() - 1);
    let data = data(&[written(0, 1, 10), written(2, 1, 11), last], &[]);
    let log = read_from(1, &data, Isolation::ReadCommitted);
    let expected = [returned(1, 1, 10, 1, 1), returned(2, 1, 11, 0, 2)];
    assert_eq!(log, Log { returned: expected.into(), next: 4 });
}

#[test]
fn a_batch_that_no_reader_understands_is_an_error() {
    let mut compressed = written(0, 1, 10);
    compressed[22] |= 1;
    let mut cut = written(0, 1, 10);
    cut[60] = 3;
    for (bytes, what) in [(compressed, "compressed"), (cut, "ends too early")] {
        let Err(Fatal(why)) = read(P, 0, &data(&[bytes], &[]), Isolation::ReadCommitted) else {
            panic!("{what}");
        };
        assert!(why.contains(what), "{why}");
    }
}

proptest! {
    #[test]
    fn damaged_bytes_never_panic(at in 0usize..200, to in any::<u8>(), cut in 0usize..400) {
        let mut bytes = [written(0, 1, 10), ended(2, 1, false), written(3, 2, 20)].concat();
        let length = bytes.len();
        bytes[at % length] = to;
        bytes.truncate(cut.max(1));
        let _ = read(P, 0, &data(&[bytes], &[(1, 0)]), Isolation::ReadCommitted);
    }
}
