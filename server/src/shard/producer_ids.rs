//! The producer ids that a shard may give out, and the requests that wait for the next block.

use super::{Message, Shard};
use crate::dispatch::Call;
use muster_codec::ErrorCode;
use muster_codec::messages::{InitProducerIdRequest, InitProducerIdResponse};
use muster_coordinator::RequestId;
use std::collections::VecDeque;

/// A block of ids, asked for when it is used up.
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
    /// InitProducerId for idempotent producers; each call gives a new id at epoch 0, as Kafka does
    /// for a producer without a transactional id.
    pub(crate) fn init_producer_id(&mut self, call: &Call<'_>, body: &InitProducerIdRequest<'_>) {
        if body.transactional_id.is_some() {
            let error_code = ErrorCode::TransactionalIdAuthorizationFailed.code();
            let response = InitProducerIdResponse { error_code, ..Default::default() };
            return self.connections.answer(call.request, &response.into(), 0);
        }
        self.producer_ids.waiting.push_back(call.request);
        self.give_waiting();
    }

    pub(crate) fn producer_ids_came(&mut self, first: i64, count: i32) {
        let ids = &mut self.producer_ids;
        (ids.next, ids.left, ids.asked) = (first, count, false);
        self.give_waiting();
    }

    fn give_waiting(&mut self) {
        while !self.producer_ids.waiting.is_empty() {
            let Some(producer_id) = self.producer_ids.take() else { break };
            let Some(request) = self.producer_ids.waiting.pop_front() else { break };
            let response =
                InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() };
            self.connections.answer(request, &response.into(), 0);
        }
        let wanted = !self.producer_ids.waiting.is_empty();
        if wanted && !std::mem::replace(&mut self.producer_ids.asked, true) {
            self.tell_controller(Message::ProducerIds { from: self.number });
        }
    }
}
