//! The front door: every kind of call, and the partitions by topic.
#![allow(clippy::todo, unused_variables, dead_code)]

use super::{Call, Effects};
use crate::cluster::ClusterImage;
use crate::placement::Placement;
use muster_codec::messages::{
    DeleteRecordsRequest, FetchRequest, ListOffsetsRequest, NodeEndpoint,
    OffsetForLeaderEpochRequest, ProduceRequest,
};
use muster_storage::{FileDone, FileId};
use std::path::Path;
use std::sync::Arc;

/// Who the shard is, and what of shared name spaces belongs to its partitions.
#[derive(Debug, Clone)]
pub struct Identity {
    pub shard: u32,
    pub placement: Placement,
    /// Where each shard listens, in the order of shards; told to clients that ask the wrong one.
    pub endpoints: Vec<NodeEndpoint<'static>>,
    /// File ids from this one on are the partitions' own.
    pub first_file: FileId,
    /// The bits that mark the partitions' tokens: each token is this plus a count below 2^56.
    pub token_tag: u64,
}

/// All partitions of user topics that one shard leads.
pub struct Partitions {
    identity: Identity,
}

impl Partitions {
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }

    /// Start-up: reads with `std::fs` what the partitions led here left in the data directory and
    /// opens it; blocks. The operations in `out` open the files for the reactor.
    ///
    /// # Errors
    /// A file that cannot be read, or is damaged other than by a torn tail.
    pub fn open(
        &mut self,
        now: i64,
        data: &Path,
        image: &Arc<ClusterImage>,
        out: &mut Effects,
    ) -> std::io::Result<()> {
        todo!()
    }

    /// Produce v3 to v13. Answered when the writes are done; acks 0 is answered by
    /// [`Outcome::Nothing`](super::Outcome) (or `Close`) so that the caller counts it as done.
    pub fn produce(&mut self, call: Call<'_>, body: &ProduceRequest<'_>, out: &mut Effects) {
        todo!()
    }

    /// Fetch v4 to v18. Answered at once, after reads, or when enough bytes or the deadline came.
    pub fn fetch(&mut self, call: Call<'_>, body: &FetchRequest<'_>, out: &mut Effects) {
        todo!()
    }

    /// ListOffsets v1 to v11.
    pub fn list_offsets(
        &mut self,
        call: Call<'_>,
        body: &ListOffsetsRequest<'_>,
        out: &mut Effects,
    ) {
        todo!()
    }

    /// DeleteRecords v0 to v2.
    pub fn delete_records(
        &mut self,
        call: Call<'_>,
        body: &DeleteRecordsRequest<'_>,
        out: &mut Effects,
    ) {
        todo!()
    }

    /// OffsetForLeaderEpoch v2 to v4.
    pub fn offset_for_leader_epoch(
        &mut self,
        call: Call<'_>,
        body: &OffsetForLeaderEpochRequest<'_>,
        out: &mut Effects,
    ) {
        todo!()
    }

    /// Topics came or went, partitions were added, configs changed: creates the logs of partitions
    /// led here, removes those of deleted topics and answers what waits on them.
    pub fn image_changed(&mut self, now: i64, image: &Arc<ClusterImage>, out: &mut Effects) {
        todo!()
    }

    /// A completion whose token carries this identity's tag.
    pub fn file_done(&mut self, now: i64, done: FileDone, out: &mut Effects) {
        todo!()
    }

    /// When [`Self::expire`] has something to do, in milliseconds since the epoch; O(log n).
    pub fn next_deadline(&self) -> Option<i64> {
        todo!()
    }

    /// Answers fetches whose wait is over; sweeps retention and producer ids. A call that comes too
    /// early does no harm.
    pub fn expire(&mut self, now: i64, out: &mut Effects) {
        todo!()
    }

    /// Forgets the fetches that the connection waits for; writes that it asked for go on.
    pub fn connection_closed(&mut self, connection: u64) {
        todo!()
    }

    /// Asks for a sync of all that was written: part of a clean stop, after which the caller waits
    /// for the completions.
    pub fn sync(&mut self, out: &mut Effects) {
        todo!()
    }
}
