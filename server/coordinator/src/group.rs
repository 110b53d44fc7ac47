//! The groups of a slot, and the state of each.

use crate::classic::ClassicGroup;
use crate::consumer::ConsumerGroup;
use crate::offsets::{Offsets, RetentionBase};
use crate::snapshot::{Kind, SnapshotDamage, Unloaded, UnloadedGroup};
use crate::text::Text;
use crate::timers::Timers;
use crate::turn::Turn;
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

/// The whole state of one group id. Offsets outlive a group that one of another kind replaces.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Text,
    pub(crate) group: Option<Group>,
    /// The group that replaces it, held by a handler until its records are replayed.
    pub(crate) successor: Option<Box<Group>>,
    pub(crate) offsets: Offsets,
    /// The position of the last record of this group.
    pub(crate) written_at: u64,
    /// The part of the total of members' bytes that is this group's.
    pub(crate) counted_bytes: usize,
}

// A size of jemalloc: an entry with eight bytes more would take 768. A shard may have a million.
const _: () = assert!(size_of::<Entry>() <= 640);

/// The groups: loaded ones, and those of a snapshot that are not loaded yet.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    entries: HashMap<Text, Box<Entry>>,
    /// For iterations over all groups.
    ids: BTreeSet<Text>,
    pub(crate) unloaded: Unloaded,
}

/// A group as it is found without loading it.
#[derive(Debug)]
pub(crate) enum Listed<'g> {
    Live(&'g Entry),
    Unloaded(UnloadedGroup<'g>),
}

impl<'g> Listed<'g> {
    pub(crate) fn id(&self) -> &'g str {
        match self {
            Self::Live(entry) => &entry.id,
            Self::Unloaded(group) => group.id,
        }
    }
}

/// This many partitions, or bytes of texts, take as long to process as a member.
const PARTITIONS_PER_ITEM: usize = 4;
const BYTES_PER_ITEM: usize = 1_024;

impl Entry {
    /// An entry without a group.
    pub(crate) fn new(id: Text) -> Self {
        let offsets = Offsets::default();
        Self { id, group: None, successor: None, offsets, written_at: 0, counted_bytes: 0 }
    }

    /// Updates the total of members' bytes.
    #[inline]
    pub(crate) fn recount(&mut self, total: &mut usize) {
        let bytes = self.group.as_ref().map_or(0, Group::member_bytes);
        *total = *total - self.counted_bytes + bytes;
        self.counted_bytes = bytes;
    }

    /// The items to process, without offsets.
    pub(crate) fn group_items(&self) -> usize {
        self.group.as_ref().map_or(0, Group::items)
    }

    /// The items to process; each offset is one.
    pub(crate) fn items(&self) -> usize {
        self.group_items() + self.offsets.len()
    }

    fn is_vacant(&self) -> bool {
        self.group.is_none() && self.successor.is_none() && self.offsets.is_empty()
    }
}

impl Groups {
    /// A loaded group; see [`crate::Coordinator::load`].
    pub(crate) fn get(&self, group_id: &str) -> Option<&Entry> {
        debug_assert!(self.unloaded.get(group_id).is_none(), "{group_id} is not loaded");
        self.entries.get(group_id).map(|entry| &**entry)
    }

    /// Like [`Self::get`].
    pub(crate) fn get_mut(&mut self, group_id: &str) -> Option<&mut Entry> {
        debug_assert!(self.unloaded.get(group_id).is_none(), "{group_id} is not loaded");
        self.entries.get_mut(group_id).map(|entry| &mut **entry)
    }

