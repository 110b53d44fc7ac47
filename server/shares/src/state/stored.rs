//! States in a snapshot of the server's log. They are written some at a time while they change, and
//! read at startup.
//!
//! The states of a slot are in chunks, in the order of their keys. A chunk begins with an offset of
//! the log, and has the states as they were at this offset. A key between two states of the chunk
//! had no state then. Replaying an update twice would count it twice, so [`StoredEnds`] says which
//! records a state already includes.
//!
//! Startup reads all states: 100,000 take a tenth of a second.

use super::{Fence, State, States};
use crate::SharePartitionKey;
use alloc::vec::Vec;
use core::ops::Bound;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_codec::wire::{DecodeError, Reader, Result};

/// The number of updates of a state that has none.
const NO_UPDATES: i32 = -1;

const LENGTH_BYTES: usize = 4;

/// The progress of writing the states of a slot.
#[derive(Debug, Clone, Default)]
pub struct StatesWalk {
    last: Option<SharePartitionKey>,
    is_complete: bool,
}

impl StatesWalk {
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}

/// For each share partition, the offset from which the log must be replayed after the states were
/// read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredEnds {
    /// For each chunk but the last one: its last key, and its offset.
    chunks: Vec<(SharePartitionKey, i64)>,
    /// The offset of the last chunk, which contains all greater keys.
    rest: i64,
}

impl StoredEnds {
    /// The offset before which all records are included in the state of this share partition. This
    /// is true even if it has no state.
    pub fn of(&self, key: &SharePartitionKey) -> i64 {
        let at = self.chunks.partition_point(|(last, _)| last < key);
        self.chunks.get(at).map_or(self.rest, |(_, offset)| *offset)
    }

    /// Whether the states already include a record at this offset.
    pub fn have(&self, record: &ShareRecord<'_>, offset: i64) -> bool {
        offset < self.of(&SharePartitionKey::of_record(&record.key))
    }
}

impl States {
    /// Appends the next chunk of a walk, of about `bytes`. `offset` is the end of the slot's log.
    /// All records before it must have been replayed.
    pub fn write_chunk(&self, walk: &mut StatesWalk, offset: i64, bytes: usize, out: &mut Vec<u8>) {
        out.extend(offset.to_be_bytes());
        let (last, mut reached) = (walk.last.take(), None);
        let mut left = self.after(last.as_ref()).peekable();
        write_sized(out, |chunk| {
            let until = chunk.len().saturating_add(bytes);
            while let Some((key, state)) = left.next_if(|_| chunk.len() < until) {
                write_state(key, state, chunk);
                reached = Some(key);
            }
        });
        walk.is_complete = left.peek().is_none();
        walk.last = reached.cloned();
    }

    /// The states after `key`; all for None.
    pub(super) fn after(
        &self,
        key: Option<&SharePartitionKey>,
    ) -> impl Iterator<Item = (&SharePartitionKey, &State)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.states.range::<SharePartitionKey, _>((from, Bound::Unbounded))
    }

    /// The states after `key` as snapshots; all for None.
    pub fn restated_after(
        &self,
        key: Option<&SharePartitionKey>,
    ) -> impl Iterator<Item = (&SharePartitionKey, ShareRecord<'_>)> {
        self.after(key).map(|(key, state)| {
            let value = ShareValue::Snapshot(state.snapshot());
            (key, ShareRecord { key: key.to_record(), value })
        })
    }

    /// Reads the chunks of a complete walk.
    ///
    /// # Errors
    /// The bytes are not valid chunks.
    pub fn read_chunks(&mut self, bytes: &[u8]) -> Result<StoredEnds> {
        let (mut reader, mut ends, mut last) = (Reader::new(bytes), StoredEnds::default(), None);
        while !reader.rest().is_empty() {
            if let Some(key) = last.clone() {
                ends.chunks.push((key, ends.rest));
            }
            ends.rest = reader.i64()?;
            let mut chunk = Reader::new(read_bytes(&mut reader)?);
            while !chunk.rest().is_empty() {
                let (key, state) = read_state(&mut chunk)?;
                if last.is_some_and(|last| last >= key) {
                    return Err(DecodeError::InvalidBatch("share states that are not in order"));
                }
                self.states.insert(key.clone(), state);
                last = Some(key);
            }
        }
        Ok(ends)
    }
}

/// Appends the state's snapshot record, key and value, and the fields that the record lacks.
pub(super) fn write_state(key: &SharePartitionKey, state: &State, out: &mut Vec<u8>) {
    let value = ShareValue::Snapshot(state.snapshot());
    let record = ShareRecord { key: key.to_record(), value };
    write_sized(out, |out| record.write_key(out));
    write_sized(out, |out| _ = record.write_value(out));
    let updates = state.updates.map_or(NO_UPDATES, |it| i32::try_from(it).unwrap_or(i32::MAX));
    let Fence { leader_epoch, state_epoch } = state.fence;
    [leader_epoch, state_epoch, updates].iter().for_each(|it| out.extend(it.to_be_bytes()));
}

pub(super) fn read_state(reader: &mut Reader<'_>) -> Result<(SharePartitionKey, State)> {
    let (key, value) = (read_bytes(reader)?, read_bytes(reader)?);
    let fence = Fence { leader_epoch: reader.i32()?, state_epoch: reader.i32()? };
    let updates = u32::try_from(reader.i32()?).ok();
    match ShareRecord::read(key, Some(value))? {
        Some(ShareRecord { key, value: ShareValue::Snapshot(snapshot) }) => {
            let state = State { fence, updates, ..State::of_snapshot(&snapshot) };
            Ok((SharePartitionKey::of_record(&key), state))
        }
        Some(_) | None => Err(DecodeError::InvalidBatch("a share state that is not a snapshot")),
    }
}

/// Appends the output of `write`, after its length.
fn write_sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; LENGTH_BYTES]);
    write(out);
    let len = (out.len() - at - LENGTH_BYTES) as u32;
    out[at..at + LENGTH_BYTES].copy_from_slice(&len.to_be_bytes());
}

fn read_bytes<'b>(reader: &mut Reader<'b>) -> Result<&'b [u8]> {
    let len = reader.array().map(u32::from_be_bytes)?;
    reader.take(len as usize)
}
