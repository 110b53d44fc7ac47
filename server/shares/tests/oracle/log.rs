//! The log of a topic partition in the oracle: batches with their sizes, in one segment.

use crate::json::{int, list};
use muster_shares::partition::{AbortedTransaction, LogBatch, ReadBatch};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Log {
    pub leads: bool,
    pub epoch: i32,
    pub start: i64,
    pub end: i64,
    batches: Vec<(ReadBatch, i64)>,
    /// The first offset of each producer's open transaction.
    open: BTreeMap<i64, i64>,
    /// Aborted transactions, each with the offset of its marker.
    aborted: Vec<(AbortedTransaction, i64)>,
}

/// The result of a read.
#[derive(Debug, Default)]
pub struct Read {
    pub batches: Vec<ReadBatch>,
    pub aborted: Vec<AbortedTransaction>,
    pub bytes: i64,
    /// The byte position in the segment of the offset that was read.
    pub position: i64,
    pub is_out_of_range: bool,
}

impl Default for Log {
    fn default() -> Self {
        let (open, batches, aborted) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { leads: true, epoch: 0, start: 0, end: 0, batches, open, aborted }
    }
}

impl Log {
    pub fn append(&mut self, batch: &Value) {
        let producer_id = batch["producer_id"].as_i64();
        let first = self.end;
        let (count, size) = match batch["marker"].as_str() {
            Some(marker) => {
                self.end_transaction(producer_id.unwrap(), marker == "abort");
                (1, 61 + 17)
            }
            None => (int(&batch["count"]), size(batch)),
        };
        let is_marker = batch.get("marker").is_some();
        let is_transactional = batch["transactional"] == true;
        if is_transactional {
            self.open.entry(producer_id.unwrap()).or_insert(first);
        }
        self.end += count;
        let batch = ReadBatch {
            bounds: LogBatch { base: first, last: self.end - 1 },
            producer_id,
            is_transactional: is_transactional || is_marker,
            is_abort_marker: batch["marker"] == "abort",
        };
        self.batches.push((batch, size));
    }

    fn end_transaction(&mut self, producer_id: i64, aborts: bool) {
        if let Some(first_offset) = self.open.remove(&producer_id).filter(|_| aborts) {
            self.aborted.push((AbortedTransaction { producer_id, first_offset }, self.end));
        }
    }

    pub fn compact(&mut self, bases: &[i64]) {
        self.batches.retain(|(batch, _)| !bases.contains(&batch.bounds.base));
    }

    pub fn delete_before(&mut self, offset: i64) {
        self.start = self.start.max(offset.min(self.end));
    }

    /// The offset at which reads end.
    pub fn bound(&self, is_committed: bool) -> i64 {
        let stable = self.open.values().copied().min().unwrap_or(self.end);
        if is_committed { stable } else { self.end }
    }

    /// The byte position of an offset in the segment.
    pub fn position(&self, offset: i64) -> i64 {
        let before = self.batches.iter().take_while(|(batch, _)| batch.bounds.last < offset);
        before.map(|(_, size)| size).sum()
    }

    pub fn read(&self, offset: i64, max: i64, at_least_one: bool, is_committed: bool) -> Read {
        let mut read = Read { position: self.position(offset), ..Read::default() };
        read.is_out_of_range = offset < self.start || offset > self.end;
        let bound = self.bound(is_committed);
        let later = self.batches.iter().skip_while(|(batch, _)| batch.bounds.last < offset);
        let first = later.clone().next().map_or(0, |(_, size)| *size);
        if read.is_out_of_range || offset >= bound {
            return read;
        }
        let max = if at_least_one { max.max(first) } else { max };
        let bytes = max.min(self.position(bound) - read.position);
        if bytes < first {
            return read;
        }
        read.bytes = bytes;
        let mut left = bytes;
        for (batch, size) in later {
            left -= size;
            if left < 0 {
                break;
            }
            read.batches.push(*batch);
        }
        let upto = read.batches.last().map_or(offset, |it| it.bounds.last + 1);
        let is_seen = |it: &&(AbortedTransaction, i64)| it.1 >= offset && it.0.first_offset < upto;
        if is_committed {
            read.aborted = self.aborted.iter().filter(is_seen).map(|it| it.0).collect();
        }
        read
    }
}

/// The size of a batch: its header, and its records without keys and headers.
fn size(batch: &Value) -> i64 {
    let value = batch["bytes"].as_i64().unwrap_or(10);
    let record = 6 + varint(value) - 1 + value;
    let count = int(&batch["count"]) - i64::try_from(list(&batch["gaps"]).len()).unwrap();
    61 + count * (varint(record) + record)
}

/// The size of a small number as a signed varint.
fn varint(number: i64) -> i64 {
    if number < 64 { 1 } else { 2 }
}
