//! The output of a call: records to write and responses to send.

use crate::pending::Producer;
pub use crate::request_id::RequestId;
use crate::share_state::StateCall;
use crate::text::Text;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::Response;
use muster_codec::records::GroupRecord;

/// The response to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer<'a> {
    pub request: RequestId,
    pub response: Response<'a>,
    /// The position that must be durable before the response is sent; 0 if it need not wait.
    pub visible_at: u64,
}

/// The output of a call. The caller appends and replays the records, then sends the answers.
#[derive(Debug, Default)]
#[must_use]
pub struct Output<'a> {
    pub records: Vec<GroupRecord<'a>>,
    /// The producer of the transaction, if all records are part of one. Then they are written as a
    /// transactional batch of their own, and replayed by
    /// [`crate::Coordinator::replay_in_transaction`].
    pub producer: Option<Producer>,
    pub answers: Vec<Answer<'a>>,
    /// Requests to the leaders of partitions that share groups subscribe to.
    pub state_calls: Vec<StateCall>,
    /// The internal topics that the streams group of a heartbeat lacks, to be created if its client
    /// may do that. Each heartbeat names them again as long as they are missing.
    pub missing_topics: Option<Arc<[MissingTopic]>>,
}

/// An internal topic of a streams group, which only its members use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTopic {
    pub name: Text,
    pub partitions: i32,
    /// -1 for the default.
    pub replication_factor: i16,
    pub configs: Vec<(Text, Text)>,
}

impl<'a> Output<'a> {
    pub(crate) fn answer(
        &mut self,
        request: RequestId,
        response: impl Into<Response<'a>>,
        visible_at: u64,
    ) {
        self.answers.push(Answer { request, response: response.into(), visible_at });
    }
}
