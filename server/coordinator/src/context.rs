//! What a call brings with it: the time, the place in the log, who asks, ids and topics.

use muster_codec::Uuid;

/// The surroundings of one call.
pub struct Context<'c> {
    /// Milliseconds since the epoch; never goes back.
    pub now: i64,
    /// The position in the log that the records of this call will get.
    pub position: u64,
    /// New random ids.
    pub ids: &'c mut dyn Ids,
    /// The topics there are.
    pub topics: &'c dyn Topics,
}

/// A source of random ids, seeded in tests.
pub trait Ids {
    /// A random UUID (version 4).
    fn next_id(&mut self) -> Uuid;
}

/// What the coordinator needs to know of topics.
pub trait Topics {
    fn id(&self, name: &str) -> Option<Uuid>;
    fn name(&self, id: Uuid) -> Option<&str>;
    /// None if there is no such topic.
    fn partitions(&self, name: &str) -> Option<i32>;
}

/// A topic that is gone. A later one may have its name, but never its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedTopic<'t> {
    pub name: &'t str,
    pub id: Uuid,
}
