//! The batches of records that a producer writes.

use bytes::{Bytes, BytesMut};
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Record,
    RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

use crate::member::error::{Fatal, Step};
use crate::member::numbered::Numbered;

/// The id and epoch that InitProducerId gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProducerId {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// The values of a batch that differ from those of the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// `None` for a producer that is not idempotent.
    pub(super) by: Option<ProducerId>,
    pub(super) transactional: bool,
    pub(super) sequence: i32,
    /// Milliseconds since 1970.
    pub(super) timestamp: i64,
    /// The number of the first record, if they have numbers.
    pub(super) numbered: Option<Numbered>,
}

/// A batch of records that all have this value.
pub(super) fn encode(stamp: Stamp, records: u32, value: &Bytes) -> Step<Bytes> {
    let records: Vec<_> = (0..i64::from(records)).map(|at| record(stamp, at, value)).collect();
    let mut batch = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut batch, &records, &options)
        .map_err(|error| Fatal(format!("a batch of records cannot be encoded: {error}")))?;
    Ok(batch.freeze())
}

fn record(stamp: Stamp, at: i64, value: &Bytes) -> Record {
    let by = stamp.by.unwrap_or(ProducerId { id: NO_PRODUCER_ID, epoch: NO_PRODUCER_EPOCH });
    let base = if stamp.by.is_some() { stamp.sequence } else { NO_SEQUENCE };
    Record {
        transactional: stamp.transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        producer_id: by.id,
        producer_epoch: by.epoch,
        timestamp_type: TimestampType::Creation,
        offset: at,
        sequence: base.wrapping_add(at as i32),
        timestamp: stamp.timestamp,
        key: stamp.numbered.map(|first| Numbered { place: at as u32, ..first }.key()),
        value: Some(value.clone()),
        headers: Default::default(),
    }
}

/// The sequence number that many records later: after 2147483647 comes 0.
pub(super) fn sequence_after(sequence: i32, records: u32) -> i32 {
    ((i64::from(sequence) + i64::from(records)) & i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use kafka_protocol::records::RecordBatchDecoder;

    use super::*;

    fn decoded(stamp: Stamp) -> Vec<Record> {
        let mut batch = encode(stamp, 3, &Bytes::from_static(b"value")).unwrap();
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
        let batch = encode(stamp, 3, &Bytes::from_static(b"value")).unwrap();
        // Attributes, then last offset delta and timestamps, then producer, epoch, base sequence.
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
