//! What can be seen of a shard from outside: for who checks it while it runs.

use super::Shard;
use crate::cluster::ClusterImage;
use crate::net::Connections;
use muster_codec::records::GroupRecord;
use muster_storage::Progress;
use std::sync::Arc;

/// A look into a shard.
#[derive(Clone, Copy)]
pub struct Inspection<'s>(&'s Shard);

impl Shard {
    pub fn inspect(&self) -> Inspection<'_> {
        Inspection(self)
    }
}

impl<'s> Inspection<'s> {
    /// How far its log has come.
    pub fn progress(self) -> Progress {
        self.0.groups.log.progress()
    }

    /// The durable state of its groups, as the records that would make it.
    pub fn durable_records(self) -> Vec<GroupRecord<'s>> {
        self.0.groups.coordinator.durable_records()
    }

    /// The cluster as the shard knows it.
    pub fn image(self) -> &'s Arc<ClusterImage> {
        &self.0.image
    }

    /// Its connections, to be held against their limits.
    pub fn connections(self) -> &'s Connections {
        &self.0.connections
    }
}
