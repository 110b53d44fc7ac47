//! Compressed batches for a topic that limits the size of their records
//! (`max.decompressed.message.bytes`). The expected errors are the errors of a Kafka 4.4 broker.

use super::super::Partitions;
use super::super::limits::DECOMPRESSED_BYTES_MAX;
use super::support::*;
use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::messages::PartitionProduceResponse;
use muster_codec::record_batch::{BatchBuilder, BatchHeader, Compression};
use muster_codec::{ErrorCode, Response};
use muster_compression::compress;

const LIMIT: usize = 500;

const CODECS: [Compression; 4] =
    [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// The size of a record of [`Content`], without the value and without the record's length field.
const BESIDE_VALUE_BYTES: usize = 8;

/// The records of a batch, before compression.
struct Content {
    header: BatchHeader,
    records: Vec<u8>,
}

impl Content {
    /// Records with these timestamps, keys and sizes.
    fn of(records: &[(i64, Option<&[u8]>, usize)]) -> Self {
        let mut builder = BatchBuilder::default();
        for (time, key, bytes) in records {
            let value = vec![b'x'; bytes - BESIDE_VALUE_BYTES];
            builder.append_with_headers(*time, *key, Some(&value), &[]);
        }
        let batch = builder.seal(0, -1);
        let records = batch[RECORD_BATCH_HEADER_BYTES..].to_vec();
        Self { header: BatchHeader::read(batch).unwrap(), records }
    }

    fn of_sizes(sizes: &[usize]) -> Self {
        Self::of(&sizes.iter().map(|bytes| (NOW, Some(&b"k"[..]), *bytes)).collect::<Vec<_>>())
    }

    fn with_count(mut self, count: i32) -> Self {
        self.header.records_count = count;
        self.header.last_offset_delta = count - 1;
        self
    }

    fn with_records(mut self, change: impl FnOnce(&mut Vec<u8>)) -> Self {
        change(&mut self.records);
        self
    }

    fn compressed(&self, codec: Compression) -> Vec<u8> {
        let mut payload = Vec::new();
        compress(codec, &self.records, &mut payload).unwrap();
        self.with_payload(codec, &payload)
    }

    fn with_payload(&self, codec: Compression, payload: &[u8]) -> Vec<u8> {
        let header = BatchHeader { attributes: codec as i16, ..self.header };
        let mut batch = vec![0; RECORD_BATCH_HEADER_BYTES];
        batch.extend_from_slice(payload);
        header.write(&mut batch);
        batch
    }
}

fn limited(policy: &str) -> World {
    let mut world = World::new();
    world.set("max.decompressed.message.bytes", &LIMIT.to_string());
    world.set("cleanup.policy", policy);
    world
}

fn produced(world: &mut World, batch: &[u8]) -> (ErrorCode, PartitionProduceResponse<'static>) {
    let answer = world.produce(0, batch);
    (error(answer.error_code), answer)
}

#[test]
fn a_compressed_record_may_have_as_many_bytes_as_the_topic_says() {
    for codec in CODECS {
        let mut world = limited("delete");
        assert_eq!(world.append(0, &Content::of_sizes(&[LIMIT]).compressed(codec)), 0);
        assert_eq!(world.append(0, &Content::of_sizes(&[300; 20]).compressed(codec)), 1);
        for sizes in [&[LIMIT + 1][..], &[100, LIMIT + 1], &[100_000]] {
            let (error, answer) = produced(&mut world, &Content::of_sizes(sizes).compressed(codec));
            assert_eq!(error, ErrorCode::InvalidRecord, "{codec:?} {sizes:?}");
            assert_eq!((answer.base_offset, answer.log_start_offset), (-1, 0));
        }
        assert_eq!(
            world.append(0, &Content::of_sizes(&[LIMIT + 1]).compressed(Compression::None)),
            21
        );
    }
}

#[test]
fn an_altered_limit_is_obeyed_at_once() {
    let mut world = World::new();
    let batch = Content::of_sizes(&[LIMIT + 1]).compressed(Compression::Zstd);
    world.append(0, &batch);
    world.set("max.decompressed.message.bytes", &LIMIT.to_string());
    assert_eq!(produced(&mut world, &batch).0, ErrorCode::InvalidRecord);
    world.set("max.decompressed.message.bytes", &(LIMIT + 1).to_string());
    world.append(0, &batch);
}

#[test]
fn records_that_are_decompressed_are_checked_as_others_are() {
    let late = (NOW + 10_000_000, Some(&b"k"[..]), 100);
    let keyless = (NOW, None, 100);
    let over = (NOW, Some(&b"k"[..]), LIMIT + 1);
    let (none, record) = (ErrorCode::None, ErrorCode::InvalidRecord);
    let (time, unknown) = (ErrorCode::InvalidTimestamp, ErrorCode::UnknownServerError);
    let cut = |by: usize| move |records: &mut Vec<u8>| records.truncate(records.len() - by);
    let gap = |records: &mut Vec<u8>| {
        // A record begins with its length, its attributes and the time delta. Then comes the offset
        // delta.
        let second = records.len() / 2;
        records[second + 4] = 4;
    };
    for (what, content, of_delete, of_compact) in [
        ("a late record", Content::of(&[late]), time, time),
        ("a late record and one too large", Content::of(&[late, over]), record, record),
        ("a record without key", Content::of(&[keyless]), none, record),
        ("one without key and one too large", Content::of(&[keyless, over]), record, record),
        ("a record cut off", Content::of_sizes(&[300]).with_records(cut(20)), record, record),
        ("a large one cut off", Content::of_sizes(&[600]).with_records(cut(300)), record, record),
        ("fewer records than said", Content::of_sizes(&[100]).with_count(2), record, record),
        ("more records than said", Content::of_sizes(&[100; 2]).with_count(1), record, record),
        ("a gap", Content::of_sizes(&[100; 2]).with_records(gap), unknown, unknown),
        ("no content", Content::of_sizes(&[100]).with_records(Vec::clear), unknown, unknown),
    ] {
        for codec in CODECS {
            let batch = content.compressed(codec);
            assert_eq!(produced(&mut limited("delete"), &batch).0, of_delete, "{what}, {codec:?}");
            let compact = produced(&mut limited("compact"), &batch).0;
            assert_eq!(compact, of_compact, "{what}, {codec:?}, compacted");
        }
    }
}

#[test]
fn bytes_that_are_not_compressed_as_the_header_says_are_no_records() {
    let content = Content::of_sizes(&[300]);
    for codec in CODECS {
        for payload in [&b""[..], b"abcdefghabcdefgh"] {
            let batch = content.with_payload(codec, payload);
            let error = produced(&mut limited("delete"), &batch).0;
            assert_eq!(error, ErrorCode::UnknownServerError, "{codec:?} {payload:?}");
        }
    }
    let batch = content.compressed(Compression::Gzip);
    let payload = &batch[RECORD_BATCH_HEADER_BYTES..];
    let batch = content.with_payload(Compression::Gzip, &payload[..payload.len() - 8]);
    assert_eq!(produced(&mut limited("delete"), &batch).0, ErrorCode::InvalidRecord, "its trailer");
}

/// A batch with this number of records of 1 MiB, which compress well.
fn of_mib(mib: usize) -> Vec<u8> {
    let batch = Content::of_sizes(&vec![1 << 20; mib]).compressed(Compression::Gzip);
    assert!(batch.len() < 1 << 20, "{} bytes", batch.len());
    batch
}

/// Kafka decompresses batches in several threads. Here a shard does nothing else while it
/// decompresses.
#[test]
fn a_batch_is_decompressed_up_to_a_bound() {
    let mut world = limited("delete");
    world.set("max.decompressed.message.bytes", &(1 << 21).to_string());
    let max = DECOMPRESSED_BYTES_MAX >> 20;
    assert_eq!(produced(&mut world, &of_mib(max + 1)).0, ErrorCode::InvalidRecord);
    assert_eq!(produced(&mut world, &of_mib(max - 1)).0, ErrorCode::None);
}

#[test]
fn the_batches_of_a_request_share_the_bound_and_the_others_are_sent_again() {
    let mut world = limited("delete");
    world.set("max.decompressed.message.bytes", &(1 << 21).to_string());
    let batch = of_mib((DECOMPRESSED_BYTES_MAX >> 20) * 2 / 3);
    let mut request = produce_request(-1, 0, &batch);
    let other = produce_request(-1, 1, &batch).topic_data.remove(0).partition_data;
    request.topic_data[0].partition_data.extend(other);
    let produce = world.call(9, &request, Partitions::produce);
    world.settle();
    let Some(Response::Produce(response)) = world.response(produce) else { panic!("no answer") };
    let errors = response.responses[0].partition_responses.iter().map(|it| error(it.error_code));
    // Entries are handled from the last to the first.
    assert_eq!(errors.collect::<Vec<_>>(), [ErrorCode::RequestTimedOut, ErrorCode::None]);
    assert_eq!(world.append(0, &batch), 0);
}
