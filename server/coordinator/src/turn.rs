//! One call on one group: what it knows of its surroundings, and where its output goes.

use crate::config::{Config, GroupConfig, GroupConfigs};
use crate::context::Topics;
use crate::modern::topic_hashes::TopicHashes;
use crate::output::{Output, RequestId};
use crate::timers::Timers;
use alloc::vec::Vec;
use muster_codec::records::GroupRecord;
use muster_codec::{Response, Wall};

/// The surroundings of a handler.
pub(crate) struct Turn<'t, 'r> {
    pub(crate) now: i64,
    pub(crate) wall: Wall,
    pub(crate) config: &'t Config,
    pub(crate) group_configs: &'t GroupConfigs,
    /// Bytes that members may still add to what all of them say of themselves.
    pub(crate) members_room: usize,
    pub(crate) topics: &'t dyn Topics,
    /// The version of the topics with which one was last made, or that the load met.
    pub(crate) newest_topics: i64,
    /// The version that the load met.
    pub(crate) loaded_topics: i64,
    pub(crate) hashes: &'t mut TopicHashes,
    pub(crate) timers: &'t mut Timers,
    pub(crate) output: &'t mut Output<'r>,
    /// What answers wait for: the last write to the group, or the one that this call makes.
    pub(crate) visible_at: u64,
    /// The position of this call's records.
    pub(crate) position: u64,
}

impl<'r> Turn<'_, 'r> {
    /// The configs of one group.
    pub(crate) fn group_config(&self, group_id: &str) -> GroupConfig {
        self.group_configs.of(group_id, self.config)
    }

    pub(crate) fn answer(&mut self, request: RequestId, response: impl Into<Response<'r>>) {
        self.output.answer(request, response, self.visible_at);
    }

    /// Wants `record` written. The answers of this call that come after it wait for it.
    pub(crate) fn write(&mut self, record: GroupRecord<'r>) {
        self.visible_at = self.position;
        self.output.records.push(record);
    }

    pub(crate) fn write_all(&mut self, records: Vec<GroupRecord<'r>>) {
        records.into_iter().for_each(|record| self.write(record));
    }
}
