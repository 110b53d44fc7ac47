//! Builds a batch out of records, as Kafka's coordinator does.

use super::header::COORDINATOR_SEQUENCE;
use super::{BatchHeader, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Producer};
use crate::limits::RECORD_BATCH_HEADER_BYTES;
use crate::records::{ClusterRecord, GroupRecord, ShareRecord, TransactionRecord};
use crate::wire::{put_i8, put_varint, put_varlong, varlong_len};

/// The largest buffer, in bytes, that a builder keeps when it is cleared.
pub const BUFFER_BYTES_KEPT: usize = 256 << 10;

/// A type that can be written as a record.
pub trait WriteRecord {
    /// Appends the key.
    fn write_key(&self, out: &mut Vec<u8>);

    /// Appends the value and returns true. For a tombstone, appends nothing and returns false.
    fn write_value(&self, out: &mut Vec<u8>) -> bool;
}

impl<T: WriteRecord + ?Sized> WriteRecord for &T {
    fn write_key(&self, out: &mut Vec<u8>) {
        (**self).write_key(out);
    }

    fn write_value(&self, out: &mut Vec<u8>) -> bool {
        (**self).write_value(out)
    }
}

impl WriteRecord for GroupRecord<'_> {
    fn write_key(&self, out: &mut Vec<u8>) {
        GroupRecord::write_key(self, out);
    }

    fn write_value(&self, out: &mut Vec<u8>) -> bool {
        GroupRecord::write_value(self, out)
    }
}

impl WriteRecord for ClusterRecord<'_> {
    fn write_key(&self, out: &mut Vec<u8>) {
        ClusterRecord::write_key(self, out);
    }

    fn write_value(&self, out: &mut Vec<u8>) -> bool {
        ClusterRecord::write_value(self, out)
    }
}

impl WriteRecord for TransactionRecord<'_> {
    fn write_key(&self, out: &mut Vec<u8>) {
        TransactionRecord::write_key(self, out);
    }

    fn write_value(&self, out: &mut Vec<u8>) -> bool {
        TransactionRecord::write_value(self, out)
    }
}

impl WriteRecord for ShareRecord<'_> {
    fn write_key(&self, out: &mut Vec<u8>) {
        ShareRecord::write_key(self, out);
    }

    fn write_value(&self, out: &mut Vec<u8>) -> bool {
        ShareRecord::write_value(self, out)
    }
}

/// An already serialized key and value.
impl WriteRecord for (&[u8], Option<&[u8]>) {
    fn write_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }

    fn write_value(&self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.1.unwrap_or_default());
        self.1.is_some()
    }
}

/// Gathers the records of a batch. The buffer is reused for the next batch. As in batches of
/// Kafka's coordinator, the timestamp type is CREATE_TIME, nothing is compressed, and the base
/// sequence is 0. Only a batch in a transaction has a producer id.
#[derive(Debug)]
pub struct BatchBuilder {
    /// Space for the header, followed by the records.
    buffer: Vec<u8>,
    records: i32,
    base_timestamp: i64,
    max_timestamp: i64,
}

/// A state of a [`BatchBuilder`] to which [`BatchBuilder::rewind`] returns.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    len: usize,
    records: i32,
    max_timestamp: i64,
}

impl Default for BatchBuilder {
    fn default() -> Self {
        let buffer = vec![0; RECORD_BATCH_HEADER_BYTES];
        let (base_timestamp, max_timestamp) = (NO_TIMESTAMP, NO_TIMESTAMP);
        Self { buffer, records: 0, base_timestamp, max_timestamp }
    }
}

impl BatchBuilder {
    /// Appends a record without headers; `timestamp` is in ms since the epoch.
    pub fn append(&mut self, timestamp: i64, record: &impl WriteRecord) {
        self.append_fields(timestamp, |out| {
            let key_at = out.len();
            record.write_key(out);
            let key_len = out.len() - key_at;
            insert_varint(out, key_at, key_len);
            let value_at = out.len();
            if record.write_value(out) {
                let value_len = out.len() - value_at;
                insert_varint(out, value_at, value_len);
            } else {
                debug_assert_eq!(out.len(), value_at, "a tombstone wrote a value");
                put_varint(out, -1);
            }
            put_varint(out, 0);
        });
    }

