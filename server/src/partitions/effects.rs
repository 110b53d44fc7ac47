//! The context of a request to [`Partitions`](super::Partitions), and its effects.

use super::partition_id::PartitionId;
use super::reader::{Reader, RecordReadEnd};
use crate::cluster::ClusterImage;
use crate::config::ListenerIndex;
use crate::limit_refusals::Refused;
use muster_codec::{ErrorCode, Response, Wall};
use muster_coordinator::RequestId;
use muster_fairness::Address;
use muster_runtime::LogRead;
use muster_storage::{FileOp, FileRange};
use muster_transactions::message::{FromSlot, OpenIn, Question};
use std::collections::BTreeMap;

/// Open transactions, by the slots of their partitions.
pub(crate) type OpenBySlot = BTreeMap<u32, Vec<OpenIn>>;

/// The context of one request.
#[derive(Clone, Copy)]
pub struct Call<'c> {
    /// The monotonic time, and the time of the wall clock.
    pub now: i64,
    pub wall: Wall,
    pub request: RequestId,
    /// The version of the request's API.
    pub version: i16,
    /// The listener of the client.
    pub listener: ListenerIndex,
    /// The address of the client.
    pub address: Address,
    pub image: &'c ClusterImage,
}

/// File operations to perform, in order, and the answers that are ready.
#[derive(Debug, Default)]
#[must_use]
pub struct Effects {
    pub ops: Vec<FileOp>,
    pub replies: Vec<Reply>,
    pub log_reads: Vec<LogRead>,
    /// Questions to the coordinators of transactional ids.
    /// [`Partitions::verdict`](super::Partitions::verdict) is called with the answers. Until then,
    /// the producer's connection is not served.
    pub questions: Vec<Question>,
    /// Messages to the coordinators, by their partitions of `__transaction_state`.
    pub messages: Vec<(u32, FromSlot)>,
    /// The results of reads of records into memory.
    pub(crate) record_reads: Vec<(Reader, RecordReadEnd)>,
    /// The results of [`Partitions::append_letters`](super::Partitions::append_letters), by number.
    pub(crate) letters: Vec<(u64, LettersEnd)>,
    /// Partitions that got more records, or were deleted. Share partitions waited for this.
    pub(crate) grown: Vec<PartitionId>,
    /// The result of [`Partitions::sync_for_reports`](super::Partitions::sync_for_reports).
    pub(crate) reports: Option<OpenBySlot>,
    /// Limits that requests exceeded, for the log.
    pub(crate) refused: Vec<Refused>,
    /// Reads that failed, for the log. Their clients got KAFKA_STORAGE_ERROR.
    pub failed_reads: Vec<FailedRead>,
}

/// The result of appending a batch of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LettersEnd {
    Added,
    /// The disk lacks space for now.
    NoSpace,
    Refused(ErrorCode),
}

/// A read that failed.
#[derive(Debug)]
pub struct FailedRead {
    /// The partition that was read. None if the request that needed the read no longer exists.
    pub of: Option<PartitionId>,
    /// The reason, with the file and the place in it.
    pub reason: String,
}

impl Effects {
    pub fn is_empty(&self) -> bool {
        let Self {
            ops,
            replies,
            log_reads,
            questions,
            messages,
            record_reads,
            letters,
            grown,
            reports,
            refused,
            failed_reads,
        } = self;
        ops.is_empty()
            && replies.is_empty()
            && log_reads.is_empty()
            && questions.is_empty()
            && messages.is_empty()
            && record_reads.is_empty()
            && letters.is_empty()
            && grown.is_empty()
            && reports.is_none()
            && refused.is_empty()
            && failed_reads.is_empty()
    }
}

/// The result of one request.
#[derive(Debug)]
pub struct Reply {
    pub request: RequestId,
    pub outcome: Outcome,
}

/// The way in which a request ends.
#[derive(Debug)]
pub enum Outcome {
    Send(Response<'static>),
    /// An answer with records from these parts of files, in order. The files of the parts stay open
    /// until [`Partitions::release`](super::Partitions::release).
    SendFiles(Response<'static>, Vec<FileRange>),
    /// An answer after which the connection is not served for this number of milliseconds.
    Throttle(Response<'static>, i64),
    /// No answer: a produce with acks 0 is not answered.
    Nothing,
    /// The connection is closed because a produce with acks 0 failed: as in Kafka, there is no
    /// other way to report this. The reason is for the log.
    Close(String),
}

impl Effects {
    pub(super) fn end_read(&mut self, reader: Reader, end: RecordReadEnd) {
        self.record_reads.push((reader, end));
    }

    pub(super) fn send(&mut self, request: RequestId, response: impl Into<Response<'static>>) {
        self.replies.push(Reply { request, outcome: Outcome::Send(response.into()) });
    }

    /// Like [`Self::send`], but the answer says that the client has to wait. Its connection is not
    /// served meanwhile, as when the client has exceeded a quota (KIP-219).
    pub(super) fn throttle(
        &mut self,
        request: RequestId,
        response: impl Into<Response<'static>>,
        wait_ms: i64,
    ) {
        let mut response = response.into();
        if let Some(throttle_time_ms) = response.throttle_time_ms() {
            *throttle_time_ms = i32::try_from(wait_ms).unwrap_or(i32::MAX);
        }
        self.replies.push(Reply { request, outcome: Outcome::Throttle(response, wait_ms) });
    }

    pub(super) fn send_files(
        &mut self,
        request: RequestId,
        response: impl Into<Response<'static>>,
        files: Vec<FileRange>,
    ) {
        let response = response.into();
        let outcome = if files.is_empty() {
            Outcome::Send(response)
        } else {
            Outcome::SendFiles(response, files)
        };
        self.replies.push(Reply { request, outcome });
    }
}
