//! The partitions of a session, in the order in which they are fetched.

use crate::TopicPartition;
use alloc::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Partitions {
    by_place: BTreeMap<u64, TopicPartition>,
    places: BTreeMap<TopicPartition, Place>,
    next: u64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    number: u64,
    /// Whether the partition was added to the session after its first request, and no answer has
    /// included it since.
    is_new: bool,
}

impl Partitions {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = TopicPartition> {
        self.by_place.values().copied()
    }

    pub(super) fn contains(&self, at: TopicPartition) -> bool {
        self.places.contains_key(&at)
    }

    /// Adds a partition at the end. A partition that is in the session already keeps its place.
    pub(super) fn add(&mut self, at: TopicPartition, is_new: bool) {
        if !self.places.contains_key(&at) {
            self.put_last(at, is_new);
        }
    }

    pub(super) fn remove(&mut self, at: TopicPartition) {
        if let Some(place) = self.places.remove(&at) {
            self.by_place.remove(&place.number);
        }
    }

    /// Notes an answer that may include this partition. Returns whether the partition is new: see
    /// [`Place::is_new`]. A partition with records becomes the last one.
    pub(super) fn answered(&mut self, at: TopicPartition, has_records: bool) -> bool {
        let Some(place) = self.places.get_mut(&at) else { return false };
        let is_new = core::mem::take(&mut place.is_new);
        if has_records {
            self.remove(at);
            self.put_last(at, false);
        }
        is_new
    }

    fn put_last(&mut self, at: TopicPartition, is_new: bool) {
        let number = self.next;
        self.next += 1;
        self.by_place.insert(number, at);
        self.places.insert(at, Place { number, is_new });
    }
}
