//! Offline partitions. At startup they had damage that no crash explains, and the place where the
//! next batch begins was not found. Requests for them get KAFKA_STORAGE_ERROR, as if a broker's log
//! directory had failed. All other partitions are served.

use super::layout;
use super::partition_id::PartitionId;
use crate::cluster::{OfflineList, Topic};
use muster_storage::{PartitionError, RecoveryPoint};
use std::collections::BTreeMap;
use std::ops::{Bound, RangeInclusive};
use std::path::Path;
use tracing::error;

/// The partitions that are not served. Their recovery points are kept here, so that new files of
/// recovery points contain them, too.
#[derive(Debug, Default)]
pub(super) struct Offline {
    points: BTreeMap<PartitionId, Option<RecoveryPoint>>,
}

impl Offline {
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    pub(super) fn contains(&self, id: PartitionId) -> bool {
        self.points.contains_key(&id)
    }

    /// The offline partitions, in order.
    pub(super) fn list(&self) -> OfflineList {
        self.ids().map(|id| (id.topic, id.index)).collect()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &PartitionId> {
        self.points.keys()
    }

    pub(super) fn ids_in(
        &self,
        range: RangeInclusive<PartitionId>,
    ) -> impl Iterator<Item = PartitionId> {
        self.points.range(range).map(|(id, _)| *id)
    }

    /// The recovery points of the partitions in a range, by id.
    pub(super) fn points_in(
        &self,
        range: (Bound<PartitionId>, Bound<PartitionId>),
    ) -> impl Iterator<Item = (PartitionId, RecoveryPoint)> {
        self.points.range(range).filter_map(|(id, point)| Some((*id, (*point)?)))
    }

    pub(super) fn add(
        &mut self,
        data: &Path,
        topic: &Topic,
        id: PartitionId,
        point: Option<RecoveryPoint>,
        why: &PartitionError,
    ) {
        error!(
            "{} is offline; all others are served: in {}, {why}. See muster log verify {data}, and \
             muster log recover {data} for the loss and the possible repair",
            id.named(&topic.name),
            data.join(layout::directory(id)).display(),
            data = data.display(),
        );
        self.points.insert(id, point);
    }

    /// Removes a partition whose topic was deleted. Returns false if it was not offline.
    pub(super) fn remove(&mut self, id: PartitionId) -> bool {
        self.points.remove(&id).is_some()
    }
}
