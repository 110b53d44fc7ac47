//! The output of a call: records to write and responses to send.

use crate::pending::Producer;
pub use crate::request_id::RequestId;
use crate::share_state::StateCall;
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
    /// The producer of the transaction that all records are part of, if they are: they are written
    /// as a transactional batch of their own, and replayed by
    /// [`crate::Coordinator::replay_in_transaction`].
    pub producer: Option<Producer>,
    pub answers: Vec<Answer<'a>>,
    /// Requests to the leaders of partitions that share groups subscribe to.
    pub state_calls: Vec<StateCall>,
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
