//! The groups of a shard, and what is kept of each.

use crate::classic::ClassicGroup;
use crate::limits::GROUPS_MAX;
use crate::offsets::Offsets;
use crate::text::Text;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::ops::Bound;
use hashbrown::HashMap;

/// A group, by its protocol.
#[derive(Debug)]
pub(crate) enum Group {
    Classic(ClassicGroup),
}

/// All there is under one group id. Offsets outlive a group that one of another kind replaces.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: Text,
    pub(crate) group: Option<Group>,
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
            Box::new(Entry { id, group: None, offsets: Offsets::default(), written_at: 0 })
        })
    }

    pub(crate) fn remove(&mut self, group_id: &str) {
        self.entries.remove(group_id);
        self.ids.remove(group_id);
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
