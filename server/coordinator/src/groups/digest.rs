//! Digests of groups. They show whether two sources have the same state of a group.

use crate::committed::Committed;
use crate::group::{Entry, Group, group_records};
use crate::offsets::Offsets;
use crate::pending::{GroupPending, Pending, PendingOffsets, Placed};
use crate::snapshot::archive;
use crate::text::Text;
use crate::timers::Timers;
use alloc::vec::Vec;
use core::fmt;
use muster_codec::records::GroupRecord;
use xxhash_rust::xxh3::Xxh3;

/// The digest of a group. Taking it does not load the group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupDigest {
    /// The value of [`crate::Coordinator::fingerprint`].
    pub fingerprint: Option<u64>,
    /// The number of members, offsets and partitions that it covers.
    pub items: usize,
}

/// The difference between a group and the group that its records produce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    pub group_id: Text,
    /// The fingerprints of the live group, and of the group rebuilt from its records.
    pub live: u64,
    pub replayed: u64,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group_id, live, replayed } = self;
        write!(f, "group {group_id:?} is {live:016x}, but its records make {replayed:016x}")
    }
}

/// A hash of the durable state of a group with these offsets; None if it has no state. The hash
/// leaves out unloaded offsets. It leaves out the order in which members joined, too, because
/// compaction changes this order.
pub(crate) fn hash_of(
    entry: &Entry,
    offsets: &Offsets,
    pending: Option<&GroupPending>,
) -> Option<u64> {
    let mut records: Vec<_> = group_records(entry).iter().map(record_bytes).collect();
    records.sort_unstable();
    if records.is_empty() && offsets.is_empty() && pending.is_none() {
        return None;
    }
    let mut hash = Xxh3::new();
    records.iter().for_each(|record| hash.update(record));
    let topics = if offsets.is_unloaded() { Vec::new() } else { offsets.by_topic() };
    for (topic, partitions) in topics {
        hash_text(&mut hash, topic);
        hash.update(&(partitions.len() as u64).to_be_bytes());
        for (partition, committed) in partitions.iter() {
            hash_committed(&mut hash, partition, committed);
        }
    }
    pending.into_iter().for_each(|pending| hash_pending(&mut hash, pending));
    Some(hash.digest())
}

/// Hashes the pending offsets. The offsets of one partition are in the order of their records.
fn hash_pending(hash: &mut Xxh3, pending: &GroupPending) {
    for (topic, partition, of_partition) in pending.iter() {
        hash_text(hash, topic);
        hash.update(&(of_partition.len() as u64).to_be_bytes());
        for Placed { pending, is_superseded } in of_partition.in_order() {
            let Pending { producer, committed } = pending;
            hash.update(&producer.id.to_be_bytes());
            hash.update(&producer.epoch.to_be_bytes());
            hash.update(&[u8::from(is_superseded)]);
            hash_committed(hash, partition, committed);
        }
    }
}

/// Hashes all fields of an offset. A hash of its record would miss some fields, because each
/// version of the record lacks some.
fn hash_committed(hash: &mut Xxh3, partition: i32, committed: &Committed) {
    let Committed { offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id } =
        committed;
    hash_text(hash, metadata);
    for number in [partition, *leader_epoch] {
        hash.update(&number.to_be_bytes());
    }
    for number in [offset, commit_timestamp, expire_timestamp] {
        hash.update(&number.to_be_bytes());
    }
    hash.update(&topic_id.0);
}

fn hash_text(hash: &mut Xxh3, text: &str) {
    hash.update(&(text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}

fn record_bytes(record: &GroupRecord<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.write_key(&mut bytes);
    record.write_value(&mut bytes);
    bytes
}

/// A group rebuilt from its records, and its pending offsets.
pub(crate) fn rebuilt(
    entry: &Entry,
    pending: Option<&GroupPending>,
) -> Option<(Entry, PendingOffsets)> {
    let (mut group, mut offsets) = (Vec::new(), Vec::new());
    archive::write_group(entry, pending, &mut group).ok()?;
    let mut rebuilt_pending = PendingOffsets::default();
    for restored in archive::read_pending(&group).ok()? {
        rebuilt_pending.restore(&entry.id, restored);
    }
    let kind = archive::kind(entry.group.as_ref());
    let rebuilt = archive::read_group(&entry.id, kind, &group, &mut Timers::default()).ok()?;
    if entry.offsets.is_unloaded() {
        return Some((Entry { offsets: Offsets::unloaded(), ..rebuilt }, rebuilt_pending));
    }
    archive::write_offsets(entry.offsets.iter(), &mut offsets).ok()?;
    let mut rebuilt_offsets = Offsets::default();
    archive::read_offsets(&offsets, &mut rebuilt_offsets).ok()?;
    Some((Entry { offsets: rebuilt_offsets, ..rebuilt }, rebuilt_pending))
}

/// A hash of the durable state of a group, and of its counts.
pub(crate) fn audited(entry: &Entry, pending: Option<&GroupPending>) -> u64 {
    let counted = entry.group.as_ref().map_or(0, Group::count_hash);
    let pending_len = pending.map_or(0, GroupPending::len);
    hash_of(entry, &entry.offsets, pending).unwrap_or(0)
        ^ counted
        ^ (entry.offsets.len() as u64).rotate_left(32)
        ^ (pending_len as u64).rotate_left(16)
}
