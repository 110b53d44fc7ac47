//! The groups of a shard, and what is kept of each.

use crate::classic::ClassicGroup;
use crate::consumer::ConsumerGroup;
use crate::limits::GROUPS_MAX;
use crate::offsets::{Offsets, RetentionBase};
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
}

#[derive(Debug, Default)]
pub(crate) struct Groups {
    entries: HashMap<Text, Box<Entry>>,
    /// For everything that goes through all groups.
    ids: BTreeSet<Text>,
}

impl Groups {
    pub(crate) fn get(&self, group_id: &str) -> Option<&Entry> {
        self.entries.get(group_id).map(|entry| &**entry)
    }

    pub(crate) fn get_mut(&mut self, group_id: &str) -> Option<&mut Entry> {
        self.entries.get_mut(group_id).map(|entry| &mut **entry)
    }

    /// Makes the entry of a group that has none.
    pub(crate) fn insert(&mut self, group_id: &str) -> &mut Entry {
        let id = Text::from(group_id);
        self.ids.insert(id.clone());
        self.entries.entry(id.clone()).or_insert_with(|| {
            Box::new(Entry {
                id,
                group: None,
                successor: None,
                offsets: Offsets::default(),
                written_at: 0,
            })
        })
    }

    pub(crate) fn remove(&mut self, group_id: &str) {
        self.entries.remove(group_id);
        self.ids.remove(group_id);
    }

    /// Removes the entry of a group that did not come to be.
    pub(crate) fn remove_if_vacant(&mut self, group_id: &str) {
        let is_vacant = |entry: &Entry| {
            entry.group.is_none() && entry.successor.is_none() && entry.offsets.is_empty()
        };
        if self.get(group_id).is_some_and(is_vacant) {
            self.remove(group_id);
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ids.len() >= GROUPS_MAX
    }

    /// All of them, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.ids.iter().filter_map(|id| self.get(id))
    }

    /// The id that comes after `id`; the first if that is None.
    pub(crate) fn id_after(&self, id: Option<&Text>) -> Option<Text> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.ids.range::<Text, _>((from, Bound::Unbounded)).next().cloned()
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
