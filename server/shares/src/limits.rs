//! The limits of share partitions, whatever clients ask for.

/// The most updates since a snapshot: the range of
/// `share.coordinator.snapshot.update.records.per.snapshot`, and its default.
pub const UPDATES_PER_SNAPSHOT_MAX: u32 = 500;
