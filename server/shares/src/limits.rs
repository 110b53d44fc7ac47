//! The limits of share partitions, whatever clients ask for.

/// The most updates since a snapshot: the range of
/// `share.coordinator.snapshot.update.records.per.snapshot`, and its default.
pub const UPDATES_PER_SNAPSHOT_MAX: u32 = 500;

/// The partitions of all share sessions of a shard, about 120 bytes each. Kafka has no such
/// limit; a request that would exceed it is refused with SHARE_SESSION_LIMIT_REACHED.
pub const SESSION_PARTITIONS_MAX: usize = 500_000;
