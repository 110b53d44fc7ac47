//! The groups of a shard, and what is kept of each.

use crate::classic::ClassicGroup;
use crate::consumer::ConsumerGroup;
use crate::offsets::{Offsets, RetentionBase};
use crate::snapshot::{Cold, ColdGroup, Kind, SnapshotDamage};
use crate::text::Text;
use crate::timers::Timers;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::ops::Bound;
use hashbrown::HashMap;
use muster_codec::ErrorCode;

/// A group, by its protocol.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives in an entry, which is boxed")]
pub(crate) enum Group {
    Classic(ClassicGroup),
    Consumer(Box<ConsumerGroup>),
}

/// All there is under one group id. Offsets outlive a group that one of another kind replaces.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Text,
    pub(crate) group: Option<Group>,
    /// The group that replaces it, in a handler's hands until its records are replayed.
    pub(crate) successor: Option<Group>,
    pub(crate) offsets: Offsets,
    /// The position of the last record of this group.
    pub(crate) written_at: u64,
    /// What its members are counted with among those of all groups.
    pub(crate) counted_bytes: usize,
}

/// Most are alive; those of a snapshot that nothing touched yet are in the cold.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    entries: HashMap<Text, Box<Entry>>,
    /// For everything that goes through all groups.
    ids: BTreeSet<Text>,
    pub(crate) cold: Cold,
}

/// A group as it is found without bringing it to life.
#[derive(Debug)]
pub(crate) enum Listed<'g> {
    Live(&'g Entry),
    Cold(ColdGroup<'g>),
}

impl<'g> Listed<'g> {
    pub(crate) fn id(&self) -> &'g str {
        match self {
            Self::Live(entry) => &entry.id,
            Self::Cold(group) => group.id,
        }
    }
}

/// To look at so many partitions, or bytes of texts, takes as long as to look at a member.
const PARTITIONS_PER_ITEM: usize = 4;
const BYTES_PER_ITEM: usize = 1_024;

impl Entry {
    /// One without a group.
    pub(crate) fn new(id: Text) -> Self {
        let offsets = Offsets::default();
        Self { id, group: None, successor: None, offsets, written_at: 0, counted_bytes: 0 }
    }

    /// Counts its members among those of all groups.
    #[inline]
    pub(crate) fn recount(&mut self, total: &mut usize) {
        let bytes = self.group.as_ref().map_or(0, Group::member_bytes);
        *total = *total - self.counted_bytes + bytes;
        self.counted_bytes = bytes;
    }

    /// How much there is to look at, but for offsets.
    pub(crate) fn group_items(&self) -> usize {
        self.group.as_ref().map_or(0, Group::items)
    }

    /// The same with offsets, of which each is one.
    pub(crate) fn items(&self) -> usize {
        self.group_items() + self.offsets.len()
    }

    fn is_vacant(&self) -> bool {
        self.group.is_none() && self.successor.is_none() && self.offsets.is_empty()
    }
}

impl Groups {
    /// A group that is alive; see [`crate::Coordinator::touch`].
    pub(crate) fn get(&self, group_id: &str) -> Option<&Entry> {
        debug_assert!(self.cold.get(group_id).is_none(), "{group_id} is in the cold");
        self.entries.get(group_id).map(|entry| &**entry)
    }

    /// As [`Self::get`].
    pub(crate) fn get_mut(&mut self, group_id: &str) -> Option<&mut Entry> {
        debug_assert!(self.cold.get(group_id).is_none(), "{group_id} is in the cold");
        self.entries.get_mut(group_id).map(|entry| &mut **entry)
    }

