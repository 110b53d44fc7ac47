//! The limits of share partitions, whatever clients ask for.

/// The most updates since a snapshot: the range of
/// `share.coordinator.snapshot.update.records.per.snapshot`, and its default.
pub const UPDATES_PER_SNAPSHOT_MAX: u32 = 500;

/// The partitions of all share sessions of a shard, about 120 bytes each. Kafka has no such
/// limit; a request that would exceed it, or the share of its address, is refused with
/// SHARE_SESSION_LIMIT_REACHED.
pub const SESSION_PARTITIONS_MAX: usize = 500_000;

/// The batches of a state: more than a share partition has by itself, as each record in flight is
/// one at most (`share.partition.max.record.locks`), unless a batch of the log claims that many
/// offsets. A change beyond it is refused; one that leaves fewer batches than before is not.
pub const STATE_BATCHES_MAX: usize = 100_000;

/// The greatest offset of a record: what a state says beyond it is left out when it is opened.
pub const OFFSET_MAX: i64 = i64::MAX / 2;
