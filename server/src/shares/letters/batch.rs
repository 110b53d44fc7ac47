//! Letters as records: one record for each offset, with headers that name its source.

use muster_codec::record_batch::{BatchBuilder, BatchHeader, NO_SEQUENCE};
use muster_shares::SharePartitionKey;
use muster_shares::partition::Letter;

/// The leader epoch in batches of producers.
const NO_LEADER_EPOCH: i32 = -1;

/// A source record whose key and value are copied to the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) offset: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

/// The records of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'w> {
    pub(super) key: &'w SharePartitionKey,
    /// The name of the source topic.
    pub(super) topic: &'w str,
    pub(super) letter: Letter,
    pub(super) first: i64,
    pub(super) last: i64,
    /// The copied source records, in order. An offset without a copy has a letter of headers only.
    pub(super) copied: &'w [Copied],
    /// The time in ms since the epoch.
    pub(super) now: i64,
    /// The intended size of a batch in bytes. A single record may be larger.
    pub(super) batch_bytes: usize,
    /// The maximum size of a batch, in bytes, that the queue accepts. If a copy makes even a single
    /// letter larger than this, the letter is sent without the copy.
    pub(super) max_bytes: usize,
}

/// The batch with as many records as fit, and the offset of the last record.
pub(super) fn batch(wanted: &Wanted<'_>) -> (Vec<u8>, i64) {
    let Wanted { first, last, batch_bytes, max_bytes, .. } = *wanted;
    let mut builder = BatchBuilder::default();
    let mut upto = first;
    for offset in first..=last {
        let mark = builder.mark();
        append(&mut builder, wanted, offset);
        if builder.len() > batch_bytes && builder.records() > 1 {
            builder.rewind(mark);
            break;
        }
        if builder.len() > max_bytes {
            builder = BatchBuilder::default();
            append(&mut builder, &Wanted { copied: &[], ..*wanted }, offset);
        }
        upto = offset;
        if builder.len() > batch_bytes {
            break;
        }
    }
    let mut batch = builder.seal(0, NO_LEADER_EPOCH).to_vec();
    if let Ok(header) = BatchHeader::read(&batch) {
        BatchHeader { base_sequence: NO_SEQUENCE, ..header }.write(&mut batch);
    }
    (batch, upto)
}

fn append(builder: &mut BatchBuilder, wanted: &Wanted<'_>, offset: i64) {
    let Wanted { key, topic, letter, copied, now, .. } = *wanted;
    let found = copied.binary_search_by_key(&offset, |it| it.offset);
    let source = found.ok().map(|at| &copied[at]);
    let (partition, of) = (key.partition.to_string(), offset.to_string());
    let count = letter.delivery_count.to_string();
    let headers = [
        ("__dlq.errors.topic", topic),
        ("__dlq.errors.partition", &partition),
        ("__dlq.errors.offset", &of),
        ("__dlq.errors.group", &key.group_id),
        ("__dlq.errors.delivery.count", &count),
        ("__dlq.errors.message", letter.cause.words()),
    ];
    let headers = headers.map(|(name, value)| (name, value.as_bytes()));
    let key = source.and_then(|it| it.key.as_deref());
    let value = source.and_then(|it| it.value.as_deref());
    builder.append_with_headers(now, key, value, &headers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::Uuid;
    use muster_codec::record_batch::Batch;
    use muster_shares::partition::Cause;

    fn letter(first: i64, last: i64) -> Letter {
        Letter { first, last, delivery_count: 1, cause: Cause::Rejected }
    }

    fn made(first: i64, last: i64, copied: &[Copied], max_bytes: usize) -> (Vec<u8>, i64) {
        let key = SharePartitionKey::new("sg", Uuid([1; 16]), 1);
        let letter = letter(first, last);
        let now = 1_700_000_000_000;
        let wanted = Wanted {
            key: &key,
            topic: "orders",
            letter,
            first,
            last,
            copied,
            now,
            batch_bytes: max_bytes.min(10_000),
            max_bytes,
        };
        batch(&wanted)
    }

    /// The payload of the record is: attributes, deltas, no key, the value, six headers.
    #[test]
    fn a_letter_has_kafkas_headers_in_their_order() {
        let copied = [Copied { offset: 0, key: None, value: Some(b"v1".to_vec()) }];
        let (bytes, upto) = made(0, 0, &copied, 1_000);
        let batch = Batch::read(&bytes).unwrap();
        batch.validate().unwrap();
        let header = batch.header;
        assert_eq!((upto, header.records_count, header.last_offset_delta), (0, 1, 0));
        let times = [header.base_timestamp, header.max_timestamp];
        assert_eq!(times, [1_700_000_000_000; 2]);
        assert_eq!((header.attributes, header.base_sequence), (0, NO_SEQUENCE));
        let mut expected = vec![0, 0, 0, 1, 4];
        expected.extend(b"v1\x0c");
        for (name, value) in [
            ("__dlq.errors.topic", "orders"),
            ("__dlq.errors.partition", "1"),
            ("__dlq.errors.offset", "0"),
            ("__dlq.errors.group", "sg"),
            ("__dlq.errors.delivery.count", "1"),
            ("__dlq.errors.message", "Offset rejected by client."),
        ] {
            expected.push(2 * name.len() as u8);
            expected.extend(name.as_bytes());
            expected.push(2 * value.len() as u8);
            expected.extend(value.as_bytes());
        }
        // The length of the record is a varint of two bytes.
        assert_eq!(batch.payload()[2..], expected);
    }

    #[test]
    fn a_batch_has_as_many_letters_as_fit() {
        let (whole, upto) = made(5, 14, &[], 10_000);
        assert_eq!((Batch::read(&whole).unwrap().header.records_count, upto), (10, 14));
        let (part, upto) = made(5, 14, &[], whole.len() - 1);
        assert_eq!((Batch::read(&part).unwrap().header.records_count, upto), (9, 13));
        // A record that is too large is sent alone, and the queue refuses it.
        let (one, upto) = made(5, 14, &[], 10);
        assert_eq!((Batch::read(&one).unwrap().header.records_count, upto), (1, 5));
    }

    #[test]
    fn a_long_record_goes_alone_and_without_its_copy_if_the_queue_would_refuse_it() {
        let copied = [Copied { offset: 5, key: None, value: Some(vec![b'v'; 20_000]) }];
        let (bytes, upto) = made(5, 6, &copied, 30_000);
        assert_eq!((Batch::read(&bytes).unwrap().header.records_count, upto), (1, 5));
        assert!(bytes.len() > 20_000);
        let (bytes, upto) = made(5, 6, &copied, 15_000);
        let batch = Batch::read(&bytes).unwrap();
        batch.validate().unwrap();
        assert_eq!((batch.header.records_count, upto), (2, 6));
        let values = batch.records().unwrap().map(|it| it.unwrap().value);
        assert_eq!(values.collect::<Vec<_>>(), [None, None]);
    }
}
