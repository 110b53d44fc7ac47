//! The transactional ids of a coordinator. The ids at rest of an opened snapshot are *unloaded*:
//! they stay bytes of its file until they are needed. A request, question or report loads an id; a
//! record replaces it. Walks over all ids read unloaded ids in place.

use crate::entry::Entry;
use crate::snapshot::Unloaded;
use crate::state::Durable;
use crate::text::Text;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;
use muster_snapshot_index::Found;

/// The ids by name.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    loaded: BTreeMap<Text, Entry>,
    unloaded: Unloaded,
}

/// An id that a walk over all ids visits.
#[derive(Debug)]
pub(crate) struct Seen<'i> {
    pub(crate) id: &'i str,
    pub(crate) durable: Cow<'i, Durable>,
    /// None if the id is unloaded.
    pub(crate) entry: Option<&'i Entry>,
}

impl Seen<'_> {
    /// Whether no work on the id is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.entry.is_none_or(|entry| entry.active.is_none())
    }

    /// The number of the id's last record. If the id is unloaded, 0: its record is older than all
    /// reports.
    pub(crate) fn record(&self) -> u32 {
        self.entry.map_or(0, |entry| entry.record)
    }
}

impl Ids {
    /// Adds the ids of an opened snapshot.
    pub(crate) fn open(&mut self, unloaded: Unloaded) {
        self.unloaded = unloaded;
    }

    /// Whether a look-up found the snapshot damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.unloaded.is_damaged()
    }

    /// Number of unloaded ids.
    pub(crate) fn unloaded(&self) -> usize {
        self.unloaded.len()
    }

    /// A loaded id.
    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.loaded.get(id)
    }

    /// A loaded id.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.loaded.get_mut(id)
    }

    /// Whether the id exists, loaded or not.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.loaded.contains_key(id) || self.unloaded.contains(id)
    }

    /// Loads an id if it is unloaded.
    pub(crate) fn load(&mut self, id: &str) {
        if let Some((durable, written_at)) = self.unloaded.take(id) {
            self.loaded.insert(id.into(), Entry { written_at, ..Entry::new(durable) });
        }
    }

    /// Loads those unloaded ids for which `is_wanted` accepts the current or the previous producer
    /// id.
    pub(crate) fn load_producers(&mut self, is_wanted: impl Fn(i64) -> bool) {
        let ids: Vec<Text> = self.unloaded.of_producers(is_wanted).map(Text::from).collect();
        ids.iter().for_each(|id| self.load(id));
    }

    /// Adds an id that is not loaded. Returns whether it is new.
    pub(crate) fn insert(&mut self, id: &str, entry: Entry) -> bool {
        let was_unloaded = self.unloaded.remove(id);
        self.loaded.insert(id.into(), entry);
        !was_unloaded
    }

    /// Removes an id. Returns None if it does not exist, else its entry if it was loaded.
    pub(crate) fn remove(&mut self, id: &str) -> Option<Option<Entry>> {
        let entry = self.loaded.remove(id);
        (entry.is_some() || self.unloaded.remove(id)).then_some(entry)
    }

    /// The loaded ids, in order.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (&Text, &Entry)> {
        self.loaded.iter()
    }

    /// The loaded ids from `from` on, in order.
    pub(crate) fn loaded_from(&self, from: Bound<&str>) -> impl Iterator<Item = (&Text, &Entry)> {
        self.loaded.range::<str, _>((from, Bound::Unbounded))
    }

    /// The durable state of an id, loaded or not.
    pub(crate) fn durable(&self, id: &str) -> Option<Cow<'_, Durable>> {
        match self.loaded.get(id) {
            Some(entry) => Some(Cow::Borrowed(&entry.durable)),
            None => self.unloaded.read(id).map(Cow::Owned),
        }
    }

    /// The ids after `id`, loaded or not, in order.
    pub(crate) fn after(&self, id: Option<&str>) -> impl Iterator<Item = Seen<'_>> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let mut loaded = self.loaded_from(from).peekable();
        let mut unloaded = self.unloaded.after(id).peekable();
        let next = move || {
            let is_loaded = match (loaded.peek(), unloaded.peek()) {
                (Some((loaded, _)), Some(unloaded)) => &***loaded < unloaded.id,
                (loaded, _) => loaded.is_some(),
            };
            if is_loaded {
                return loaded.next().map(|(id, entry)| seen(id, entry));
            }
            let Found { id, row, .. } = unloaded.next()?;
            Some(Seen { id, durable: Cow::Owned(row.durable), entry: None })
        };
        core::iter::from_fn(next)
    }
}

fn seen<'i>(id: &'i str, entry: &'i Entry) -> Seen<'i> {
    Seen { id, durable: Cow::Borrowed(&entry.durable), entry: Some(entry) }
}