    /// A group, alive or not.
    pub(crate) fn listed(&self, group_id: &str) -> Option<Listed<'_>> {
        let live = self.entries.get(group_id).map(|entry| Listed::Live(entry));
        live.or_else(|| self.cold.get(group_id).map(Listed::Cold))
    }

    /// Brings a group to life if it is in the cold, but not its offsets.
    ///
    /// # Errors
    /// What is in the cold is damaged. There is no such group any more.
    pub(crate) fn thaw(
        &mut self,
        timers: &mut Timers,
        group_id: &str,
    ) -> Result<(), SnapshotDamage> {
        if self.cold.len() == 0 || self.entries.contains_key(group_id) {
            return Ok(());
        }
        if let Some(entry) = self.cold.take(group_id, timers)? {
            self.ids.insert(entry.id.clone());
            self.entries.insert(entry.id.clone(), Box::new(entry));
        }
        Ok(())
    }

    /// Makes the entry of a group that has none.
    pub(crate) fn insert(&mut self, group_id: &str) -> &mut Entry {
        let id = Text::from(group_id);
        self.ids.insert(id.clone());
        self.entries.entry(id.clone()).or_insert_with(|| Box::new(Entry::new(id)))
    }

    /// The entry of a group that is not in the cold; a new one if it has none.
    pub(crate) fn get_or_insert(&mut self, group_id: &str) -> &mut Entry {
        if !self.entries.contains_key(group_id) {
            self.insert(group_id);
        }
        self.get_mut(group_id).unwrap_or_else(|| unreachable!("{group_id} has an entry"))
    }

    pub(crate) fn remove(&mut self, group_id: &str) {
        self.entries.remove(group_id);
        self.ids.remove(group_id);
    }

    /// Removes the entry of a group that did not come to be.
    pub(crate) fn remove_if_vacant(&mut self, group_id: &str) {
        if self.get(group_id).is_some_and(Entry::is_vacant) {
            self.remove(group_id);
        }
    }

    /// How many there are, alive or not.
    pub(crate) fn len(&self) -> usize {
        self.ids.len() + self.cold.len()
    }

    /// Brings the offsets of a group that is alive to life.
    ///
    /// # Errors
    /// They are damaged.
    pub(crate) fn thaw_offsets(&mut self, group_id: &str) -> Result<(), SnapshotDamage> {
        if self.cold.is_gone() {
            return Ok(());
        }
        let entry = self.entries.get_mut(group_id).filter(|entry| entry.offsets.is_cold());
        if let Some(entry) = entry {
            entry.offsets = Offsets::default();
            entry.offsets = self.cold.take_offsets(group_id)?;
        }
        Ok(())
    }

    /// All of them that come after an id, by id.
    pub(crate) fn iter_after(&self, id: Option<&str>) -> impl Iterator<Item = Listed<'_>> {
        let live = self.live_range(id).filter_map(|id| self.entries.get(id)).map(|entry| &**entry);
        let (mut live, mut cold) = (live.peekable(), self.cold.iter_after(id).peekable());
        core::iter::from_fn(move || match (live.peek(), cold.peek()) {
            (Some(entry), Some(group)) if *entry.id < *group.id => live.next().map(Listed::Live),
            (_, Some(_)) => cold.next().map(Listed::Cold),
            (_, None) => live.next().map(Listed::Live),
        })
    }

    /// Those that are alive, by id.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.ids.iter().filter_map(|id| self.entries.get(id)).map(|entry| &**entry)
    }

    /// The id that comes after `id`; the first if that is None.
    pub(crate) fn id_after(&self, id: Option<&Text>) -> Option<Text> {
        let live = self.live_range(id.map(|id| &**id)).next();
        match (live, self.cold.id_after(id.map(|id| &**id))) {
            (Some(live), Some(cold)) if **live < *cold => Some(live.clone()),
            (_, Some(cold)) => Some(Text::from(cold)),
            (live, None) => live.cloned(),
        }
    }

    /// As [`Self::id_after`], of those that are alive.
    pub(crate) fn live_after(&self, id: Option<&str>) -> Option<Text> {
        self.live_range(id).next().cloned()
    }

    fn live_range(&self, after: Option<&str>) -> impl Iterator<Item = &Text> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ids.range::<str, _>((from, Bound::Unbounded))
    }
}

