//! Helpers of the tests: the environment of a coordinator, and records as bytes.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test uses a part")]

pub mod snapshot;

use muster_codec::Wall;
use muster_codec::records::{OFFSETS_TOPIC, TransactionRecord};
use muster_transactions::{
    Admission, Context, Coordinator, Held, Matcher, ProducerIds, Slot, Topics,
};
use std::collections::BTreeSet;

/// The key and the value of a record. A tombstone has no value.
pub type RecordBytes = (Vec<u8>, Option<Vec<u8>>);

pub fn record_bytes(record: &TransactionRecord<'_>) -> RecordBytes {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let has_value = record.write_value(&mut value);
    (key, has_value.then_some(value))
}

pub fn read((key, value): &RecordBytes) -> TransactionRecord<'_> {
    TransactionRecord::read(key, value.as_deref()).unwrap().unwrap()
}

/// Producer ids from 1000 on, of which `left` can still be taken.
pub struct CountedIds {
    pub next: i64,
    pub left: usize,
}

impl Default for CountedIds {
    fn default() -> Self {
        Self { next: 1000, left: usize::MAX }
    }
}

impl ProducerIds for CountedIds {
    fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        self.next += 1;
        Some(self.next - 1)
    }
}

/// All topics exist, with 100 partitions, except the deleted ones. Partition n is in slot n modulo
/// the number of slots.
pub struct AllTopics {
    pub slots: Slot,
    pub deleted: BTreeSet<String>,
}

impl Topics for AllTopics {
    fn slots(&self) -> Slot {
        self.slots
    }

    fn slot(&self, topic: &str, partition: i32) -> Option<Slot> {
        let exists = partition < 100 && (topic == OFFSETS_TOPIC || !self.deleted.contains(topic));
        exists.then(|| partition as Slot % self.slots)
    }

    fn offsets_partition(&self, group_id: &str) -> i32 {
        (group_id.len() % self.slots as usize) as i32
    }

    /// In the tests, a pattern is `prefix.*`.
    fn pattern(&self, pattern: &str) -> Option<Matcher> {
        let prefix = pattern.strip_suffix(".*")?.to_owned();
        Some(Box::new(move |id| id.starts_with(&prefix)))
    }
}

/// Admits at most this number of ids.
pub struct UpTo(pub usize);

impl Admission for UpTo {
    fn admits(&mut self, held: Held, _: &str) -> bool {
        held.ids < self.0
    }
}

/// The environment of a coordinator.
pub struct Around {
    pub now: i64,
    pub wall: i64,
    pub position: u64,
    pub ids: CountedIds,
    pub topics: AllTopics,
    pub admission: UpTo,
}

impl Around {
    pub fn new(slots: Slot) -> Self {
        Self {
            now: 0,
            wall: 0,
            position: 0,
            ids: CountedIds::default(),
            topics: AllTopics { slots, deleted: BTreeSet::new() },
            admission: UpTo(usize::MAX),
        }
    }

    /// Calls a coordinator with the position of the next record.
    pub fn call<T>(
        &mut self,
        coordinator: &mut Coordinator,
        act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T,
    ) -> T {
        let mut context = Context {
            now: self.now,
            wall: Wall(self.wall),
            position: self.position + 1,
            producer_ids: &mut self.ids,
            topics: &self.topics,
            admission: &mut self.admission,
        };
        act(coordinator, &mut context)
    }
}
