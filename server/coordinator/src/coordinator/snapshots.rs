//! The coordinator's groups in a snapshot, and the audit, which compares groups with their records.

use super::Coordinator;
use crate::context::DeletedTopic;
use crate::group::Entry;
use crate::groups::{Divergence, GroupDigest, Listed, SnapshotWalk, audited, hash_of, rebuilt};
use crate::pending::GroupPending;
use crate::snapshot::{SnapshotDamage, TopicSet, Unloaded, UnloadedGroup};
use crate::text::Text;
use crate::timers::Timers;
use alloc::vec::Vec;
use core::ops::Range;
use muster_codec::Wall;
use muster_snapshot_index::{SnapshotBytes, SnapshotPart};

/// The most members, offsets and partitions of an audited group: about a millisecond of work.
const AUDIT_ITEMS_MAX: usize = 1_000;

type Digested = Result<Option<GroupDigest>, SnapshotDamage>;

impl Coordinator {
    /// Starts with the groups of a snapshot. The coordinator must be empty. `index` is the range of
    /// [`SnapshotPart`] in `bytes`; `crc` is its checksum, which later look-ups verify, too. After
    /// that, the caller replays the log by [`Self::replay_batch`] and calls [`Self::loaded`].
    ///
    /// # Errors
    /// The index or the pending offsets are damaged. Nothing is changed then.
    pub fn open_snapshot(
        &mut self,
        bytes: SnapshotBytes,
        index: Range<usize>,
        crc: u32,
    ) -> Result<(), SnapshotDamage> {
        debug_assert_eq!(self.written_at, 0, "before all records");
        let unloaded = Unloaded::open(bytes, index, crc)?;
        for (group_id, restored) in unloaded.pending()? {
            self.pending.restore(&group_id, restored);
        }
        self.counters.gauges.pending_offsets = self.pending.len() as u64;
        self.groups.unloaded = unloaded;
        Ok(())
    }

    /// The damage of the snapshot, if a look-up in its index, or the load of a group, has found
    /// any. After that, no answer or record of this coordinator may be used.
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

    /// Whether a group, or only its offsets, are unloaded. [`Self::durable_records`] then lacks
    /// them.
    pub fn is_unloaded(&self, group_id: &str) -> bool {
        self.groups.unloaded.with_offsets(group_id).is_some()
    }

    /// Loads all groups, for checks.
    pub fn load_all(&mut self) {
        while let Some(id) = self.groups.unloaded.first_id() {
            self.load_offsets(&id);
        }
    }

    /// A hash of the durable state of a group; None if it has none. Equal states have equal hashes,
    /// whether they come from the log, a snapshot or both.
    pub fn fingerprint(&mut self, group_id: &str) -> Option<u64> {
        self.load_offsets(group_id);
        let entry = self.groups.get(group_id)?;
        hash_of(entry, &entry.offsets, self.pending.of(group_id))
    }

