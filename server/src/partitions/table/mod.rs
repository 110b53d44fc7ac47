//! The table of a shard's partitions. Only the table changes a partition. If anything may wait for
//! a change, the change returns a [`Happened`].

mod changes;

pub(super) use changes::NewMarker;

use super::disk::Disk;
use super::happened::{Grown, Happened};
use super::identity::Identity;
use super::internal_topics::INTERNAL_RECORD_BYTES;
use super::load::{self, Found};
use super::offline::Offline;
use super::partition::{Bounds, Partition};
use super::partition_id::PartitionId;
use super::{Effects, layout};
use crate::cluster::{ClusterImage, Topic, is_hosted, leader};
use crate::config::{Config, TopicConfig};
use crate::placement::Placement;
use hashbrown::HashMap;
use muster_codec::{Uuid, Wall};
use muster_storage::{PartitionError, RecoveryPoint};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::path::{Path, PathBuf};

/// The partitions that one shard leads, and the image to which they belong.
#[derive(Debug)]
pub(super) struct Table {
    identity: Identity,
    config: Config,
    image: ClusterImage,
    partitions: BTreeMap<PartitionId, Partition>,
    /// Partitions that could not be opened at startup.
    offline: Offline,
    /// Partitions that clients cannot find, until the shard's log is flushed up to
    /// `withheld_until`.
    withheld: BTreeSet<PartitionId>,
    withheld_until: u64,
    /// The bounds of partitions of internal topics: only of partitions that were flushed or
    /// fetched.
    internal: BTreeMap<PartitionId, Bounds>,
    /// The partitions by the number of their log. The tokens of a log's writes contain this number.
    by_number: HashMap<u32, PartitionId>,
}

