//! The coordinator of all groups of a shard: routes each request to its group.

use crate::config::Config;
use crate::context::Context;
use crate::output::{Output, RequestId};
use muster_codec::records::GroupRecord;
use muster_codec::{Request, Uuid};

/// Who sent a request, and in which version.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'r> {
    pub request: RequestId,
    pub api_version: i16,
    pub client_id: &'r str,
    /// The address, printed as Kafka does: `/127.0.0.1`.
    pub client_host: &'r str,
}

/// All groups of a shard.
#[derive(Debug)]
pub struct Coordinator {
    config: Config,
}

impl Coordinator {
    pub fn new(config: Config) -> Self {
        Self { config }
    }

    /// Serves JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch, OffsetDelete,
    /// ListGroups, DescribeGroups and DeleteGroups.
    pub fn handle<'r>(
        &mut self,
        context: &mut Context<'_>,
        caller: Caller<'r>,
        request: Request<'r>,
    ) -> Output<'r> {
        let _ = (context, caller, request, &self.config);
        Output::default()
    }

    /// Applies a record to the durable state.
    pub fn replay(&mut self, record: &GroupRecord<'_>, position: u64) {
        let _ = (record, position);
    }

    /// All records of the log are replayed: sessions start, at `now`, and deadlines with them.
    pub fn loaded(&mut self, now: i64) {
        let _ = now;
    }

    /// When [`Self::expire`] is due, in the milliseconds of [`Context::now`].
    pub fn next_deadline(&self) -> Option<i64> {
        None
    }

    /// Does what is due at `context.now`.
    pub fn expire(&mut self, context: &mut Context<'_>) -> Output<'static> {
        let _ = context;
        Output::default()
    }

    /// Tombstones for the offsets of topics that are gone.
    pub fn topics_deleted(
        &mut self,
        context: &mut Context<'_>,
        topics: &[Uuid],
    ) -> Output<'static> {
        let _ = (context, topics);
        Output::default()
    }
}
