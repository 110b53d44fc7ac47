//! The groups of a slot: loaded groups, and groups of a snapshot that are not loaded yet.

mod digest;
mod walk;

pub use digest::{Divergence, GroupDigest};
pub(crate) use digest::{audited, hash_of, rebuilt};
pub use walk::SnapshotWalk;

use crate::counters::Gauges;
use crate::group::Entry;
use crate::offsets::Offsets;
use crate::payers::Payers;
use crate::snapshot::{SnapshotDamage, Unloaded, UnloadedGroup};
use crate::text::Text;
use crate::timers::Timers;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::ops::Bound;
use hashbrown::HashMap;

/// All groups of a slot.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    entries: HashMap<Text, Box<Entry>>,
    /// The ids of all groups, for iterations.
    ids: BTreeSet<Text>,
    pub(crate) unloaded: Unloaded,
}

/// A group, loaded or not.
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

impl Groups {
    /// A loaded group. The caller has loaded it before; see [`crate::Coordinator::load`].
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

    /// Loads an unloaded group, without its offsets.
    ///
    /// # Errors
    /// The group is damaged. It is removed.
    pub(crate) fn load(
        &mut self,
        timers: &mut Timers,
        group_id: &str,
        gauges: &mut Gauges,
        payers: &mut Payers,
    ) -> Result<(), SnapshotDamage> {
        if self.unloaded.len() == 0 || self.entries.contains_key(group_id) {
            return Ok(());
        }
        if let Some(mut entry) = self.unloaded.take(group_id, timers)? {
            entry.recount(gauges, payers);
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

    /// The entry of a group, which must have been loaded. Creates the entry if there is none.
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

    /// Removes an entry if it is vacant; the caller has checked that the group has no pending
    /// offsets. Returns whether it was removed.
    pub(crate) fn remove_if_vacant(&mut self, group_id: &str) -> bool {
        let is_vacant = self.get(group_id).is_some_and(Entry::is_vacant);
        if is_vacant {
            self.remove(group_id);
        }
        is_vacant
    }

    /// The number of groups, loaded or not.
    pub(crate) fn len(&self) -> usize {
        self.ids.len() + self.unloaded.len()
    }

    /// A group whose offsets are unloaded. The group itself may be loaded.
    pub(crate) fn unloaded_offsets(&self, group_id: &str) -> Option<UnloadedGroup<'_>> {
        if self.unloaded.is_closed() {
            return None;
        }
        let is_loaded =
            self.entries.get(group_id).is_some_and(|entry| !entry.offsets.is_unloaded());
        self.unloaded.with_offsets(group_id).filter(|_| !is_loaded)
    }

    /// Loads the offsets of a loaded group. `read` are the offsets if they are decoded already.
    /// Returns their number.
    ///
    /// # Errors
    /// The offsets are damaged.
    pub(crate) fn load_offsets(
        &mut self,
        group_id: &str,
        read: Option<Offsets>,
    ) -> Result<usize, SnapshotDamage> {
        if self.unloaded.is_closed() {
            return Ok(0);
        }
        let entry = self.entries.get_mut(group_id).filter(|entry| entry.offsets.is_unloaded());
        let Some(entry) = entry else { return Ok(0) };
        entry.offsets = Offsets::default();
        entry.offsets = self.unloaded.take_offsets(group_id, read)?;
        Ok(entry.offsets.len())
    }

    /// All groups after an id, in the order of ids.
    pub(crate) fn iter_after(&self, id: Option<&str>) -> impl Iterator<Item = Listed<'_>> {
        let live = self.live_range(id).filter_map(|id| self.entries.get(id)).map(|entry| &**entry);
        let (mut live, mut unloaded) = (live.peekable(), self.unloaded.iter_after(id).peekable());
        core::iter::from_fn(move || match (live.peek(), unloaded.peek()) {
            (Some(entry), Some(group)) if *entry.id < *group.id => live.next().map(Listed::Live),
            (_, Some(_)) => unloaded.next().map(Listed::Unloaded),
            (_, None) => live.next().map(Listed::Live),
        })
    }

    /// The loaded groups, in the order of ids.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Entry> {
        self.ids.iter().filter_map(|id| self.entries.get(id)).map(|entry| &**entry)
    }

    /// The next id after `id`; the first id if `id` is None.
    pub(crate) fn id_after(&self, id: Option<&Text>) -> Option<Text> {
        let live = self.live_range(id.map(|id| &**id)).next();
        match (live, self.unloaded.id_after(id.map(|id| &**id))) {
            (Some(live), Some(unloaded)) if **live < *unloaded => Some(live.clone()),
            (_, Some(unloaded)) => Some(Text::from(unloaded)),
            (live, None) => live.cloned(),
        }
    }

    /// Like [`Self::id_after`], but only among loaded groups.
    pub(crate) fn live_after(&self, id: Option<&str>) -> Option<Text> {
        self.live_range(id).next().cloned()
    }

    fn live_range(&self, after: Option<&str>) -> impl Iterator<Item = &Text> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ids.range::<str, _>((from, Bound::Unbounded))
    }
}
