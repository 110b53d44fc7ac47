//! Groups as bytes: what a snapshot holds of them, and how they come back.
//!
//! A snapshot is a cache of the log. [`SnapshotWalk`] goes through all groups by id, some at a time
//! while the shard serves, and writes two sections for each: the records that make the group, and
//! its offsets. So each group stands for the position at which the walk came by. An index tells
//! where the sections are, and enough of each group that most questions need no section: who looks
//! for it, lists it, or asks whether anything of it expires.
//!
//! A coordinator that [opens a snapshot](Coordinator::open_snapshot) has its groups in the *cold*:
//! they stay bytes until something touches them, and then come to life for good; its offsets, of which
//! there may be many, only when they are touched themselves. Sections are made
//! with rkyv of types that mirror the state ([`image`]); they are checked, by checksum and
//! structure, when they are read. The index is a table of our own ([`index`]), because rkyv would
//! check all of it with each look.

mod cold;
mod image;
mod index;
mod pages;
mod pieces;
mod walk;

pub use walk::{SnapshotPart, SnapshotWalk};

pub(crate) use cold::{Cold, ColdGroup};
pub(crate) use index::Kind;

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

/// Members, offsets and partitions of a group that is audited: about a millisecond's worth.
const AUDIT_ITEMS_MAX: usize = 1_000;

/// The bytes of a snapshot's file, mapped or read.
pub type SnapshotBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A snapshot holds what it should not: it is to be dropped, and the log to be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotDamage {
    /// None if the index is damaged.
    pub group_id: Option<Text>,
    pub what: &'static str,
}

impl fmt::Display for SnapshotDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.group_id {
            Some(group_id) => write!(f, "of group {group_id:?}: {}", self.what),
            None => f.write_str(self.what),
        }
    }
}

impl core::error::Error for SnapshotDamage {}

/// What was found of a group without bringing it to life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Print {
    /// As of [`Coordinator::fingerprint`].
    pub fingerprint: Option<u64>,
    /// Members, offsets and partitions: what it took.
    pub items: usize,
}

type Printed = Result<Option<Print>, SnapshotDamage>;

/// Where a walk through the groups has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextGroup {
    Wanted(Text),
    /// Not one that was wanted so far; the walk goes on behind this one.
    Unwanted(Text),
    End,
}