    /// Appends a record with headers, given as (name, value). Key and value may be null.
    pub fn append_with_headers(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, &[u8])],
    ) {
        self.append_fields(timestamp, |out| {
            put_nullable(out, key);
            put_nullable(out, value);
            put_varint(out, headers.len() as i32);
            for (name, value) in headers {
                put_nullable(out, Some(name.as_bytes()));
                put_nullable(out, Some(value));
            }
        });
    }

    /// Appends a record. It writes the fields up to the offset itself, and `write` appends the
    /// fields after it.
    #[inline]
    fn append_fields(&mut self, timestamp: i64, write: impl FnOnce(&mut Vec<u8>)) {
        if self.records == 0 {
            self.base_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let start = self.buffer.len();
        let out = &mut self.buffer;
        put_i8(out, 0);
        put_varlong(out, timestamp.wrapping_sub(self.base_timestamp));
        put_varint(out, self.records);
        write(out);
        let record_len = out.len() - start;
        insert_varint(out, start, record_len);
        self.records += 1;
    }

    /// Completes the batch; `base_offset` is the offset of its first record.
    ///
    /// # Panics
    /// The batch has no record.
    pub fn seal(&mut self, base_offset: i64, partition_leader_epoch: i32) -> &[u8] {
        let header = self.header(base_offset, partition_leader_epoch);
        header.write(&mut self.buffer);
        &self.buffer
    }

    /// Like [`Self::seal`], for a batch in a transaction of this producer.
    ///
    /// # Panics
    /// The batch has no record.
    pub fn seal_in_transaction(
        &mut self,
        base_offset: i64,
        partition_leader_epoch: i32,
        producer: Producer,
    ) -> &[u8] {
        let mut header = self.header(base_offset, partition_leader_epoch);
        header.set_transaction(producer.id, producer.epoch);
        header.write(&mut self.buffer);
        &self.buffer
    }

    /// The current state, to which [`Self::rewind`] can return.
    pub fn mark(&self) -> Mark {
        let Self { records, max_timestamp, .. } = *self;
        Mark { len: self.buffer.len(), records, max_timestamp }
    }

    /// Removes the records that were appended since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        assert!(mark.len <= self.buffer.len() && mark.records <= self.records);
        self.buffer.truncate(mark.len);
        self.records = mark.records;
        self.max_timestamp = mark.max_timestamp;
    }

    /// Removes all records. The buffer shrinks to [`BUFFER_BYTES_KEPT`]: there are many builders,
    /// and few of them need a large buffer for long.
    pub fn clear(&mut self) {
        self.buffer.truncate(RECORD_BATCH_HEADER_BYTES);
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        self.records = 0;
    }

    /// The length of the batch in bytes, header included.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub fn records(&self) -> i32 {
        self.records
    }

    fn header(&self, base_offset: i64, partition_leader_epoch: i32) -> BatchHeader {
        assert!(self.records > 0, "a batch without records");
        BatchHeader {
            base_offset,
            batch_length: 0,
            partition_leader_epoch,
            crc: 0,
            attributes: 0,
            last_offset_delta: self.records - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: COORDINATOR_SEQUENCE,
            records_count: self.records,
        }
    }
}

/// Appends a varint length and the bytes; the length is -1 for null.
fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_varint(out, bytes.map_or(-1, |it| it.len() as i32));
    out.extend_from_slice(bytes.unwrap_or_default());
}

/// Inserts a length at `at`, in front of the bytes that it counts. These are moved by a byte or
/// two: records are short, so this is cheaper than to compute the length before they are written.
fn insert_varint(out: &mut Vec<u8>, at: usize, value: usize) {
    let width = varlong_len(value as i64);
    let end = out.len();
    debug_assert_eq!(value, end - at);
    put_varint(out, value as i32);
    debug_assert_eq!(out.len(), end + width);
    out[at..].rotate_right(width);
}
