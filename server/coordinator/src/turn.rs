//! One call on one group: its inputs, and its output.

use crate::config::{Config, GroupConfig, GroupConfigs};
use crate::context::{Describes, Topics};
use crate::counters::Events;
use crate::output::{Output, RequestId};
use crate::pending::PendingOffsets;
use crate::timers::Timers;
use crate::topic_hashes::TopicHashes;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::records::GroupRecord;
use muster_codec::{Response, Wall};

/// The inputs and outputs of a handler.
pub(crate) struct Turn<'t, 'r> {
    pub(crate) now: i64,
    pub(crate) wall: Wall,
    pub(crate) config: &'t Config,
    pub(crate) group_configs: &'t GroupConfigs,
    /// Bytes that the profiles of all members may still grow by.
    pub(crate) members_budget: usize,
    /// Bytes that the pending offsets may still grow by.
    pub(crate) pending_budget: usize,
    pub(crate) pending: &'t PendingOffsets,
    pub(crate) topics: &'t dyn Topics,
    /// The version of the topics when one was last created, at least `loaded_topics`.
    pub(crate) newest_topics: i64,
    /// The version of the topics at the load.
    pub(crate) loaded_topics: i64,
    pub(crate) hashes: &'t mut TopicHashes,
    pub(crate) timers: &'t mut Timers,
    pub(crate) output: &'t mut Output<'r>,
    pub(crate) events: &'t mut Events,
    /// The position that answers wait for: that of the last write to the group, or of this call's.
    pub(crate) visible_at: u64,
    /// The position of this call's records.
    pub(crate) position: u64,
    /// The topics that the client may describe; None for all.
    pub(crate) describes: Option<&'r Arc<dyn Describes>>,
}

impl<'r> Turn<'_, 'r> {
    /// The configs of one consumer group.
    pub(crate) fn consumer_config(&self, group_id: &str) -> GroupConfig {
        self.group_configs.of_consumers(group_id, self.config)
    }

    /// The configs of one share group.
    pub(crate) fn share_config(&self, group_id: &str) -> GroupConfig {
        self.group_configs.of_shares(group_id, self.config)
    }

    pub(crate) fn answer(&mut self, request: RequestId, response: impl Into<Response<'r>>) {
        self.output.answer(request, response, self.visible_at);
    }

    /// Adds `record` to the output. Later answers of this call wait for it.
    pub(crate) fn write(&mut self, record: GroupRecord<'r>) {
        self.visible_at = self.position;
        self.output.records.push(record);
    }

    pub(crate) fn write_all(&mut self, records: Vec<GroupRecord<'r>>) {
        records.into_iter().for_each(|record| self.write(record));
    }
}
