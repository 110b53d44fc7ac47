//! Offline partitions. Startup found damage in them that no crash explains, and it is not known
//! where the next batch after the damage begins. Requests for them get KAFKA_STORAGE_ERROR, like
//! requests for a broker's failed log directory. All other partitions are served.

use super::layout;
use super::partition_id::PartitionId;
use super::partition_set::Partitions;
use super::{Effects, load};
use crate::cluster::{OfflineList, Topic};
use muster_storage::{PartitionError, RecoveryPoint};
use std::path::Path;
use tracing::error;

/// A partition that is not served.
#[derive(Debug)]
pub(super) struct Offline {
    /// The recovery point, which stays in the file of recovery points.
    pub point: Option<RecoveryPoint>,
}

impl Partitions {
    /// The number of offline partitions.
    pub fn offline(&self) -> usize {
        self.offline.len()
    }

    /// The offline partitions, in order.
    pub fn offline_list(&self) -> OfflineList {
        self.offline.keys().map(|id| (id.topic, id.index)).collect()
    }

    pub(super) fn take_offline(
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
        self.offline.insert(id, Offline { point });
    }

    /// Removes a partition whose topic was deleted. Returns false if it was not offline.
    pub(super) fn remove_offline(&mut self, id: PartitionId, out: &mut Effects) -> bool {
        let was_offline = self.offline.remove(&id).is_some();
        if was_offline {
            out.ops.push(load::removal(id));
        }
        was_offline
    }
}