    /// A group, loaded or not.
    pub(crate) fn listed(&self, group_id: &str) -> Option<Listed<'_>> {
        let live = self.entries.get(group_id).map(|entry| Listed::Live(entry));
        live.or_else(|| self.unloaded.get(group_id).map(Listed::Unloaded))
    }

    /// Loads a group if it is unloaded, but not its offsets.
    ///
    /// # Errors
    /// A damaged group. It is removed.
    pub(crate) fn load(
        &mut self,
        timers: &mut Timers,
        group_id: &str,
    ) -> Result<(), SnapshotDamage> {
        if self.unloaded.len() == 0 || self.entries.contains_key(group_id) {
            return Ok(());
        }
        if let Some(entry) = self.unloaded.take(group_id, timers)? {
            self.ids.insert(entry.id.clone());
            self.entries.insert(entry.id.clone(), Box::new(entry));
        }
        Ok(())
    }

    /// Creates the entry of a group that has none.
    pub(crate) fn insert(&mut self, group_id: &str) -> &mut Entry {
        let id = Text::from(group_id);
        self.ids.insert(id.clone());
        self.entries.entry(id.clone()).or_insert_with(|| Box::new(Entry::new(id)))
    }

    /// The entry of a group that is not unloaded; a new one if it has none.
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

    /// Removes the entry of a group that was not created in the end.
    pub(crate) fn remove_if_vacant(&mut self, group_id: &str) {
        if self.get(group_id).is_some_and(Entry::is_vacant) {
            self.remove(group_id);
        }
    }

    /// Number of groups, loaded or not.
    pub(crate) fn len(&self) -> usize {
        self.ids.len() + self.unloaded.len()
    }

    /// Loads the offsets of a loaded group.
    ///
    /// # Errors
    /// Damaged offsets.
    pub(crate) fn load_offsets(&mut self, group_id: &str) -> Result<(), SnapshotDamage> {
        if self.unloaded.is_closed() {
            return Ok(());
        }
        let entry = self.entries.get_mut(group_id).filter(|entry| entry.offsets.is_unloaded());
        if let Some(entry) = entry {
            entry.offsets = Offsets::default();
            entry.offsets = self.unloaded.take_offsets(group_id)?;
        }
        Ok(())
    }

    /// All groups behind an id, by id.
    pub(crate) fn iter_after(&self, id: Option<&str>) -> impl Iterator<Item = Listed<'_>> {
        let live = self.live_range(id).filter_map(|id| self.entries.get(id)).map(|entry| &**entry);
        let (mut live, mut unloaded) = (live.peekable(), self.unloaded.iter_after(id).peekable());
        core::iter::from_fn(move || match (live.peek(), unloaded.peek()) {
            (Some(entry), Some(group)) if *entry.id < *group.id => live.next().map(Listed::Live),
            (_, Some(_)) => unloaded.next().map(Listed::Unloaded),
            (_, None) => live.next().map(Listed::Live),
        })
    }

    /// The loaded groups, by id.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.ids.iter().filter_map(|id| self.entries.get(id)).map(|entry| &**entry)
    }

    /// The id that follows `id`; the first if that is None.
    pub(crate) fn id_after(&self, id: Option<&Text>) -> Option<Text> {
        let live = self.live_range(id.map(|id| &**id)).next();
        match (live, self.unloaded.id_after(id.map(|id| &**id))) {
            (Some(live), Some(unloaded)) if **live < *unloaded => Some(live.clone()),
            (_, Some(unloaded)) => Some(Text::from(unloaded)),
            (live, None) => live.cloned(),
        }
    }

    /// Like [`Self::id_after`], among the loaded groups.
    pub(crate) fn live_after(&self, id: Option<&str>) -> Option<Text> {
        self.live_range(id).next().cloned()
    }

    fn live_range(&self, after: Option<&str>) -> impl Iterator<Item = &Text> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ids.range::<str, _>((from, Bound::Unbounded))
    }
}

impl Kind {
    /// Like [`Group::type_name`].
    pub(crate) fn type_name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Classic => Some("classic"),
            Self::Consumer => Some("consumer"),
        }
    }
}

impl Group {
    /// The name of its protocol in responses.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
        }
    }

    /// Number of members.
    pub(crate) fn members(&self) -> usize {
        match self {
            Self::Classic(group) => group.durable().map_or(0, |durable| durable.members.len()),
            Self::Consumer(group) => group.len(),
        }
    }

    /// The items to process: a member is one.
    fn items(&self) -> usize {
        let (assigned, bytes) = match self {
            Self::Classic(group) => (0, group.member_bytes()),
            Self::Consumer(group) => (group.assigned(), group.profile_bytes()),
        };
        self.members() + assigned / PARTITIONS_PER_ITEM + bytes / BYTES_PER_ITEM
    }

    /// Bytes of the members' profiles.
    pub(crate) fn member_bytes(&self) -> usize {
        match self {
            Self::Classic(group) => group.member_bytes(),
            Self::Consumer(group) => group.member_bytes(),
        }
    }

    /// Number of members, including those that are joining.
    pub(crate) fn members_and_pending(&self) -> usize {
        match self {
            Self::Classic(group) => group.members_and_pending(),
            Self::Consumer(group) => group.members_and_pending(),
        }
    }

    /// The time in the group's record at which its state began, if it has one.
    pub(crate) fn recorded_at(&self) -> Option<i64> {
        match self {
            Self::Classic(group) => group.durable().map(|durable| durable.state_timestamp),
            Self::Consumer(_) => None,
        }
        .filter(|at| *at != -1)
    }

    /// A hash of the counts over the members, for kinds that update them with each record.
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
    /// NON_EMPTY_GROUP if members may be using the offsets: their topics are known only of
    /// consumers.
    pub(crate) fn validate_offset_delete(&self) -> Result<(), ErrorCode> {
        match self {
            Self::Classic(group) => group.validate_offset_delete(),
            Self::Consumer(_) => Ok(()),
        }
    }

    /// The time from which the retention of offsets counts; None while they may not expire.
    pub(crate) fn retention_base(&self) -> Option<RetentionBase> {
        match self {
            Self::Classic(group) => group.retention_base(),
            Self::Consumer(_) => Some(RetentionBase::Commit),
        }
    }

    /// Called when the group's records are replayed after a load: sessions start.
    pub(crate) fn loaded(&mut self, turn: &mut Turn<'_, '_>) {
        match self {
            Self::Classic(group) => group.loaded(turn),
            Self::Consumer(group) => group.loaded(turn),
        }
    }

    /// Answers the parked requests of a group that will be gone: their clients have to join again.
    pub(crate) fn dismiss_all(&mut self, turn: &mut Turn<'_, '_>) {
        match self {
            Self::Classic(group) => group.dismiss_all(turn),
            Self::Consumer(_) => {}
        }
    }

    /// Cancels the timers of a group that was deleted.
    pub(crate) fn removed(&mut self, timers: &mut Timers) {
        match self {
            Self::Classic(group) => group.removed(timers),
            Self::Consumer(group) => group.removed(timers),
        }
    }
}
