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
    /// The position that must be durable before the response leaves; 0 if the response need not
    /// wait.
    pub visible_at: u64,
}

/// The output of a call. The caller appends and replays the records, then sends the answers.
#[derive(Debug, Default)]
#[must_use]
pub struct Output<'a> {
    pub records: Vec<GroupRecord<'a>>,
    /// The producer, if the records belong to a transaction. Then the caller writes them as a
    /// transactional batch of its own, and replays them by
    /// [`crate::Coordinator::replay_in_transaction`].
    pub producer: Option<Producer>,
    pub answers: Vec<Answer<'a>>,
    /// Requests to the leaders of the partitions that share groups subscribe to.
    pub state_calls: Vec<StateCall>,
    /// The internal topics that a streams group lacks. The caller creates them if the client that
    /// sent the heartbeat may create topics. Each heartbeat names them until they exist.
    pub missing_topics: Option<Arc<[MissingTopic]>>,
}

/// An internal topic of a streams group: a changelog or a repartition topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTopic {
    pub name: Text,
    pub partitions: i32,
    /// -1 for the server's default.
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
