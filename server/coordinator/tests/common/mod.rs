//! Helpers of the coordinator's tests: records as bytes, ids and topics.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test uses a part")]

pub mod topics;

use muster_codec::records::GroupRecord;
use muster_codec::{Uuid, Wall};
use muster_coordinator::{Budget, Caller, Context, Coordinator, Ids, RequestId, Topics};

/// The key and the value of a record. A tombstone has no value.
pub type RecordBytes = (Vec<u8>, Option<Vec<u8>>);

pub fn bytes(records: &[GroupRecord<'_>]) -> Vec<RecordBytes> {
    records.iter().map(record_bytes).collect()
}

pub fn record_bytes(record: &GroupRecord<'_>) -> RecordBytes {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    record.write_key(&mut key);
    let has_value = record.write_value(&mut value);
    (key, has_value.then_some(value))
}

pub fn read((key, value): &RecordBytes) -> GroupRecord<'_> {
    GroupRecord::read(key, value.as_deref()).unwrap().unwrap()
}

/// A client that may describe all topics.
pub fn caller(request: RequestId, api_version: i16) -> Caller<'static> {
    let (client_id, client_host) = ("client", "/10.0.0.1");
    Caller { request, api_version, client_id, client_host, describes: None }
}

/// Calls a coordinator that is the only one of its shard. `now` is also the time of the wall clock.
pub fn call<T>(
    coordinator: &mut Coordinator,
    (now, position): (i64, u64),
    ids: &mut dyn Ids,
    topics: &dyn Topics,
    act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T,
) -> T {
    let (wall, budget) = (Wall(now), &mut Budget::default());
    act(coordinator, &mut Context { now, wall, position, ids, topics, budget })
}

/// Predictable ids: the n-th id is the number n.
#[derive(Default)]
pub struct CountedIds(u128);

impl CountedIds {
    /// The ids that follow the first `count`.
    pub fn after(count: u128) -> Self {
        Self(count)
    }

    pub fn count(&self) -> u128 {
        self.0
    }
}

impl Ids for CountedIds {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid(self.0.to_be_bytes())
    }
}

/// A source that always returns the same id, for members that send their own ids.
pub struct NoIds;

impl Ids for NoIds {
    fn next_id(&mut self) -> Uuid {
        Uuid([7; 16])
    }
}
