//! The output of a call: records to write, responses and messages to send.

use crate::message::{ToSlot, ToSlotBody};
use crate::response::Response;
use alloc::vec::Vec;
use muster_codec::records::TransactionRecord;

/// Identifies a request for its answer; opaque to the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId {
    pub connection: u64,
    pub sequence: u64,
}

/// The response to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub request: RequestId,
    pub response: Response,
    /// The position that must be durable before the response leaves; 0 if the response need not
    /// wait.
    pub visible_at: u64,
}

/// The output of a call. The caller appends and replays the records, and then sends answers and
/// messages. The records need not be written together, only in order: each is the whole state of an
/// id.
#[derive(Debug, Default)]
#[must_use]
pub struct Output {
    pub records: Vec<TransactionRecord<'static>>,
    pub answers: Vec<Answer>,
    pub messages: Vec<ToSlot>,
}

impl Output {
    pub(crate) fn answer(
        &mut self,
        request: RequestId,
        response: impl Into<Response>,
        visible_at: u64,
    ) {
        self.answers.push(Answer { request, response: response.into(), visible_at });
    }

    pub(crate) fn send(&mut self, slot: u32, session: u64, visible_at: u64, body: ToSlotBody) {
        self.messages.push(ToSlot { slot, session, visible_at, body });
    }
}
