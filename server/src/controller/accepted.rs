//! The image of the cluster with all changes that the log has accepted, as the state machine of the
//! cluster's records.

use crate::cluster::ClusterImage;
use crate::topics::{self, InternalTopic};
use muster_codec::DecodeError;
use muster_codec::record_batch::Batch;
use muster_codec::records::ClusterRecord;
use muster_runtime::{Machine, NotWritten, Runtime, Slots, Unlimited, replay_each};
use muster_storage::TopicRule;
use std::sync::Arc;

/// The index of the cluster's only partition.
const INDEX: u32 = topics::CLUSTER.index;

/// The accepted image, as the machine of the cluster's only partition.
#[derive(Debug)]
pub(crate) struct Accepted {
    machines: Slots<ImageMachine>,
}

#[derive(Debug)]
struct ImageMachine {
    image: ClusterImage,
    /// The position up to which a snapshot contains all records; 0 without a snapshot.
    in_snapshot: u64,
}

impl Machine for ImageMachine {
    const RULE: TopicRule = InternalTopic::Cluster.row().rule;

    type Record<'r> = ClusterRecord<'r>;
    type Held = Unlimited;
    type Shared = ();

    fn apply(&mut self, operation: &[ClusterRecord<'_>], position: u64) {
        self.image.apply_at(position, operation);
    }

    fn replay(&mut self, batch: &Batch<'_>, position: u64) -> Result<bool, DecodeError> {
        if position <= self.in_snapshot {
            return Ok(false);
        }
        replay_each(batch, ClusterRecord::read, |record, _| self.image.apply(&record))?;
        Ok(true)
    }

    fn held(&self) -> Unlimited {
        Unlimited
    }

    /// None: an image has no timers.
    fn next_deadline(&self) -> Option<i64> {
        None
    }
}

impl Accepted {
    pub(crate) fn new(image: ClusterImage) -> Self {
        let new = || ImageMachine { image: image.clone(), in_snapshot: 0 };
        Self { machines: Slots::new([INDEX], (), new) }
    }

    /// The image.
    pub(crate) fn image(&self) -> &ClusterImage {
        &self.machines.of(INDEX).image
    }

    /// Loads the image from a snapshot, which contains all records up to a position.
    ///
    /// # Errors
    /// The bytes are not the image of a snapshot.
    pub(crate) fn open(
        &mut self,
        position: u64,
        read: impl FnOnce(&mut ClusterImage) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.machines.on(INDEX, |it, _| {
            it.in_snapshot = position;
            read(&mut it.image)
        })
    }

    /// Applies a batch of the log: see [`Machine::replay`].
    pub(crate) fn replay(
        &mut self,
        batch: &Batch<'_>,
        position: u64,
    ) -> Option<Result<bool, DecodeError>> {
        self.machines.replay(INDEX, batch, position)
    }

    /// Ends the load: the log was replayed up to `position`. Returns the image.
    pub(crate) fn loaded_at(mut self, position: u64) -> Arc<ClusterImage> {
        self.machines.on(INDEX, |it, _| it.image.loaded_at(position));
        Arc::new(self.image().clone())
    }

    /// Appends records as one atomic operation, and applies them. Returns the operation's position
    /// in the cluster's partition.
    ///
    /// # Errors
    /// The operation is too large for the log. Nothing is written.
    pub(super) fn append(
        &mut self,
        runtime: &mut Runtime,
        now: i64,
        records: &[ClusterRecord<'_>],
    ) -> Result<u64, NotWritten> {
        runtime.append(&mut self.machines, INDEX, now, [records])
    }
}
