//! Sets of partitions by key, with or without an epoch for each partition. The key is a topic id,
//! or the role and subtopology of tasks.

use alloc::vec::Vec;
use core::fmt::Debug;
use muster_codec::Uuid;

/// A key by which a kind of group assigns partitions.
pub(crate) trait Key: Debug + Clone + Ord {}

impl<K: Debug + Clone + Ord> Key for K {}

/// The partitions of one key, ascending. `P` is a partition index, or an index with an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPartitions<K, P> {
    pub(crate) key: K,
    pub(crate) partitions: Vec<P>,
}

/// Partitions by ascending key. No key has an empty list.
pub(crate) type Partitions<K = Uuid> = Vec<KeyPartitions<K, i32>>;

/// A partition that a member owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnedPartition {
    pub(crate) partition: i32,
    /// The epoch in which the partition was assigned to the member (KIP-1251).
    pub(crate) epoch: i32,
}

/// The partitions that a member owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned<K = Uuid>(Vec<KeyPartitions<K, OwnedPartition>>);

impl<K> Default for Owned<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Key> Owned<K> {
    /// A set of partitions. The keys may be in any order.
    pub(crate) fn new(mut keys: Vec<KeyPartitions<K, OwnedPartition>>) -> Self {
        keys.retain(|of_key| !of_key.partitions.is_empty());
        keys.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        for of_key in &mut keys {
            of_key.partitions.sort_unstable();
            of_key.partitions.dedup_by_key(|it| it.partition);
        }
        keys.dedup_by(|a, b| a.key == b.key);
        Self(keys)
    }

    /// All of `partitions`, owned since `epoch`.
    pub(crate) fn since(partitions: &Partitions<K>, epoch: i32) -> Self {
        let keys = partitions.iter().map(|of_key| KeyPartitions {
            key: of_key.key.clone(),
            partitions: of_key.partitions.iter().map(|it| owned(*it, epoch)).collect(),
        });
        Self::new(keys.collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The partitions by ascending key.
    pub(crate) fn by_key(&self) -> &[KeyPartitions<K, OwnedPartition>] {
        &self.0
    }

    /// The partitions without their epochs.
    pub(crate) fn partitions(&self) -> Partitions<K> {
        let keys = self.0.iter().map(|of_key| KeyPartitions {
            key: of_key.key.clone(),
            partitions: of_key.partitions.iter().map(|it| it.partition).collect(),
        });
        keys.collect()
    }

    pub(crate) fn of_key(&self, key: &K) -> &[OwnedPartition] {
        let found = self.0.binary_search_by(|of_key| of_key.key.cmp(key));
        found.map_or(&[], |at| &self.0[at].partitions)
    }

    /// The epoch in which a partition was assigned; None if it is not owned.
    pub(crate) fn epoch(&self, key: &K, partition: i32) -> Option<i32> {
        let partitions = self.of_key(key);
        let at = partitions.binary_search_by_key(&partition, |it| it.partition).ok()?;
        Some(partitions[at].epoch)
    }

    pub(crate) fn contains(&self, key: &K, partition: i32) -> bool {
        self.epoch(key, partition).is_some()
    }

    /// The number of partitions that `other` does not contain.
    pub(crate) fn len_without(&self, other: &Self) -> usize {
        let others = self.0.iter().map(|of_key| {
            let known = other.of_key(&of_key.key);
            let is_known = |it: &&OwnedPartition| {
                known.binary_search_by_key(&it.partition, |known| known.partition).is_ok()
            };
            of_key.partitions.len() - of_key.partitions.iter().filter(is_known).count()
        });
        others.sum()
    }

    /// Whether any partition was assigned in `epoch`.
    pub(crate) fn has_since(&self, epoch: i32) -> bool {
        self.0.iter().flat_map(|of_key| &of_key.partitions).any(|it| it.epoch == epoch)
    }

    /// The same partitions, each with epoch 0.
    pub(crate) fn with_epochs_reset(&self) -> Self {
        let mut reset = self.clone();
        reset.0.iter_mut().flat_map(|of_key| &mut of_key.partitions).for_each(|it| it.epoch = 0);
        reset
    }

    /// Adds a partition, unless it is owned already.
    pub(crate) fn insert(&mut self, key: &K, partition: OwnedPartition) {
        let at = match self.0.binary_search_by(|of_key| of_key.key.cmp(key)) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, KeyPartitions { key: key.clone(), partitions: Vec::new() });
                at
            }
        };
        let of_key = &mut self.0[at].partitions;
        if let Err(at) = of_key.binary_search_by_key(&partition.partition, |it| it.partition) {
            of_key.insert(at, partition);
        }
    }

    /// Removes a partition; returns whether it was owned.
    pub(crate) fn remove(&mut self, key: &K, partition: i32) -> bool {
        let Ok(at) = self.0.binary_search_by(|of_key| of_key.key.cmp(key)) else { return false };
        let of_key = &mut self.0[at].partitions;
        let found = of_key.binary_search_by_key(&partition, |it| it.partition);
        if let Ok(at) = found {
            of_key.remove(at);
        }
        if of_key.is_empty() {
            self.0.remove(at);
        }
        found.is_ok()
    }

    /// The union of two sets. A partition that is in both keeps its epoch in `self`.
    pub(crate) fn union(self, other: Self) -> Self {
        let mut keys = self.0;
        for more in other.0 {
            match keys.binary_search_by(|of_key| of_key.key.cmp(&more.key)) {
                Ok(at) => {
                    let known = &mut keys[at].partitions;
                    known.extend(more.partitions);
                    known.sort_by_key(|it| it.partition);
                    known.dedup_by_key(|it| it.partition);
                }
                Err(at) => keys.insert(at, more),
            }
        }
        Self(keys)
    }

    /// Splits the set by key: keys for which `is_kept` holds, and the other keys.
    pub(crate) fn partition(self, is_kept: impl Fn(&K) -> bool) -> (Self, Self) {
        let (kept, gone) = self.0.into_iter().partition(|of_key| is_kept(&of_key.key));
        (Self(kept), Self(gone))
    }
}

pub(crate) fn owned(partition: i32, epoch: i32) -> OwnedPartition {
    OwnedPartition { partition, epoch }
}
