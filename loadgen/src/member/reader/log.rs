//! The batches of a fetched partition. With `read_committed` a broker returns aborted records, too,
//! and a list of aborted transactions: the reader leaves those records out, as the Java client does
//! it (`CompletedFetch`).

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::PartitionData;

use crate::event::Returned;
use crate::member::error::{Fatal, Step};
use crate::member::numbered::Numbered;
use crate::plan::{Isolation, Partition};

/// The bytes of a batch before its records; the length field does not count the first 12.
const HEADER: usize = 61;
const BEFORE_LENGTH: usize = 12;
const MAGIC: u8 = 2;
const COMPRESSION: i16 = 0b111;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
/// The key of a control record that ends a transaction by aborting it: version and type.
const ABORT: [u8; 4] = [0, 0, 0, 0];

/// The records in an answer, and the offset of the next one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Log {
    pub(super) returned: Vec<Returned>,
    pub(super) next: i64,
}

/// Reads what was fetched from the offset `from` on.
pub(super) fn read(
    partition: Partition,
    from: i64,
    data: &PartitionData,
    isolation: Isolation,
) -> Step<Log> {
    let mut log = Log { returned: Vec::new(), next: from };
    let mut aborted = match isolation {
        Isolation::ReadCommitted => Aborted::of(data),
        Isolation::ReadUncommitted => Aborted::default(),
    };
    let mut rest = data.records.clone().unwrap_or_default();
    while let Some(batch) = Batch::next(&mut rest).map_err(|what| malformed(partition, what))? {
        let skipped = aborted.has(&batch);
        if !batch.is_control() && !skipped {
            log.take(partition, &batch).map_err(|what| malformed(partition, what))?;
        }
        log.next = log.next.max(batch.last.saturating_add(1));
    }
    Ok(log)
}

fn malformed(partition: Partition, what: &str) -> Fatal {
    let (topic, number) = (partition.topic.0, partition.number);
    Fatal(format!("Fetch of partition {number} of topic {topic} returned {what}"))
}

impl Log {
    /// Adds the records of a batch from the offset on that was asked for.
    fn take(&mut self, partition: Partition, batch: &Batch) -> Result<(), &'static str> {
        let mut records = &batch.records[..];
        for _ in 0..batch.count {
            let (delta, key) = record(&mut records).ok_or("a record that is cut off")?;
            let offset = batch.base.saturating_add(delta);
            if let Some(record) = Numbered::of(key).filter(|_| offset >= self.next) {
                self.push(partition, offset, record);
            }
        }
        Ok(())
    }

    fn push(&mut self, partition: Partition, offset: i64, record: Numbered) {
        let Numbered { producer, number, place } = record;
        match self.returned.last_mut() {
            Some(last)
                if (last.producer, last.number) == (producer, number)
                    && last.first.checked_add(last.count) == Some(place) =>
            {
                last.count += 1;
            }
            Some(_) | None => self.returned.push(Returned {
                partition,
                offset,
                producer,
                number,
                first: place,
                count: 1,
            }),
        }
    }
}

/// The producers whose aborted transactions the batches belong to.
#[derive(Default)]
struct Aborted {
    /// The first offset of each transaction, with its producer; the last one is first.
    ahead: Vec<(i64, i64)>,
    producers: BTreeSet<i64>,
}

impl Aborted {
    fn of(data: &PartitionData) -> Self {
        let all = data.aborted_transactions.iter().flatten();
        let mut ahead = Vec::from_iter(all.map(|one| (one.first_offset, one.producer_id.0)));
        ahead.sort_unstable_by(|one, other| other.cmp(one));
        Self { ahead, producers: BTreeSet::new() }
    }

    /// Whether this batch is of one of them; it is the next one in the log.
    fn has(&mut self, batch: &Batch) -> bool {
        while let Some((_, producer)) = self.ahead.pop_if(|(first, _)| *first <= batch.last) {
            self.producers.insert(producer);
        }
        if batch.ends_by_abort() {
            self.producers.remove(&batch.producer);
        }
        batch.is_transactional() && self.producers.contains(&batch.producer)
    }
}

struct Batch {
    base: i64,
    last: i64,
    attributes: i16,
    producer: i64,
    count: u32,
    records: Bytes,
}

impl Batch {
    /// Takes the next batch. The last one of an answer may be cut off: then there is none.
    fn next(rest: &mut Bytes) -> Result<Option<Self>, &'static str> {
        let Some(header) = rest.first_chunk::<HEADER>() else { return Ok(None) };
        let length = usize::try_from(i32_at(header, 8)).map_err(|_| "a batch without a length")?;
        let length = length + BEFORE_LENGTH;
        if header[16] != MAGIC || length < HEADER {
            return Err("a batch of an unknown format");
        }
        if rest.len() < length {
            return Ok(None);
        }
        let base = i64_at(header, 0);
        let attributes = i16::from_be_bytes([header[21], header[22]]);
        if attributes & COMPRESSION != 0 {
            return Err("a compressed batch, which readers do not read (compression.type)");
        }
        let batch = Self {
            base,
            last: base.saturating_add(i32_at(header, 23).max(0).into()),
            attributes,
            producer: i64_at(header, 43),
            count: u32::try_from(i32_at(header, 57)).unwrap_or(0),
            records: rest.slice(HEADER..length),
        };
        *rest = rest.slice(length..);
        Ok(Some(batch))
    }

    fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    fn ends_by_abort(&self) -> bool {
        let mut records = &self.records[..];
        self.is_control() && record(&mut records).is_some_and(|(_, key)| key == ABORT)
    }
}

fn i32_at(header: &[u8; HEADER], at: usize) -> i32 {
    header[at..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes))
}

fn i64_at(header: &[u8; HEADER], at: usize) -> i64 {
    header[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

/// Takes a record: its offset after the first one's, and its key, which is empty if it has none.
fn record<'a>(records: &mut &'a [u8]) -> Option<(i64, &'a [u8])> {
    let length = usize::try_from(varint(records)?).ok()?;
    let (mut body, rest) = records.split_at_checked(length)?;
    *records = rest;
    body = body.get(1..)?;
    varint(&mut body)?;
    let delta = varint(&mut body)?;
    let key = usize::try_from(varint(&mut body)?).unwrap_or(0);
    Some((delta, body.get(..key)?))
}

/// A number of variable length, zigzag-encoded.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests;
