//! Requests of share groups to the leaders of their partitions: to make, delete or read the *share
//! state* of a partition (KIP-932). The caller carries a [`StateCall`] to the leaders once
//! its position is durable, and returns it with their results to
//! [`crate::Coordinator::state_answered`].

use crate::partition_set::PartitionSet;
use crate::request_id::RequestId;
use crate::text::Text;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::messages::{
    AlterShareGroupOffsetsResponse, DeleteGroupsResponse, DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponse,
};
use muster_codec::{ErrorCode, Uuid};

/// A request to the leaders of some partitions, and the rest of the work after it.
#[derive(Debug, Clone, PartialEq)]
pub struct StateCall {
    pub group_id: Text,
    pub request: StateRequest,
    /// The position that must be durable before the request is sent.
    pub visible_at: u64,
    pub(crate) then: Then,
}

/// A request to the leaders of partitions, by topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateRequest {
    /// Make share state, or replace that of an earlier state epoch.
    Initialize {
        state_epoch: i32,
        topics: Vec<(Uuid, Vec<(i32, Start)>)>,
    },
    Delete(Vec<(Uuid, Vec<i32>)>),
    ReadSummary(Vec<(Uuid, Vec<i32>)>),
}

/// The first offset of a share partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    At(i64),
    /// The offset is that of `share.auto.offset.reset` when the partition is first read. Kafka
    /// writes it as -1.
    Unknown,
}

/// The result of one partition. An error of any other partition does not affect it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateResult {
    pub topic_id: Uuid,
    pub partition: i32,
    /// The summary is that of [`StateRequest::ReadSummary`], and empty for the others.
    pub result: Result<Summary, ErrorCode>,
}

/// How far a share partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// -1 if it is not known yet.
    pub start_offset: i64,
    pub leader_epoch: i32,
    /// Records after the start that are delivered for good; -1 if it is not known.
    pub delivery_complete_count: i32,
    /// The end of the partition's log; None if it has none.
    pub end_offset: Option<i64>,
}

impl Start {
    /// The start at an offset of a record or request.
    pub fn of(offset: i64) -> Self {
        if offset < 0 { Self::Unknown } else { Self::At(offset) }
    }

    pub fn offset(self) -> i64 {
        match self {
            Self::At(offset) => offset,
            Self::Unknown => -1,
        }
    }
}

impl StateResult {
    /// The partition with its error, if it has one.
    pub(crate) fn error(&self) -> Option<((Uuid, i32), ErrorCode)> {
        let error = *self.result.as_ref().err()?;
        Some(((self.topic_id, self.partition), error))
    }
}

impl Default for Summary {
    fn default() -> Self {
        Self { start_offset: -1, leader_epoch: 0, delivery_complete_count: -1, end_offset: None }
    }
}

impl Summary {
    /// Records from the start on that are not delivered for good; -1 if that is not known.
    pub(crate) fn lag(&self) -> i64 {
        match self.end_offset {
            Some(end) if self.start_offset >= 0 && self.delivery_complete_count >= 0 => {
                end - self.start_offset - i64::from(self.delivery_complete_count)
            }
            Some(_) | None => -1,
        }
    }
}

/// Partitions by topic.
pub(crate) type ByTopic = BTreeMap<Uuid, TopicState>;

/// Some partitions of one topic. A topic that was deleted keeps its name here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicState {
    pub(crate) name: Text,
    pub(crate) partitions: PartitionSet,
}

/// The work of the group after the leaders have answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// These partitions may be assigned.
    Initialized(ByTopic),
    /// These partitions start elsewhere; the response says which partitions are unknown.
    Altered {
        topics: ByTopic,
        request: RequestId,
        response: AlterShareGroupOffsetsResponse<'static>,
    },
    /// The share state of a group that is to be deleted is gone.
    GroupsDeleted(DeletingGroups),
    /// The response says which topics had no state.
    Deleted { request: RequestId, response: DeleteShareGroupOffsetsResponse<'static> },
    /// The offsets are those of one group, by its place in the response. Those of the groups
    /// after it are to be read.
    Described {
        request: RequestId,
        response: DescribeShareGroupOffsetsResponse<'static>,
        at: usize,
    },
}

/// A DeleteGroups under way, some of whose groups wait for the leaders of their partitions, or are
/// deleted in slices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeletingGroups {
    pub(crate) request: RequestId,
    pub(crate) response: DeleteGroupsResponse<'static>,
    pub(crate) visible_at: u64,
    /// The groups that are not deleted yet, by their places in the response. The last one is under
    /// way.
    pub(crate) rest: Vec<usize>,
}