/// A group is not what its records make of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    pub group_id: Text,
    /// The fingerprints of the group, and of one that is made anew.
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
    /// Begins with the groups of a snapshot, in the place of none. `index` is where
    /// [`SnapshotPart`] was put in `bytes`, and `crc` its checksum: each later look at it is held
    /// against what it is now. The records of the log follow, by [`Self::replay_batch`], and then
    /// [`Self::loaded`].
    ///
    /// # Errors
    /// An index that is not that, or contradicts itself or the file. Nothing has changed then.
    pub fn open_snapshot(
        &mut self,
        bytes: SnapshotBytes,
        index: Range<usize>,
        crc: u32,
    ) -> Result<(), SnapshotDamage> {
        debug_assert_eq!(self.written_at, 0, "before all records");
        self.groups.cold = Cold::open(bytes, index, crc)?;
        Ok(())
    }

    /// What was found wrong with the snapshot when its index was looked at or a group was to come to
    /// life. From then on no answer or record of this coordinator may be used.
    pub fn damage(&self) -> Option<&SnapshotDamage> {
        self.damage.as_ref().or(self.groups.cold.damage())
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// How many of them are still bytes.
    pub fn cold_groups(&self) -> usize {
        self.groups.cold.len()
    }

    /// Whether a group, or its offsets alone, are still bytes: [`Self::durable_records`] has not all
    /// of it then.
    pub fn is_cold(&self, group_id: &str) -> bool {
        self.groups.cold.with_offsets(group_id).is_some()
    }

    /// Brings all groups to life: for checks.
    pub fn touch_all(&mut self) {
        while let Some(id) = self.groups.cold.first_id() {
            self.touch_offsets(&id);
        }
    }

    /// A hash of what is durable of a group; None if nothing is. Equal states have equal ones,
    /// whether they come from the log, from a snapshot or from both.
    pub fn fingerprint(&mut self, group_id: &str) -> Option<u64> {
        self.touch_offsets(group_id);
        let entry = self.groups.get(group_id)?;
        imprint(entry, &entry.offsets)
    }

    /// As [`Self::fingerprint`], but what is in the cold stays there, and the fingerprint of a group
    /// with more than `items_max` members, offsets and partitions is not taken: None then.
    ///
    /// The group may turn out to be [damaged](Self::damage), and is nothing then.
    pub fn print(&mut self, group_id: &str, items_max: usize) -> Option<Print> {
        let printed = match self.groups.listed(group_id) {
            Some(Listed::Live(entry)) => self.print_live(entry, items_max),
            Some(Listed::Cold(group)) => self.print_cold(&group, items_max),
            None => Ok(Some(Print::default())),
        };
        printed.unwrap_or_else(|damage| {
            self.damage.get_or_insert(damage);
            Some(Print::default())
        })
    }

    fn print_live(&self, entry: &Entry, items_max: usize) -> Printed {
        let cold = self.groups.cold.with_offsets(&entry.id).filter(|_| entry.offsets.is_cold());
        let offsets = cold.map_or(entry.offsets.len(), |group| group.offsets_max());
        let items = entry.group_items() + offsets;
        if items > items_max {
            return Ok(None);
        }
        let imprint = match cold {
            Some(group) => imprint(entry, &self.groups.cold.read_offsets(&group)?),
            None => imprint(entry, &entry.offsets),
        };
        Ok(Some(Print { fingerprint: imprint, items }))
    }

    fn print_cold(&self, group: &ColdGroup<'_>, items_max: usize) -> Printed {
        let items = group.items_max();
        if items > items_max {
            return Ok(None);
        }
        let cold = &self.groups.cold;
        let entry = cold.read_group(group, &mut Timers::default())?;
        let fingerprint = imprint(&entry, &cold.read_offsets(group)?);
        Ok(Some(Print { fingerprint, items }))
    }

    /// The next group behind `after` that is wanted, of `looks` groups at the most. What is in the
    /// cold stays there.
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

    /// Makes a group anew from its image and compares: the group that comes after `id`, and what
    /// was found. None behind the last.
    ///
    /// # Errors
    /// The live group is not what its records make of it.
    pub fn audit_after(&mut self, id: Option<&str>) -> Option<(Text, Result<(), Divergence>)> {
        let id = self.groups.live_after(id)?;
        let audited = self.audit(&id);
        Some((id, audited))
    }

    fn audit(&self, id: &Text) -> Result<(), Divergence> {
        let small = self.groups.get(id).filter(|entry| entry.items() <= AUDIT_ITEMS_MAX);
        let Some(entry) = small else { return Ok(()) };
        let (live, replayed) = (audited(entry), made_anew(entry).as_ref().map_or(0, audited));
        match live == replayed {
            true => Ok(()),
            false => Err(Divergence { group_id: id.clone(), live, replayed }),
        }
    }

    /// Brings a group to life if it is in the cold, but not its offsets.
    pub(crate) fn touch(&mut self, group_id: &str) {
        if let Err(damage) = self.groups.thaw(&mut self.timers, group_id) {
            self.damage.get_or_insert(damage);
        }
    }

    /// Brings a group and its offsets to life.
    pub(crate) fn touch_offsets(&mut self, group_id: &str) {
        self.touch(group_id);
        if let Err(damage) = self.groups.thaw_offsets(group_id) {
            self.damage.get_or_insert(damage);
        }
    }

    /// Brings the groups with members to life: [`Self::loaded`] has their sessions start.
    pub fn touch_members(&mut self) {
        let with_members =
            self.groups.cold.iter_after(None).filter(|group| group.entry.members > 0);
        let ids: Vec<Text> = with_members.map(|group| Text::from(group.id)).collect();
        ids.iter().for_each(|id| self.touch(id));
    }

    /// Whether the sweep has to look at a group.
    pub(crate) fn may_expire(&self, group_id: &str, wall: Wall) -> bool {
        let retention_ms = self.config.offsets_retention_ms;
        let cold = self.groups.cold.with_offsets(group_id);
        cold.is_none_or(|group| group.entry.expiry.is_due(wall, retention_ms))
    }

    /// Whether a group may have offsets of one of these topics.
    pub(crate) fn may_have_offsets_of(&self, group_id: &str, topics: &[DeletedTopic<'_>]) -> bool {
        let cold = self.groups.cold.with_offsets(group_id);
        let may_have = |set: TopicSet| topics.iter().any(|topic| set.may_have(topic.name));
        cold.is_none_or(|group| may_have(group.entry.topics))
    }
}

/// A hash of what is durable of a group with these offsets; None if nothing is. The order in which
/// members came is left out: it is another in a log that was compacted. So are offsets in the cold.
fn imprint(entry: &Entry, offsets: &Offsets) -> Option<u64> {
    let mut records: Vec<_> = group_records(entry).iter().map(record_bytes).collect();
    records.sort_unstable();
    if records.is_empty() && offsets.is_empty() {
        return None;
    }
    let mut hash = Xxh3::new();
    records.iter().for_each(|record| hash.update(record));
    let topics = if offsets.is_cold() { Vec::new() } else { offsets.by_topic() };
    for (topic, partitions) in topics {
        hash_text(&mut hash, topic);
        hash.update(&(partitions.len() as u64).to_be_bytes());
        partitions.iter().for_each(|it| hash_committed(&mut hash, it));
    }
    Some(hash.digest())
}

/// All that is kept of an offset. That is not its record, of which each version leaves something out.
fn hash_committed(hash: &mut Xxh3, (partition, committed): (&i32, &Committed)) {
    let Committed { offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id } =
        committed;
    hash_text(hash, metadata);
    for number in [partition, leader_epoch] {
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

/// The group that the image of one makes.
fn made_anew(entry: &Entry) -> Option<Entry> {
    let (mut group, mut offsets) = (Vec::new(), Vec::new());
    image::write_group(entry, &mut group).ok()?;
    let kind = image::kind(entry.group.as_ref());
    let anew = image::read_group(&entry.id, kind, &group, &mut Timers::default()).ok()?;
    if entry.offsets.is_cold() {
        return Some(Entry { offsets: Offsets::cold(), ..anew });
    }
    image::write_offsets(entry.offsets.iter(), &mut offsets).ok()?;
    let mut offsets_anew = Offsets::default();
    image::read_offsets(&offsets, &mut offsets_anew).ok()?;
    Some(Entry { offsets: offsets_anew, ..anew })
}

/// A hash of what is durable of a group, and of what is counted of it.
fn audited(entry: &Entry) -> u64 {
    let counted = entry.group.as_ref().map_or(0, Group::count_hash);
    imprint(entry, &entry.offsets).unwrap_or(0)
        ^ counted
        ^ (entry.offsets.len() as u64).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use muster_codec::records::{OffsetCommitKey, OffsetCommitValue};

    #[test]
    fn a_group_that_is_other_than_its_records_is_noticed() {
        let mut coordinator = Coordinator::new(Config::default());
        for group in ["a", "b", "c"] {
            let key = OffsetCommitKey { group: group.into(), topic: "t".into(), partition: 3 };
            let value = OffsetCommitValue { offset: 7, ..Default::default() };
            coordinator.replay(&GroupRecord::OffsetCommit(key, Some(value)), 1);
        }
        let entry = coordinator.groups.get_mut("b").unwrap();
        let again = entry.offsets.by_topic()[0].1.clone();
        assert!(!entry.offsets.put_topic("t", again), "what is there is counted twice");
        assert_eq!(coordinator.audit_after(None), Some(("a".into(), Ok(()))));
        let (id, found) = coordinator.audit_after(Some("a")).unwrap();
        assert_eq!((&*id, &*found.unwrap_err().group_id), ("b", "b"));
        assert_eq!(coordinator.audit_after(Some("b")), Some(("c".into(), Ok(()))));
        assert_eq!(coordinator.audit_after(Some("c")), None);
    }
}