impl Table {
    pub(super) fn new(config: Config, identity: Identity) -> Self {
        Self {
            identity,
            config,
            image: ClusterImage::default(),
            partitions: BTreeMap::new(),
            offline: Offline::default(),
            withheld: BTreeSet::new(),
            withheld_until: 0,
            internal: BTreeMap::new(),
            by_number: HashMap::new(),
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    #[cfg(test)]
    pub(super) fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(super) fn placement(&self) -> Placement {
        self.identity.placement
    }

    /// The image to which the partitions belong.
    pub(super) fn image(&self) -> &ClusterImage {
        &self.image
    }

    pub(super) fn set_config(&mut self, config: &Config) {
        self.config.clone_from(config);
    }

    /// Replaces the image. Returns the previous image.
    pub(super) fn set_image(&mut self, image: &ClusterImage) -> ClusterImage {
        std::mem::replace(&mut self.image, image.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.partitions.len()
    }

    pub(super) fn get(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(&id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        self.partitions.iter().map(|(id, partition)| (*id, partition))
    }

    pub(super) fn last(&self) -> Option<PartitionId> {
        self.partitions.last_key_value().map(|(id, _)| *id)
    }

    /// The partitions from `id` on, or all partitions if `id` is None.
    pub(super) fn from(
        &self,
        id: Option<PartitionId>,
    ) -> impl Iterator<Item = (PartitionId, &Partition)> {
        let range = match id {
            Some(id) => self.partitions.range(id..),
            None => self.partitions.range(..),
        };
        range.map(|(id, partition)| (*id, partition))
    }

    /// The partitions that follow `id`, or all partitions if `id` is None.
    pub(super) fn after(
        &self,
        id: Option<PartitionId>,
    ) -> impl Iterator<Item = (PartitionId, &Partition)> {
        let range = (id.map_or(Unbounded, Excluded), Unbounded);
        self.partitions.range(range).map(|(id, partition)| (*id, partition))
    }

    pub(super) fn offline(&self) -> &Offline {
        &self.offline
    }

    pub(super) fn is_withheld(&self, id: PartitionId) -> bool {
        self.withheld.contains(&id)
    }

    /// Hides these partitions from clients until the shard's log is flushed up to a position.
    pub(super) fn withhold(&mut self, ids: BTreeSet<PartitionId>, until: u64) {
        (self.withheld, self.withheld_until) = (ids, until);
    }

    /// Notes that the shard's log is flushed up to a position.
    pub(super) fn shard_log_flushed(&mut self, position: u64) {
        if self.withheld_until <= position {
            self.withheld.clear();
        }
    }

    /// The partitions of a user topic that this shard leads.
    pub(super) fn led(&self, topic: &Topic) -> Vec<PartitionId> {
        let Identity { placement, shard, .. } = self.identity;
        let is_led = |index: &i32| {
            leader(topic, *index, placement) == shard && is_hosted(topic, *index, placement)
        };
        (0..topic.partitions)
            .filter(is_led)
            .map(|index| PartitionId { topic: topic.id, index })
            .collect()
    }

    /// The served and the offline partitions of a topic.
    pub(super) fn of_topic(&self, topic: Uuid) -> Vec<PartitionId> {
        let all = PartitionId { topic, index: 0 }..=PartitionId { topic, index: i32::MAX };
        let served = self.partitions.range(all.clone()).map(|(id, _)| *id);
        served.chain(self.offline.ids_in(all)).collect()
    }

    /// The name of a partition, for the log.
    pub(super) fn name_of(&self, id: PartitionId) -> String {
        let topic = self.image.topic_by_id(id.topic);
        topic.map_or_else(|| id.named(&id.topic.to_string()), |topic| id.named(&topic.name))
    }

    /// The readable offsets of a partition that this shard serves.
    pub(super) fn bounds(&self, id: PartitionId) -> Bounds {
        self.served_bounds(id).unwrap_or_default()
    }

    /// The bounds of a partition that is served; None for any other partition.
    pub(super) fn served_bounds(&self, id: PartitionId) -> Option<Bounds> {
        let of_topic = self.get(id).map(Partition::bounds);
        of_topic.or_else(|| self.internal(id))
    }

    /// The bounds of a partition of an internal topic, if the partition was flushed or fetched.
    pub(super) fn internal(&self, id: PartitionId) -> Option<Bounds> {
        self.internal.get(&id).copied()
    }

    /// The directories of all partitions, whether or not they exist.
    pub(super) fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.partitions.keys().chain(self.offline.ids()).map(|id| layout::directory(*id))
    }

    /// The recovery points, by id, of the partitions that follow `after`, or of all partitions if
    /// `after` is None. Offline partitions are included.
    pub(super) fn points_after(
        &self,
        after: Option<PartitionId>,
    ) -> impl Iterator<Item = (PartitionId, RecoveryPoint)> {
        let range = (after.map_or(Unbounded, Excluded), Unbounded);
        let served = self.partitions.range(range);
        let served = served.filter_map(|(id, it)| Some((*id, it.log.recovery_point()?)));
        let (mut served, mut offline) =
            (served.peekable(), self.offline.points_in(range).peekable());
        std::iter::from_fn(move || match (served.peek(), offline.peek()) {
            (Some((first, _)), Some((second, _))) if second < first => offline.next(),
            (Some(_), _) => served.next(),
            (None, _) => offline.next(),
        })
    }
}

/// Adds and removes partitions.
impl Table {
    pub(super) fn add(
        &mut self,
        id: PartitionId,
        config: TopicConfig,
        found: Option<Found>,
        wall: Wall,
        disk: &mut Disk,
        out: &mut Effects,
    ) {
        let partition = Partition::open(id, config, found, wall, disk, out);
        self.by_number.insert(partition.number, id);
        self.partitions.insert(id, partition);
    }

    pub(super) fn take_offline(
        &mut self,
        data: &Path,
        topic: &Topic,
        id: PartitionId,
        point: Option<RecoveryPoint>,
        why: &PartitionError,
    ) {
        self.offline.add(data, topic, id, point, why);
    }

    /// Sets the config of a topic's partitions, and adds the partitions that are new.
    pub(super) fn topic_changed(
        &mut self,
        topic: &Topic,
        config: &TopicConfig,
        wall: Wall,
        disk: &mut Disk,
        out: &mut Effects,
    ) {
        for id in self.led(topic) {
            match self.partitions.get_mut(&id) {
                Some(partition) => partition.set_config(config),
                None if self.offline.contains(id) => {}
                None => self.add(id, config.clone(), None, wall, disk, out),
            }
        }
    }

    /// Removes a partition of a deleted topic.
    pub(super) fn remove(
        &mut self,
        id: PartitionId,
        disk: &mut Disk,
        out: &mut Effects,
    ) -> Happened {
        if self.offline.remove(id) {
            out.ops.push(load::removal(id));
            return Happened::Nothing;
        }
        let Some(partition) = self.partitions.remove(&id) else { return Happened::Nothing };
        self.by_number.remove(&partition.number);
        Happened::Removed { id, done: partition.remove(disk, out) }
    }

    /// Notes that fetches wait for a partition of an internal topic.
    pub(super) fn fetched(&mut self, id: PartitionId) {
        self.internal.entry(id).or_default();
    }

    /// Notes the bounds of a partition of an internal topic, after a flush of `bytes`.
    pub(super) fn flushed(&mut self, id: PartitionId, bounds: Bounds, bytes: u64) -> Happened {
        let known = self.internal.entry(id).or_default();
        let records = bounds.stable.saturating_sub(known.stable).max(0).unsigned_abs();
        let stable_bytes = records.saturating_mul(INTERNAL_RECORD_BYTES);
        *known = bounds;
        Happened::Grown { id, grown: Grown { bytes, stable_bytes } }
    }
}