impl Kind {
    /// As [`Group::type_name`].
    pub(crate) fn type_name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Classic => Some("classic"),
            Self::Consumer => Some("consumer"),
        }
    }
}

impl Group {
    pub(crate) fn is_classic(&self) -> bool {
        matches!(self, Self::Classic(_))
    }

    /// The name of its protocol in responses.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
        }
    }

    /// How many members are in it.
    pub(crate) fn members(&self) -> usize {
        match self {
            Self::Classic(group) => group.hard().map_or(0, |hard| hard.members.len()),
            Self::Consumer(group) => group.members(),
        }
    }

    /// How much there is to look at: a member is one.
    fn items(&self) -> usize {
        let (assigned, bytes) = match self {
            Self::Classic(group) => (0, group.member_bytes()),
            Self::Consumer(group) => (group.assigned(), group.profile_bytes()),
        };
        self.members() + assigned / PARTITIONS_PER_ITEM + bytes / BYTES_PER_ITEM
    }

    /// How many bytes its members say of themselves.
    pub(crate) fn member_bytes(&self) -> usize {
        match self {
            Self::Classic(group) => group.member_bytes(),
            Self::Consumer(group) => group.member_bytes(),
        }
    }

    /// How many places for members it keeps, also for those that are about to be.
    pub(crate) fn seats(&self) -> usize {
        match self {
            Self::Classic(group) => group.seats(),
            Self::Consumer(group) => group.seats(),
        }
    }

    /// When the state began that its record tells of, if it has such a one.
    pub(crate) fn recorded_at(&self) -> Option<i64> {
        match self {
            Self::Classic(group) => group.hard().map(|hard| hard.state_timestamp),
            Self::Consumer(_) => None,
        }
        .filter(|at| *at != -1)
    }

    /// A hash of what is counted of the members rather than recorded, where that is kept up with
    /// each record.
    pub(crate) fn count_hash(&self) -> u64 {
        match self {
            Self::Classic(_) => 0,
            Self::Consumer(group) => group.count_hash(),
        }
    }

    /// The name of its state in responses.
    pub(crate) fn state_name(&self) -> &'static str {
        match self {
            Self::Classic(group) => group.state().name(),
            Self::Consumer(group) => group.state().name(),
        }
    }

    /// The protocol type of its members; empty if no member ever joined.
    pub(crate) fn protocol_type(&self) -> &str {
        match self {
            Self::Classic(group) => group.protocol_type(),
            Self::Consumer(_) => "consumer",
        }
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Self::Classic(group) => group.is_subscribed_to(topic),
            Self::Consumer(group) => group.is_subscribed_to(topic),
        }
    }

    /// # Errors
    /// NON_EMPTY_GROUP.
    pub(crate) fn validate_delete(&self) -> Result<(), ErrorCode> {
        match self {
            Self::Classic(group) => group.validate_delete(),
            Self::Consumer(group) => group.validate_delete(),
        }
    }

    /// # Errors
    /// NON_EMPTY_GROUP if members may be using offsets of which we do not know the topics.
    pub(crate) fn validate_offset_delete(&self) -> Result<(), ErrorCode> {
        match self {
            Self::Classic(group) => group.validate_offset_delete(),
            Self::Consumer(_) => Ok(()),
        }
    }

    /// From when offsets are kept; None while they may not expire.
    pub(crate) fn retention_base(&self) -> Option<RetentionBase> {
        match self {
            Self::Classic(group) => group.retention_base(),
            Self::Consumer(_) => Some(RetentionBase::Commit),
        }
    }

    /// It is gone: nothing of it may fall due.
    pub(crate) fn removed(&mut self, timers: &mut Timers) {
        match self {
            Self::Classic(group) => group.removed(timers),
            Self::Consumer(group) => group.removed(timers),
        }
    }
}
