//! The committed offsets of a topic's partitions, sorted. A node of a B-tree takes space for eleven
//! offsets. Most topics of most groups have few offsets, and these few are in a list without spare
//! space.

use crate::committed::Committed;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

/// From this number of partitions on, the offsets are in a B-tree.
const MANY: usize = 16;

#[derive(Debug, Clone)]
pub(crate) enum Partitions {
    /// Fewer than [`MANY`], sorted, without spare capacity.
    Few(Vec<(i32, Committed)>),
    Many(BTreeMap<i32, Committed>),
}

impl Default for Partitions {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// The offsets may be in any order.
impl FromIterator<(i32, Committed)> for Partitions {
    fn from_iter<I: IntoIterator<Item = (i32, Committed)>>(offsets: I) -> Self {
        let all = BTreeMap::from_iter(offsets);
        if all.len() >= MANY { Self::Many(all) } else { Self::Few(all.into_iter().collect()) }
    }
}

impl Partitions {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn get(&self, partition: i32) -> Option<&Committed> {
        match self {
            Self::Few(few) => place(few, partition).ok().map(|at| &few[at].1),
            Self::Many(many) => many.get(&partition),
        }
    }

    /// All offsets, by partition.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, &Committed)> {
        self.from(Bound::Unbounded)
    }

    /// The offsets from a partition on, including or excluding it.
    pub(crate) fn from(&self, first: Bound<i32>) -> impl Iterator<Item = (i32, &Committed)> {
        let is_before = |(partition, _): &(i32, Committed)| match first {
            Bound::Unbounded => false,
            Bound::Included(first) => *partition < first,
            Bound::Excluded(last) => *partition <= last,
        };
        let (few, many) = match self {
            Self::Few(few) => (&few[few.partition_point(is_before)..], None),
            Self::Many(many) => (&[][..], Some(many.range((first, Bound::Unbounded)))),
        };
        let few = few.iter().map(|(partition, committed)| (*partition, committed));
        let many = many.into_iter().flatten().map(|(partition, committed)| (*partition, committed));
        few.chain(many)
    }

    /// Sets an offset. Returns the previous one.
    pub(crate) fn insert(&mut self, partition: i32, committed: Committed) -> Option<Committed> {
        let few = match self {
            Self::Few(few) => few,
            Self::Many(many) => return many.insert(partition, committed),
        };
        match place(few, partition) {
            Ok(at) => return Some(core::mem::replace(&mut few[at].1, committed)),
            Err(at) => {
                few.reserve_exact(1);
                few.insert(at, (partition, committed));
            }
        }
        if few.len() >= MANY {
            *self = Self::Many(few.drain(..).collect());
        }
        None
    }

    /// Removes an offset and returns it.
    pub(crate) fn remove(&mut self, partition: i32) -> Option<Committed> {
        match self {
            Self::Few(few) => place(few, partition).ok().map(|at| few.remove(at).1),
            Self::Many(many) => many.remove(&partition),
        }
    }
}

fn place(few: &[(i32, Committed)], partition: i32) -> Result<usize, usize> {
    few.binary_search_by_key(&partition, |(partition, _)| *partition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use muster_codec::Uuid;
    use proptest::prelude::*;

    fn committed(offset: i64) -> Committed {
        Committed {
            offset,
            leader_epoch: -1,
            metadata: Box::from(""),
            commit_timestamp: 0,
            expire_timestamp: -1,
            topic_id: Uuid::ZERO,
        }
    }

    proptest! {
        #[test]
        fn few_and_many_are_what_a_b_tree_is(
            changes in proptest::collection::vec((0..40i32, 0..3u8, any::<i64>()), 0..120),
        ) {
            let (mut partitions, mut model) = (Partitions::default(), BTreeMap::new());
            for (partition, kind, offset) in changes {
                if kind == 0 {
                    prop_assert_eq!(partitions.remove(partition), model.remove(&partition));
                } else {
                    let before = model.insert(partition, committed(offset));
                    prop_assert_eq!(partitions.insert(partition, committed(offset)), before);
                }
                prop_assert_eq!(partitions.get(partition), model.get(&partition));
                prop_assert_eq!(partitions.len(), model.len());
                prop_assert!(partitions.iter().eq(model.iter().map(|(at, it)| (*at, it))));
                let behind = (Bound::Excluded(partition), Bound::Unbounded);
                let expected = model.range(behind).map(|(at, it)| (*at, it));
                prop_assert!(partitions.from(Bound::Excluded(partition)).eq(expected));
            }
            let again = Partitions::from_iter(model.clone());
            prop_assert!(again.iter().eq(partitions.iter()));
        }
    }
}
