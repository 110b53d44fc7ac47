//! The batches of records that a producer writes.

use muster_codec::limits::RECORD_BATCH_HEADER_BYTES;
use muster_codec::record_batch::{BatchHeader, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE};
use muster_codec::wire::{put_i8, put_varint, varlong_len};

use crate::member::numbered::Numbered;

const TRANSACTIONAL: i16 = 1 << 4;
/// The epoch of a leader that the producer does not know.
const NO_LEADER_EPOCH: i32 = -1;

/// The producer id and epoch from InitProducerId.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProducerId {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// The values in a batch that differ from one batch to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// `None` for a producer without idempotence.
    pub(super) by: Option<ProducerId>,
    pub(super) transactional: bool,
    pub(super) sequence: i32,
    /// Milliseconds since 1970.
    pub(super) timestamp: i64,
    /// The number of the first record. `None` if records are not numbered.
    pub(super) numbered: Option<Numbered>,
}

/// Encodes a batch whose records all have this value.
pub(super) fn encode(stamp: Stamp, records: u32, value: &[u8]) -> Vec<u8> {
    let by = stamp.by.unwrap_or(ProducerId { id: NO_PRODUCER_ID, epoch: NO_PRODUCER_EPOCH });
    let mut batch = vec![0; RECORD_BATCH_HEADER_BYTES];
    (0..records).for_each(|at| put_record(&mut batch, stamp, at, value));
    let header = BatchHeader {
        base_offset: 0,
        batch_length: 0,
        partition_leader_epoch: NO_LEADER_EPOCH,
        crc: 0,
        attributes: if stamp.transactional { TRANSACTIONAL } else { 0 },
        last_offset_delta: records as i32 - 1,
        base_timestamp: stamp.timestamp,
        max_timestamp: stamp.timestamp,
        producer_id: by.id,
        producer_epoch: by.epoch,
        base_sequence: if stamp.by.is_some() { stamp.sequence } else { NO_SEQUENCE },
        records_count: records as i32,
    };
    header.write(&mut batch);
    batch
}

fn put_record(out: &mut Vec<u8>, stamp: Stamp, at: u32, value: &[u8]) {
    let key = stamp.numbered.map(|first| Numbered { place: at, ..first }.key());
    let key_length = key.as_ref().map_or(-1, |key| key.len() as i32);
    let (place, length) = (at as i32, value.len() as i32);
    let numbers = [0, place, key_length, length, 0];
    let of_numbers: usize = numbers.iter().map(|number| varlong_len(i64::from(*number))).sum();
    let attributes = 1;
    let size = attributes + of_numbers + key.as_ref().map_or(0, |key| key.len()) + value.len();
    put_varint(out, size as i32);
    put_i8(out, 0);
    put_varint(out, 0); // delta to the first timestamp
    put_varint(out, place);
    put_varint(out, key_length);
    out.extend_from_slice(key.as_deref().unwrap_or_default());
    put_varint(out, length);
    out.extend_from_slice(value);
    put_varint(out, 0); // number of headers
}

/// The sequence number after `records` records of which the first has the number `sequence`.
/// Numbers wrap from 2147483647 to 0.
pub(super) fn sequence_after(sequence: i32, records: u32) -> i32 {
    ((i64::from(sequence) + i64::from(records)) & i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::records::{Record, RecordBatchDecoder};

    use super::*;

    fn decoded(stamp: Stamp) -> Vec<Record> {
        let mut batch = Bytes::from(encode(stamp, 3, b"value"));
        RecordBatchDecoder::decode(&mut batch).unwrap().records
    }

    #[test]
    fn a_batch_is_one_with_its_producer_and_sequence() {
        let by = Some(ProducerId { id: 7, epoch: 2 });
        let stamp = Stamp {
            by,
            transactional: true,
            sequence: 40,
            timestamp: 1_700_000_000_000,
            numbered: None,
        };
        let records = decoded(stamp);
        assert_eq!(records.len(), 3);
        for (at, record) in (0..).zip(&records) {
            assert_eq!((record.producer_id, record.producer_epoch), (7, 2));
            assert_eq!((record.offset, record.sequence), (at, 40 + at as i32));
            assert!(record.transactional && record.timestamp == stamp.timestamp);
            assert_eq!(record.value.as_deref(), Some(&b"value"[..]));
        }
    }

    #[test]
    fn a_plain_batch_has_no_producer() {
        let stamp =
            Stamp { by: None, transactional: false, sequence: 9, timestamp: 1, numbered: None };
        let batch = encode(stamp, 3, b"value");
        // The attributes; and the producer id, the epoch and the base sequence.
        assert_eq!(batch[21..23], [0, 0]);
        assert_eq!(batch[43..57], [0xff; 14]);
    }

    #[test]
    fn sequences_continue_with_zero() {
        assert_eq!(sequence_after(5, 3), 8);
        assert_eq!(sequence_after(i32::MAX, 1), 0);
        assert_eq!(sequence_after(i32::MAX - 1, 3), 1);
    }
}
