//! The form of groups in a snapshot, and how they are read from one.
//!
//! A snapshot is a cache of the log. [`SnapshotWalk`] visits all groups by id, some at a time while
//! the shard serves, and writes two sections for each: the records that produce the group, and its
//! offsets. So each group is of the position at which the walk visited it. An index has the places
//! of the sections, and enough of each group for look-ups, lists and the question whether anything
//! expires.
//!
//! The groups of a coordinator that [opened a snapshot](Coordinator::open_snapshot) are *unloaded*:
//! they stay bytes until the first access loads a group for good; its offsets, which may be many,
//! are loaded only on an access of their own. Sections are made with rkyv from types that mirror
//! the state ([`image`]); checksum and structure are checked when they are read. The index is a
//! table of its own format ([`index`]), as rkyv would check all of it at each look-up.

mod image;
mod index;
mod pages;
mod pieces;
mod unloaded;
mod walk;

pub use walk::{SnapshotPart, SnapshotWalk};

pub(crate) use index::Kind;
pub(crate) use unloaded::{Unloaded, UnloadedGroup};

use index::TopicSet;

use crate::context::DeletedTopic;
use crate::coordinator::Coordinator;
use crate::group::{Entry, Group, Listed};
use crate::offsets::{Committed, Offsets};
use crate::replay::group_records;
use crate::text::Text;
use crate::timers::Timers;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use muster_codec::Wall;
use muster_codec::records::GroupRecord;
use xxhash_rust::xxh3::Xxh3;

/// The most members, offsets and partitions of an audited group: about a millisecond of work.
const AUDIT_ITEMS_MAX: usize = 1_000;

/// The bytes of a snapshot's file, mapped or read.
pub type SnapshotBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A snapshot is damaged: it must be dropped, and the log replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDamage {
    /// None if the index is damaged.
    pub group_id: Option<Text>,
    pub what: &'static str,
}

impl fmt::Display for SnapshotDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group_id {
            Some(group_id) => write!(f, "group {group_id:?}: {}", self.what),
            None => f.write_str(self.what),
        }
    }
}

impl core::error::Error for SnapshotDamage {}

/// The digest of a group, taken without loading it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupDigest {
    /// That of [`Coordinator::fingerprint`].
    pub fingerprint: Option<u64>,
    /// Members, offsets and partitions that it covers.
    pub items: usize,
}

type Digested = Result<Option<GroupDigest>, SnapshotDamage>;

/// The result of a search for the next group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextGroup {
    Wanted(Text),
    /// None of the visited groups was wanted; the search continues behind this one.
    Unwanted(Text),
    End,
}

/// A group differs from what its records produce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    pub group_id: Text,
    /// The fingerprints of the group, and of one rebuilt from its records.
    pub live: u64,
    pub replayed: u64,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group_id, live, replayed } = self;
        write!(f, "group {group_id:?} is {live:016x}, but its records make {replayed:016x}")
    }
}

impl Coordinator {
    /// Starts with the groups of a snapshot; the coordinator must be empty. `index` is the place of
    /// [`SnapshotPart`] in `bytes`, and `crc` its checksum, which later look-ups verify too. The
    /// records of the log follow, by [`Self::replay_batch`], and then [`Self::loaded`].
    ///
    /// # Errors
    /// A damaged index. Nothing is changed then.
    pub fn open_snapshot(
        &mut self,
        bytes: SnapshotBytes,
        index: Range<usize>,
        crc: u32,
    ) -> Result<(), SnapshotDamage> {
        debug_assert_eq!(self.written_at, 0, "before all records");
        self.groups.unloaded = Unloaded::open(bytes, index, crc)?;
        Ok(())
    }

