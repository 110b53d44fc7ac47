//! Requests of share groups to the leaders of partitions, to initialize, delete or read *share
//! state* (KIP-932). When the position of a [`StateCall`] is durable, the caller sends the call to
//! the leaders, and returns the results to [`crate::Coordinator::state_answered`].

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

/// A request to the leaders of some partitions, and what the group does with the results.
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
    /// Create share state, or replace the state of an earlier state epoch.
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
    /// The start is not known yet: `share.auto.offset.reset` decides it when the partition is first
    /// read. Kafka writes it as -1.
    Unknown,
}

/// The result for one partition. Partitions fail independently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateResult {
    pub topic_id: Uuid,
    pub partition: i32,
    /// The summary of [`StateRequest::ReadSummary`]; an empty summary for the other requests.
    pub result: Result<Summary, ErrorCode>,
}

/// The progress of a share partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The share-partition start offset (SPSO); -1 if it is not known yet.
    pub start_offset: i64,
    pub leader_epoch: i32,
    /// From the start offset on, the number of records whose delivery is complete; -1 if it is not
    /// known.
    pub delivery_complete_count: i32,
    /// The end of the partition's log; None if it is not known.
    pub end_offset: Option<i64>,
}

impl Start {
    /// The start for an offset of a record or request; a negative offset means unknown.
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
    /// The partition and its error, if it failed.
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
    /// From the start offset on, the number of records whose delivery is not complete; -1 if it is
    /// not known.
    pub(crate) fn lag(&self) -> i64 {
        match self.end_offset {
            Some(end) if self.start_offset >= 0 && self.delivery_complete_count >= 0 => {
                end - self.start_offset - i64::from(self.delivery_complete_count)
            }
            Some(_) | None => -1,
        }
    }
}

/// Partitions by topic id.
pub(crate) type ByTopic = BTreeMap<Uuid, TopicState>;

/// Partitions of one topic, and the topic's name. The name is kept even if the topic is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicState {
    pub(crate) name: Text,
    pub(crate) partitions: PartitionSet,
}

/// The work of the group after the leaders have answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// The initialized partitions become assignable.
    Initialized(ByTopic),
    /// The partitions got new start offsets. The response already names the unknown partitions.
    Altered {
        topics: ByTopic,
        request: RequestId,
        response: AlterShareGroupOffsetsResponse<'static>,
    },
    /// The share state of the groups in a DeleteGroups request is deleted.
    GroupsDeleted(DeletingGroups),
    /// The share state of topics is deleted. The response already names the topics that had none.
    Deleted { request: RequestId, response: DeleteShareGroupOffsetsResponse<'static> },
    /// The offsets of the group at the index `at` in the response were read. The groups after it
    /// are read next.
    Described {
        request: RequestId,
        response: DescribeShareGroupOffsetsResponse<'static>,
        at: usize,
    },
}

/// A DeleteGroups request under way. Some of its groups wait for the leaders of their partitions,
/// or are deleted in slices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeletingGroups {
    pub(crate) request: RequestId,
    pub(crate) response: DeleteGroupsResponse<'static>,
    pub(crate) visible_at: u64,
    /// The groups that are not deleted yet, as indexes in the response. The deletion of the last
    /// group in this list is under way.
    pub(crate) rest: Vec<usize>,
}
