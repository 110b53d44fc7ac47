//! The limits of share partitions, which hold for all requests.

/// The maximum number of updates after a snapshot: the upper bound of
/// `share.coordinator.snapshot.update.records.per.snapshot`, and its default.
pub const UPDATES_PER_SNAPSHOT_MAX: u32 = 500;

/// The maximum number of partitions in all share sessions of a shard, about 120 bytes each. Kafka
/// has no such limit. A request that would exceed it, or the share of its address, gets
/// SHARE_SESSION_LIMIT_REACHED.
pub const SESSION_PARTITIONS_MAX: usize = 500_000;

/// The maximum number of batches of a state. Normally a share partition has fewer: at most one for
/// each record in flight, whose number is limited (`share.partition.max.record.locks`). But the
/// header of a batch of records may claim more offsets than it has records. A change is refused if
/// the state would have more batches than this, and more than before.
pub const STATE_BATCHES_MAX: usize = 100_000;

/// The greatest offset of a record. When a state is opened, offsets beyond it are ignored.
pub const OFFSET_MAX: i64 = i64::MAX / 2;
