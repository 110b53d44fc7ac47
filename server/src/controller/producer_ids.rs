//! The producer ids that a shard may hand out, and the requests that wait for the next block.

use muster_codec::ErrorCode;
use muster_codec::messages::{InitProducerIdRequest, InitProducerIdResponse};
use muster_coordinator::RequestId;
use std::collections::VecDeque;

/// A block of ids. The next block is requested when this one is used up.
#[derive(Debug, Default)]
pub(super) struct ProducerIds {
    next: i64,
    left: i32,
    asked: bool,
    waiting: VecDeque<RequestId>,
    /// Whether a coordinator of transactions waits for the next block.
    is_wanted: bool,
}

/// The ids for the coordinators of transactions.
impl muster_transactions::ProducerIds for ProducerIds {
    fn next(&mut self) -> Option<i64> {
        let id = self.take();
        self.is_wanted |= id.is_none();
        id
    }
}

impl ProducerIds {
    /// Queues a request for an id of an idempotent producer. Each request gets a new id at epoch 0,
    /// as in Kafka for a producer without a transactional id.
    pub(super) fn wait(&mut self, request: RequestId) {
        self.waiting.push_back(request);
    }

    /// Takes the requested block.
    pub(super) fn came(&mut self, first: i64, count: i32) {
        (self.next, self.left, self.asked) = (first, count, false);
        self.is_wanted = false;
    }

    /// There are none now. Returns the requests that wait for them. The next request asks again.
    pub(super) fn did_not_come(&mut self) -> VecDeque<RequestId> {
        self.asked = false;
        std::mem::take(&mut self.waiting)
    }

    /// The next request that can be answered, and its answer.
    pub(super) fn next_answer(&mut self) -> Option<(RequestId, InitProducerIdResponse)> {
        if self.waiting.is_empty() {
            return None;
        }
        let producer_id = self.take()?;
        let request = self.waiting.pop_front()?;
        let response =
            InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() };
        Some((request, response))
    }

    /// Whether the next block has to be requested now.
    pub(super) fn is_to_ask(&mut self) -> bool {
        let is_wanted = self.is_wanted || !self.waiting.is_empty();
        is_wanted && !std::mem::replace(&mut self.asked, true)
    }

    fn take(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1).filter(|left| *left >= 0)?;
        self.next += 1;
        Some(self.next - 1)
    }
}

/// The answer to a request that is refused; None if the request is valid.
pub(super) fn refused(body: &InitProducerIdRequest<'_>) -> Option<InitProducerIdResponse> {
    refusal(body).map(InitProducerIdResponse::refused)
}

/// Returns an error for a request with a producer id but no epoch, or with an epoch but no id.
fn refusal(body: &InitProducerIdRequest<'_>) -> Option<ErrorCode> {
    let is_invalid = (body.producer_id == -1) != (body.producer_epoch == -1);
    is_invalid.then_some(ErrorCode::InvalidRequest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_requests_for_producer_ids_are_refused_as_by_kafka() {
        let error = |producer_id, producer_epoch| {
            refusal(&InitProducerIdRequest {
                transactional_id: None,
                producer_id,
                producer_epoch,
                ..Default::default()
            })
        };
        assert_eq!(error(-1, -1), None);
        assert_eq!(error(5, 0), None);
        assert_eq!(error(5, -1), Some(ErrorCode::InvalidRequest));
        assert_eq!(error(-1, 0), Some(ErrorCode::InvalidRequest));
    }
}