    /// Like [`Self::fingerprint`], but loads nothing, and returns None for a group that may have
    /// more than `items_max` members, offsets and partitions.
    ///
    /// A group that turns out to be [damaged](Self::damage) counts as absent.
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
        let items = entry.group_items() + offsets + self.pending_items(&entry.id);
        if items > items_max {
            return Ok(None);
        }
        let pending = self.pending.of(&entry.id);
        let fingerprint = match unloaded {
            Some(group) => hash_of(entry, &self.groups.unloaded.read_offsets(&group)?, pending),
            None => hash_of(entry, &entry.offsets, pending),
        };
        Ok(Some(GroupDigest { fingerprint, items }))
    }

    fn digest_unloaded(&self, group: &UnloadedGroup<'_>, items_max: usize) -> Digested {
        let items = group.items_max() + self.pending_items(group.id);
        if items > items_max {
            return Ok(None);
        }
        let unloaded = &self.groups.unloaded;
        let entry = unloaded.read_group(group, &mut Timers::default())?;
        let pending = self.pending.of(group.id);
        let fingerprint = hash_of(&entry, &unloaded.read_offsets(group)?, pending);
        Ok(Some(GroupDigest { fingerprint, items }))
    }

    fn pending_items(&self, group_id: &str) -> usize {
        self.pending.of(group_id).map_or(0, GroupPending::len)
    }

    /// The ids of the groups after `after`, in order. Loads nothing.
    pub fn ids_after(&self, after: Option<&Text>) -> impl Iterator<Item = Text> {
        let next = |id: &Text| self.groups.id_after(Some(id));
        core::iter::successors(self.groups.id_after(after), next)
    }

    /// Rebuilds the group after `id` from its own records, and compares it with the live group.
    /// A group with more than `AUDIT_ITEMS_MAX` items is not compared; its result is Ok.
    /// Returns the group's id and the result; None after the last group.
    ///
    /// # Errors
    /// The live group differs from what its records produce.
    pub fn audit_after(&mut self, id: Option<&str>) -> Option<(Text, Result<(), Divergence>)> {
        let id = self.groups.live_after(id)?;
        let audited = self.audit(&id);
        Some((id, audited))
    }

    fn audit(&self, id: &Text) -> Result<(), Divergence> {
        let is_small = |entry: &&Entry| entry.items() + self.pending_items(id) <= AUDIT_ITEMS_MAX;
        let Some(entry) = self.groups.get(id).filter(is_small) else { return Ok(()) };
        let live = audited(entry, self.pending.of(id));
        let replayed = rebuilt(entry, self.pending.of(id));
        let replayed = replayed.map_or(0, |(entry, pending)| audited(&entry, pending.of(id)));
        if live == replayed {
            Ok(())
        } else {
            Err(Divergence { group_id: id.clone(), live, replayed })
        }
    }

    /// Appends the next part of the snapshot file, about `bytes` bytes, to `out`. `position` is the
    /// position of the last record; this record must be the last of its block in the log. The last
    /// part of the file is the index. The call that completes the index returns its place.
    ///
    /// The offsets of a group are written in parts of about `bytes`, its records as a whole.
    ///
    /// # Errors
    /// No snapshot can be made: an unloaded group is damaged ([`Self::damage`] returns it then), or
    /// a group is too large for a section.
    pub fn write_snapshot(
        &mut self,
        walk: &mut SnapshotWalk,
        position: u64,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<SnapshotPart>, SnapshotDamage> {
        let written = self.groups.write_snapshot(walk, &self.pending, position, bytes, out);
        written.map_err(|(id, damage)| {
            if self.groups.unloaded.with_offsets(&id).is_some() {
                self.damage.get_or_insert_with(|| damage.clone());
            }
            damage
        })
    }

    /// If a group is unloaded, loads it, but not its offsets.
    pub(crate) fn load(&mut self, group_id: &str) {
        if let Err(damage) = self.groups.load(
            &mut self.timers,
            group_id,
            &mut self.counters.gauges,
            &mut self.payers,
        ) {
            self.damage.get_or_insert(damage);
        }
    }

    /// Loads the groups with members, because [`Self::loaded`] starts their sessions.
    pub fn load_members(&mut self) {
        let with_members =
            self.groups.unloaded.iter_after(None).filter(|group| group.entry.members > 0);
        let ids: Vec<Text> = with_members.map(|group| Text::from(group.id)).collect();
        ids.iter().for_each(|id| self.load(id));
    }

    /// Whether the sweep must visit a group.
    pub(crate) fn may_expire(&self, group_id: &str, wall: Wall) -> bool {
        let retention_ms = self.config.offsets_retention_ms;
        let unloaded = self.groups.unloaded.with_offsets(group_id);
        unloaded.is_none_or(|group| group.entry.expiry.is_due(wall, retention_ms))
    }

    /// Whether a group may have offsets of one of these topics.
    pub(crate) fn may_have_offsets_of(&self, group_id: &str, topics: &[DeletedTopic<'_>]) -> bool {
        let unloaded = self.groups.unloaded.with_offsets(group_id);
        let may_have = |set: TopicSet| topics.iter().any(|topic| set.may_have(topic.name));
        unloaded.is_none_or(|group| group.entry.has_pending || may_have(group.entry.topics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use muster_codec::records::{GroupRecord, OffsetCommitKey, OffsetCommitValue};

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