    /// The damage found in the snapshot by a look-up in the index or by loading a group. After that
    /// no answer or record of this coordinator may be used.
    pub fn damage(&self) -> Option<&SnapshotDamage> {
        self.damage.as_ref().or(self.groups.unloaded.damage())
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Number of unloaded groups.
    pub fn unloaded_groups(&self) -> usize {
        self.groups.unloaded.len()
    }

    /// Whether a group, or only its offsets, are unloaded: [`Self::durable_records`] lacks them
    /// then.
    pub fn is_unloaded(&self, group_id: &str) -> bool {
        self.groups.unloaded.with_offsets(group_id).is_some()
    }

    /// Loads all groups: for checks.
    pub fn load_all(&mut self) {
        while let Some(id) = self.groups.unloaded.first_id() {
            self.load_offsets(&id);
        }
    }

    /// A hash of the durable state of a group; None without any. Equal states have equal ones,
    /// whether they come from the log, from a snapshot or from both.
    pub fn fingerprint(&mut self, group_id: &str) -> Option<u64> {
        self.load_offsets(group_id);
        let entry = self.groups.get(group_id)?;
        hash_of(entry, &entry.offsets)
    }

    /// Like [`Self::fingerprint`], but loads nothing, and returns None for a group with more than
    /// `items_max` members, offsets and partitions.
    ///
    /// If the group turns out to be [damaged](Self::damage), it counts as absent.
    pub fn digest(&mut self, group_id: &str, items_max: usize) -> Option<GroupDigest> {
        let digested = match self.groups.listed(group_id) {
            Some(Listed::Live(entry)) => self.digest_live(entry, items_max),
            Some(Listed::Unloaded(group)) => self.digest_unloaded(&group, items_max),
            None => Ok(Some(GroupDigest::default())),
        };
        digested.unwrap_or_else(|damage| {
            self.damage.get_or_insert(damage);
            Some(GroupDigest::default())
        })
    }

    fn digest_live(&self, entry: &Entry, items_max: usize) -> Digested {
        let unloaded =
            self.groups.unloaded.with_offsets(&entry.id).filter(|_| entry.offsets.is_unloaded());
        let offsets = unloaded.map_or(entry.offsets.len(), |group| group.offsets_max());
        let items = entry.group_items() + offsets;
        if items > items_max {
            return Ok(None);
        }
        let fingerprint = match unloaded {
            Some(group) => hash_of(entry, &self.groups.unloaded.read_offsets(&group)?),
            None => hash_of(entry, &entry.offsets),
        };
        Ok(Some(GroupDigest { fingerprint, items }))
    }

    fn digest_unloaded(&self, group: &UnloadedGroup<'_>, items_max: usize) -> Digested {
        let items = group.items_max();
        if items > items_max {
            return Ok(None);
        }
        let unloaded = &self.groups.unloaded;
        let entry = unloaded.read_group(group, &mut Timers::default())?;
        let fingerprint = hash_of(&entry, &unloaded.read_offsets(group)?);
        Ok(Some(GroupDigest { fingerprint, items }))
    }

    /// The next wanted group behind `after`, among at most `looks` groups. Loads nothing.
    pub fn next_group(
        &self,
        after: Option<&Text>,
        looks: usize,
        is_wanted: impl Fn(&str) -> bool,
    ) -> NextGroup {
        let mut at = after.cloned();
        for _ in 0..looks {
            match self.groups.id_after(at.as_ref()) {
                Some(id) if is_wanted(&id) => return NextGroup::Wanted(id),
                Some(id) => at = Some(id),
                None => return NextGroup::End,
            }
        }
        at.map_or(NextGroup::End, NextGroup::Unwanted)
    }

    /// Rebuilds the group behind `id` from its image and compares; returns its id and the result.
    /// None behind the last group.
    ///
    /// # Errors
    /// The live group differs from what its records produce.
    pub fn audit_after(&mut self, id: Option<&str>) -> Option<(Text, Result<(), Divergence>)> {
        let id = self.groups.live_after(id)?;
        let audited = self.audit(&id);
        Some((id, audited))
    }

    fn audit(&self, id: &Text) -> Result<(), Divergence> {
        let small = self.groups.get(id).filter(|entry| entry.items() <= AUDIT_ITEMS_MAX);
        let Some(entry) = small else { return Ok(()) };
        let (live, replayed) = (audited(entry), rebuilt(entry).as_ref().map_or(0, audited));
        match live == replayed {
            true => Ok(()),
            false => Err(Divergence { group_id: id.clone(), live, replayed }),
        }
    }

    /// Loads a group if it is unloaded, but not its offsets.
    pub(crate) fn load(&mut self, group_id: &str) {
        if let Err(damage) = self.groups.load(&mut self.timers, group_id) {
            self.damage.get_or_insert(damage);
        }
    }

    /// Loads a group and its offsets.
    pub(crate) fn load_offsets(&mut self, group_id: &str) {
        self.load(group_id);
        if let Err(damage) = self.groups.load_offsets(group_id) {
            self.damage.get_or_insert(damage);
        }
    }

    /// Loads the groups with members: [`Self::loaded`] starts their sessions.
    pub fn load_members(&mut self) {
        let with_members =
            self.groups.unloaded.iter_after(None).filter(|group| group.entry.members > 0);
        let ids: Vec<Text> = with_members.map(|group| Text::from(group.id)).collect();
        ids.iter().for_each(|id| self.load(id));
    }

    /// Whether the sweep has to visit a group.
    pub(crate) fn may_expire(&self, group_id: &str, wall: Wall) -> bool {
        let retention_ms = self.config.offsets_retention_ms;
        let unloaded = self.groups.unloaded.with_offsets(group_id);
        unloaded.is_none_or(|group| group.entry.expiry.is_due(wall, retention_ms))
    }

    /// Whether a group may have offsets of one of these topics.
    pub(crate) fn may_have_offsets_of(&self, group_id: &str, topics: &[DeletedTopic<'_>]) -> bool {
        let unloaded = self.groups.unloaded.with_offsets(group_id);
        let may_have = |set: TopicSet| topics.iter().any(|topic| set.may_have(topic.name));
        unloaded.is_none_or(|group| may_have(group.entry.topics))
    }
}

/// A hash of the durable state of a group with these offsets; None without any. The order in which
/// members joined is left out, as compaction changes it. Unloaded offsets are left out too.
fn hash_of(entry: &Entry, offsets: &Offsets) -> Option<u64> {
    let mut records: Vec<_> = group_records(entry).iter().map(record_bytes).collect();
    records.sort_unstable();
    if records.is_empty() && offsets.is_empty() {
        return None;
    }
    let mut hash = Xxh3::new();
    records.iter().for_each(|record| hash.update(record));
    let topics = if offsets.is_unloaded() { Vec::new() } else { offsets.by_topic() };
    for (topic, partitions) in topics {
        hash_text(&mut hash, topic);
        hash.update(&(partitions.len() as u64).to_be_bytes());
        partitions.iter().for_each(|it| hash_committed(&mut hash, it));
    }
    Some(hash.digest())
}

/// Hashes all fields of an offset. Its record would not do: each version leaves out some.
fn hash_committed(hash: &mut Xxh3, (partition, committed): (i32, &Committed)) {
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

/// The group rebuilt from its image.
fn rebuilt(entry: &Entry) -> Option<Entry> {
    let (mut group, mut offsets) = (Vec::new(), Vec::new());
    image::write_group(entry, &mut group).ok()?;
    let kind = image::kind(entry.group.as_ref());
    let rebuilt = image::read_group(&entry.id, kind, &group, &mut Timers::default()).ok()?;
    if entry.offsets.is_unloaded() {
        return Some(Entry { offsets: Offsets::unloaded(), ..rebuilt });
    }
    image::write_offsets(entry.offsets.iter(), &mut offsets).ok()?;
    let mut rebuilt_offsets = Offsets::default();
    image::read_offsets(&offsets, &mut rebuilt_offsets).ok()?;
    Some(Entry { offsets: rebuilt_offsets, ..rebuilt })
}

/// A hash of the durable state of a group, and of its counts.
fn audited(entry: &Entry) -> u64 {
    let counted = entry.group.as_ref().map_or(0, Group::count_hash);
    hash_of(entry, &entry.offsets).unwrap_or(0)
        ^ counted
        ^ (entry.offsets.len() as u64).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use muster_codec::records::{OffsetCommitKey, OffsetCommitValue};

    #[test]
    fn a_group_that_differs_from_its_records_is_reported() {
        let mut coordinator = Coordinator::new(Config::default());
        for group in ["a", "b", "c"] {
            let key = OffsetCommitKey { group: group.into(), topic: "t".into(), partition: 3 };
            let value = OffsetCommitValue { offset: 7, ..Default::default() };
            coordinator.replay(&GroupRecord::OffsetCommit(key, Some(value)), 1);
        }
        let entry = coordinator.groups.get_mut("b").unwrap();
        let again = entry.offsets.by_topic()[0].1.clone();
        assert!(!entry.offsets.put_topic("t", again), "the offset is counted twice");
        assert_eq!(coordinator.audit_after(None), Some(("a".into(), Ok(()))));
        let (id, found) = coordinator.audit_after(Some("a")).unwrap();
        assert_eq!((&*id, &*found.unwrap_err().group_id), ("b", "b"));
        assert_eq!(coordinator.audit_after(Some("b")), Some(("c".into(), Ok(()))));
        assert_eq!(coordinator.audit_after(Some("c")), None);
    }
}
