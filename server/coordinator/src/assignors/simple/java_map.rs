//! Java's `HashMap`. It iterates by bucket. Within a bucket `put` inserts at the tail, and
//! `computeIfAbsent` at the head.

use crate::assignors::java_sets::{buckets_of_copy, uuid_hash};
use crate::java_order::Buckets;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::Uuid;

/// A key with a Java `hashCode`.
pub(super) trait JavaHash: Ord + Copy {
    fn java_hash(self) -> u32;
}

impl JavaHash for Uuid {
    fn java_hash(self) -> u32 {
        uuid_hash(self)
    }
}

/// Java's `Integer`.
impl JavaHash for u32 {
    fn java_hash(self) -> u32 {
        self
    }
}

/// A map; `V` is `()` for a set. Buckets that Java turns into trees keep the same order.
#[derive(Debug, Clone)]
pub(super) struct JavaMap<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    buckets: Buckets,
    inserted: i64,
}

pub(super) type JavaSet<K> = JavaMap<K, ()>;

#[derive(Debug, Clone)]
struct Entry<V> {
    /// The place within the bucket.
    place: i64,
    value: V,
}

impl<K, V> Default for JavaMap<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), buckets: Buckets::default(), inserted: 0 }
    }
}

impl<K: JavaHash, V> JavaMap<K, V> {
    /// A map that can hold `len` entries without growing, as `Utils.newHashMap` of Kafka makes it.
    pub(super) fn with_room_for(len: usize) -> Self {
        Self { buckets: Buckets::with_room_for(len), ..Self::default() }
    }

    /// An empty map with the buckets that Java gives to a copy of a collection with `len` entries.
    pub(super) fn copy_of(len: usize) -> Self {
        Self { buckets: buckets_of_copy(len), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.entries.contains_key(&key)
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.entries.get(&key).map(|entry| &entry.value)
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.entries.get_mut(&key).map(|entry| &mut entry.value)
    }

    /// `computeIfAbsent`. It checks before the insertion whether the map has to grow.
    pub(super) fn compute_if_absent(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        self.buckets.grow_to_hold(self.len());
        self.inserted += 1;
        let place = -self.inserted;
        &mut self.entries.entry(key).or_insert_with(|| Entry { place, value: new() }).value
    }

    /// Removes a key. Returns whether it was in the map.
    pub(super) fn remove(&mut self, key: K) -> bool {
        self.entries.remove(&key).is_some()
    }

    /// The keys in the order of iteration.
    pub(super) fn keys(&self) -> Vec<K> {
        let place = |(key, entry): (&K, &Entry<V>)| {
            (self.buckets.of_hash(key.java_hash()), entry.place, *key)
        };
        let mut places: Vec<_> = self.entries.iter().map(place).collect();
        places.sort_unstable();
        places.into_iter().map(|(_, _, key)| key).collect()
    }
}

impl<K: JavaHash> JavaSet<K> {
    /// `HashSet.add`, which is a `put`.
    pub(super) fn add(&mut self, key: K) {
        if !self.contains(key) {
            self.buckets.grow_to_hold(self.len() + 1);
            self.inserted += 1;
            self.entries.insert(key, Entry { place: self.inserted, value: () });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_by_bucket_and_within_one_in_order_of_insertion() {
        let mut set = JavaSet::default();
        [33, 2, 1, 17].into_iter().for_each(|key: u32| set.add(key));
        assert_eq!(set.keys(), [33, 1, 17, 2]);
        assert!(set.remove(33));
        set.add(33);
        assert_eq!(set.keys(), [1, 17, 33, 2]);
    }

    #[test]
    fn a_computed_entry_is_the_first_of_its_bucket_and_does_not_make_the_map_grow() {
        let mut map = JavaMap::default();
        let mut compute = |key: u32| *map.compute_if_absent(key, || key);
        assert_eq!([1, 17, 1].map(&mut compute), [1, 17, 1]);
        (2..13).for_each(|key| assert_eq!(compute(key), key));
        assert_eq!(map.keys()[..3], [17, 1, 2]);
        map.compute_if_absent(1, || 1);
        assert_eq!(map.keys()[..3], [1, 2, 3], "there are 32 buckets now");
    }

    #[test]
    fn a_map_grows_past_three_quarters() {
        let mut set = JavaSet::default();
        (0..12).map(|it| it * 16).for_each(|key: u32| set.add(key));
        set.add(1);
        let order = set.keys();
        assert_eq!(order[..3], [0, 32, 64], "of 32 buckets");
        assert_eq!(order[6..8], [1, 16]);
    }
}
