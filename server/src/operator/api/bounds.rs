//! The first offsets and the ends of partitions.

use super::answer::{Refused, late};
use crate::cluster::{Topic, leader};
use crate::inquiry::{About, Finding};
use crate::operator::shards::Shards;
use crate::partitions::{Bounds, PartitionId};
use std::collections::BTreeMap;

/// The bounds of partitions.
pub(super) type ByPartition = BTreeMap<PartitionId, Option<Bounds>>;

/// The bounds of partitions, as the shards that lead them report.
///
/// # Errors
/// A shard does not answer in time.
pub(super) fn bounds<'t>(
    shards: &Shards,
    partitions: impl Iterator<Item = (&'t Topic, i32)>,
) -> Result<ByPartition, Refused> {
    let mut by_shard: BTreeMap<u32, Vec<PartitionId>> = BTreeMap::new();
    for (topic, index) in partitions {
        let shard = leader(topic, index, shards.placement());
        by_shard.entry(shard).or_default().push(PartitionId { topic: topic.id, index });
    }
    let mut all = ByPartition::new();
    for (shard, wanted) in by_shard {
        let ids = wanted.clone();
        let Some(Finding::Bounds(found)) = shards.ask(shard, About::Bounds(wanted)) else {
            return Err(late(shard));
        };
        all.extend(ids.into_iter().zip(found));
    }
    Ok(all)
}
