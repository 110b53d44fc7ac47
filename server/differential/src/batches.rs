//! Compares the record batches of two answers. They must be equal, except for producer ids, the
//! times that the server set, and the coordinator epochs of markers.

use crate::ids::Ids;
use muster_codec::Bytes;
use muster_codec::record_batch::{self, BatchHeader, TimestampType};
use serde_json::Value;
use std::ops::Range;

/// The header of a batch, and the bytes of its records.
type Batch = (BatchHeader, Vec<u8>);

/// Whether two fields have equal batches. A new producer id or coordinator epoch of Kafka is noted
/// as the counterpart of muster's: see [`Ids`].
pub fn same(kafka: &Value, muster: &Value, ids: &mut Ids) -> bool {
    let (Some(kafka), Some(muster)) = (batches(kafka), batches(muster)) else {
        return kafka == muster;
    };
    let (ours, theirs) = (kafka.0.iter(), muster.0.iter());
    kafka.1 == muster.1
        && kafka.0.len() == muster.0.len()
        && ours.zip(theirs).all(|(ours, theirs)| same_batch(ours, theirs, ids))
}

fn same_batch(kafka: &Batch, muster: &Batch, ids: &mut Ids) -> bool {
    let producer = |batch: &Batch| batch.0.producer_id.into();
    ids.same("producerId", &producer(kafka), &producer(muster))
        && ids.same("coordinatorEpoch", &coordinator_epoch(kafka), &coordinator_epoch(muster))
        && plain(kafka) == plain(muster)
}

/// The coordinator epoch in a marker; null in other batches.
fn coordinator_epoch((header, records): &Batch) -> Value {
    let epoch = epoch_at(records.len()).and_then(|at| records.get(at)?.first_chunk());
    let epoch = epoch.filter(|_| header.is_control());
    epoch.map_or(Value::Null, |bytes| i32::from_be_bytes(*bytes).into())
}

/// The place of the coordinator epoch in a marker's only record. The epoch is the end of the value,
/// and only the number of headers, one byte, follows it.
fn epoch_at(length: usize) -> Option<Range<usize>> {
    Some(length.checked_sub(5)?..length - 1)
}

/// A batch without the parts that may differ: its producer id, and the times that the server set.
/// In a marker, also the coordinator epoch.
fn plain((header, records): &Batch) -> Batch {
    let (mut header, mut records) = (*header, records.clone());
    header.producer_id = header.producer_id.min(0);
    if header.timestamp_type() == TimestampType::LogAppendTime {
        header.max_timestamp = 0;
    }
    if header.is_control() {
        (header.base_timestamp, header.max_timestamp) = (0, 0);
        if let Some(epoch) = epoch_at(records.len()).and_then(|at| records.get_mut(at)) {
            epoch.fill(0);
        }
    }
    (header, records)
}

/// The complete batches, and the bytes after them.
fn batches(value: &Value) -> Option<(Vec<Batch>, Vec<u8>)> {
    let bytes: Bytes<'_> = serde_json::from_value(value.clone()).ok()?;
    let (mut rest, mut batches) = (&bytes[..], Vec::new());
    while let Ok(header) = BatchHeader::read(rest) {
        let Some((batch, after)) = rest.split_at_checked(header.total_len()) else { break };
        // The checksum covers the producer id, so it differs. Only whether it is correct is
        // compared.
        let crc = record_batch::validate(batch).is_ok().into();
        batches.push((BatchHeader { crc, ..header }, batch[HEADER..].to_vec()));
        rest = after;
    }
    Some((batches, without_producer(rest)))
}

/// The size of a batch's header.
const HEADER: usize = 61;

/// The beginning of a batch, without its checksum and producer id.
fn without_producer(beginning: &[u8]) -> Vec<u8> {
    let is_left_out = |at: usize| (17..21).contains(&at) || (43..51).contains(&at);
    let bytes = beginning.iter().enumerate();
    bytes.map(|(at, byte)| if is_left_out(at) { 0 } else { *byte }).collect()
}

/// The offset after the last complete batch.
pub fn end(value: &Value) -> Option<i64> {
    batches(value)?.0.last().map(|(header, _)| header.next_offset())
}

/// Records as text, for a report.
pub fn outline(value: &Value) -> String {
    let Some((batches, rest)) = batches(value) else { return value.to_string() };
    let mut text: String = batches.iter().map(outline_of_one).collect();
    if !rest.is_empty() {
        text += &format!("{} bytes", rest.len());
    }
    text
}

fn outline_of_one((header, records): &Batch) -> String {
    let kind = match (header.is_control(), header.is_transactional()) {
        (true, _) => "marker",
        (_, true) => "transactional",
        _ => "plain",
    };
    let (epoch, sequence) = (header.producer_epoch, header.base_sequence);
    let (from, to) = (header.base_offset, header.last_offset());
    let producer = if header.has_producer_id() { "of a producer" } else { "" };
    let bytes = records.len();
    format!("[{from}-{to} {kind} {producer} epoch {epoch} sequence {sequence}, {bytes} bytes] ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::BatchBuilder;

    fn batch(producer_id: i64, attributes: i16, value: &[u8]) -> Value {
        let mut builder = BatchBuilder::default();
        builder.append(7, &(&b"key"[..], Some(value)));
        let mut bytes = builder.seal(3, -1).to_vec();
        let mut header = BatchHeader::read(&bytes).unwrap();
        header.set_transaction(producer_id, 1);
        header.attributes |= attributes;
        header.write(&mut bytes);
        serde_json::to_value(Bytes::from(bytes)).unwrap()
    }

    #[test]
    fn producers_are_bound_and_other_bytes_compared() {
        let mut ids = Ids::default();
        assert!(same(&batch(1, 0, b"a"), &batch(5, 0, b"a"), &mut ids));
        assert!(!same(&batch(1, 0, b"a"), &batch(6, 0, b"a"), &mut ids), "1 is 5");
        assert!(!same(&batch(1, 0, b"a"), &batch(5, 0, b"b"), &mut ids));
        assert!(!same(&batch(1, 0, b"a"), &batch(5, 0x20, b"a"), &mut ids));
    }

    #[test]
    fn the_epochs_of_coordinators_are_bound() {
        const CONTROL: i16 = 0x20;
        let mut ids = Ids::default();
        let marker = |epoch| batch(1, CONTROL, &[0, 0, 0, 0, 0, epoch]);
        assert!(same(&marker(0), &marker(9), &mut ids));
        assert!(!same(&marker(0), &marker(8), &mut ids), "0 is 9");
        let other = batch(1, CONTROL, &[0, 1, 0, 0, 0, 0]);
        assert!(!same(&marker(0), &other, &mut ids), "another version of the value");
    }
}
