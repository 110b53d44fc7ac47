//! The producer ids that a shard may allocate, and the requests that wait for the next block.

use super::{Message, Shard};
use crate::dispatch::Call;
use muster_codec::ErrorCode;
use muster_codec::messages::{InitProducerIdRequest, InitProducerIdResponse};
use muster_coordinator::RequestId;
use std::collections::VecDeque;

/// A block of ids; the next one is requested when it is used up.
#[derive(Debug, Default)]
pub(crate) struct ProducerIds {
    next: i64,
    left: i32,
    asked: bool,
    waiting: VecDeque<RequestId>,
}

impl ProducerIds {
    fn take(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1).filter(|left| *left >= 0)?;
        self.next += 1;
        Some(self.next - 1)
    }
}

impl Shard {
    /// InitProducerId for idempotent producers; each call returns a new id at epoch 0, as Kafka
    /// does for a producer without a transactional id.
    pub(crate) fn init_producer_id(&mut self, call: &Call<'_>, body: &InitProducerIdRequest<'_>) {
        if let Some(error) = refusal(body) {
            if error == ErrorCode::TransactionalIdAuthorizationFailed {
                self.log_transactions(call.request, &call.client_id);
            }
            let error_code = error.code();
            let response =
                InitProducerIdResponse { error_code, producer_epoch: -1, ..Default::default() };
            return self.connections.answer_now(call.request, &response.into());
        }
        self.producer_ids.waiting.push_back(call.request);
        self.answer_waiting();
    }

    pub(crate) fn producer_ids_came(&mut self, first: i64, count: i32) {
        let ids = &mut self.producer_ids;
        (ids.next, ids.left, ids.asked) = (first, count, false);
        self.answer_waiting();
    }

    fn answer_waiting(&mut self) {
        while !self.producer_ids.waiting.is_empty() {
            let Some(producer_id) = self.producer_ids.take() else { break };
            let Some(request) = self.producer_ids.waiting.pop_front() else { break };
            let response =
                InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() };
            self.connections.answer_now(request, &response.into());
        }
        let wanted = !self.producer_ids.waiting.is_empty();
        if wanted && !std::mem::replace(&mut self.producer_ids.asked, true) {
            self.send_to_controller(Message::ProducerIds { from: self.number });
        }
    }
}

/// An id without an epoch, or an epoch without an id, is invalid; transactions are refused with an
/// error that clients treat as final.
fn refusal(body: &InitProducerIdRequest<'_>) -> Option<ErrorCode> {
    if (body.producer_id == -1) != (body.producer_epoch == -1) {
        return Some(ErrorCode::InvalidRequest);
    }
    match body.transactional_id.as_deref()? {
        "" => Some(ErrorCode::InvalidRequest),
        _ => Some(ErrorCode::TransactionalIdAuthorizationFailed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_requests_for_producer_ids_are_refused_as_by_kafka() {
        let error = |transactional_id: Option<&'static str>, producer_id, producer_epoch| {
            refusal(&InitProducerIdRequest {
                transactional_id: transactional_id.map(Into::into),
                producer_id,
                producer_epoch,
                ..Default::default()
            })
        };
        let (invalid, is_final) =
            (ErrorCode::InvalidRequest, ErrorCode::TransactionalIdAuthorizationFailed);
        assert_eq!(error(None, -1, -1), None);
        assert_eq!(error(None, 5, 0), None);
        assert_eq!(error(None, 5, -1), Some(invalid));
        assert_eq!(error(Some("t"), -1, 0), Some(invalid));
        assert_eq!(error(Some(""), -1, -1), Some(invalid));
        assert_eq!(error(Some("t"), -1, -1), Some(is_final));
    }
}
