//! Sends answers in order. An answer is sent when all earlier answers of its connection were sent
//! and the log positions that it depends on are durable.

use super::connection::Connection;
use super::counters::Answered;
use super::durable::{Flushes, VisibleAt};
use super::timings::Timing;
use crate::net::ConnectionId;
use muster_codec::{ApiKey, wire};
use muster_storage::LogSlot;

/// The maximum number of frames that are kept for reuse, and the maximum capacity of such a frame.
const SPARE_FRAMES_MAX: usize = 1024;
const SPARE_FRAME_BYTES_MAX: usize = 4096;

/// Decides when answers may be sent. The answers that still have to wait are stored with their
/// connections, in [`Requests`](super::requests::Requests).
#[derive(Debug, Default)]
pub(super) struct Answers {
    flushes: Flushes,
    /// Emptied frames.
    spare: Vec<Vec<u8>>,
    answered: Answered,
}

impl Answers {
    /// Takes an answer. If it is the next in order and `visible_at` is durable, writes it directly
    /// to the output. Returns whether the connection may have output: see [`Self::advance`].
    #[inline]
    pub(super) fn take(
        &mut self,
        connection: &mut Connection,
        sequence: u64,
        write: impl FnOnce(i32, i16, &mut Vec<u8>) -> wire::Result<()>,
        visible_at: VisibleAt,
    ) -> bool {
        let Connection { id, requests, output, .. } = connection;
        if !requests.has(sequence) {
            return true;
        }
        let is_durable = self.flushes.have(&visible_at);
        if is_durable
            && requests.is_first(sequence)
            && let Some(buffer) = output.buffer()
        {
            requests.answer_first(write, buffer, &mut self.answered);
            return true;
        }
        if !is_durable {
            self.flushes.wait(&visible_at, *id);
        }
        let frame = self.spare.pop().unwrap_or_default();
        requests.answer(sequence, write, frame, visible_at);
        is_durable
    }

    /// Moves the answers that may be sent now to the output. If the times of some of their requests
    /// are measured, returns these.
    #[inline]
    pub(super) fn advance(&mut self, connection: &mut Connection) -> Vec<Timing> {
        let Connection { requests, output, .. } = connection;
        requests.advance(&self.flushes, output, &mut self.spare, &mut self.answered);
        while self.spare.last().is_some_and(|frame| {
            frame.capacity() > SPARE_FRAME_BYTES_MAX || self.spare.len() > SPARE_FRAMES_MAX
        }) {
            self.spare.pop();
        }
        requests.take_measured()
    }

    /// Notes that all positions of a slot up to `position` are durable.
    pub(super) fn flushed(&mut self, slot: LogSlot, position: u64) {
        self.flushes.flushed(slot, position);
    }

    /// The next connection that has an answer for which the log of this slot is now durable far
    /// enough.
    pub(super) fn next_released(&mut self, slot: LogSlot) -> Option<ConnectionId> {
        self.flushes.next_released(slot)
    }

    /// See [`Flushes::take_waiting`].
    pub(super) fn take_waiting(&mut self, slot: LogSlot) -> Vec<ConnectionId> {
        self.flushes.take_waiting(slot)
    }

    /// The number of entries in the queues of answers that wait for a flush.
    pub(super) fn waiting(&self) -> usize {
        self.flushes.waiting()
    }

    /// The number of requests of an API that were answered. It may wrap.
    pub(super) fn answered(&self, api: ApiKey) -> u32 {
        self.answered.of(api)
    }
}
