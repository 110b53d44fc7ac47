//! How the result of an operation is answered.

use crate::coordinator::Coordinator;
use crate::message::{Producer, ToSlotBody, Verdict};
use crate::operation::{Action, Done, Operation, Reply};
use crate::output::Output;
use crate::partition_set::PartitionSet;
use crate::state::{NO_EPOCH, NO_PRODUCER_ID};
use crate::text::owned;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult, EndTxnResponse, InitProducerIdResponse,
};

/// From these versions on, a response may contain PRODUCER_FENCED.
const INIT_FENCED_FROM: i16 = 4;
const FENCED_FROM: i16 = 2;

impl Coordinator {
    /// Answers an operation. `visible_at` is only for clients: verdicts do not wait for it.
    pub(crate) fn reply(
        &mut self,
        operation: &Operation,
        result: Result<Done, ErrorCode>,
        visible_at: u64,
        out: &mut Output,
    ) {
        let error = result.as_ref().err().copied().unwrap_or(ErrorCode::None);
        match operation.reply {
            Reply::InitProducerId(to) => {
                let code = fenced(error, to.api_version, INIT_FENCED_FROM);
                out.answer(to.request, init_response(code, result.ok()), visible_at);
            }
            Reply::AddPartitions(to) => {
                let code = fenced(error, to.api_version, FENCED_FROM);
                out.answer(to.request, add_response(operation, code), visible_at);
            }
            Reply::AddOffsets(to) => {
                let error_code = fenced(error, to.api_version, FENCED_FROM).code();
                let response = AddOffsetsToTxnResponse { error_code, ..Default::default() };
                out.answer(to.request, response, visible_at);
            }
            Reply::EndTxn(to) => {
                let code = fenced(error, to.api_version, FENCED_FROM);
                out.answer(to.request, end_response(code, result.ok()), visible_at);
            }
            Reply::Verdict { slot, number } => {
                self.verdict(operation, slot, number, result, out);
            }
        }
    }

    fn verdict(
        &mut self,
        operation: &Operation,
        slot: u32,
        number: u64,
        result: Result<Done, ErrorCode>,
        out: &mut Output,
    ) {
        let (Action::Add { producer, .. } | Action::Verify { producer, .. }) = &operation.action
        else {
            return;
        };
        let (error, refused) = match result {
            Ok(Done::Verified(missing)) => (ErrorCode::None, missing),
            Ok(Done::Added | Done::Identity(_)) => (ErrorCode::None, PartitionSet::default()),
            Err(error) => (error, PartitionSet::default()),
        };
        let verdict = Verdict { stamp: self.stamp(), number, producer: *producer, error, refused };
        self.send(slot, 0, ToSlotBody::Verdict(verdict), out);
    }
}

fn fenced(error: ErrorCode, version: i16, known_from: i16) -> ErrorCode {
    if error == ErrorCode::ProducerFenced && version < known_from {
        return ErrorCode::InvalidProducerEpoch;
    }
    error
}

fn init_response(error: ErrorCode, done: Option<Done>) -> InitProducerIdResponse {
    let Producer { id: producer_id, epoch: producer_epoch } = identity(done);
    InitProducerIdResponse {
        error_code: error.code(),
        producer_id,
        producer_epoch,
        ..Default::default()
    }
}

fn end_response(error: ErrorCode, done: Option<Done>) -> EndTxnResponse {
    let Producer { id: producer_id, epoch: producer_epoch } = identity(done);
    EndTxnResponse { error_code: error.code(), producer_id, producer_epoch, throttle_time_ms: 0 }
}

fn identity(done: Option<Done>) -> Producer {
    match done {
        Some(Done::Identity(producer)) => producer,
        Some(Done::Added | Done::Verified(_)) | None => {
            Producer { id: NO_PRODUCER_ID, epoch: NO_EPOCH }
        }
    }
}

/// The response with one error for all partitions.
fn add_response(operation: &Operation, error: ErrorCode) -> AddPartitionsToTxnResponse<'static> {
    let (Action::Add { partitions, .. } | Action::Verify { partitions, .. }) = &operation.action
    else {
        return AddPartitionsToTxnResponse::default();
    };
    let results_by_topic_v3_and_below = refused(partitions, error);
    AddPartitionsToTxnResponse { results_by_topic_v3_and_below, ..Default::default() }
}

type Results = Vec<AddPartitionsToTxnTopicResult<'static>>;

pub(crate) fn added(partitions: &PartitionSet) -> Results {
    refused(partitions, ErrorCode::None)
}

pub(crate) fn refused(partitions: &PartitionSet, error: ErrorCode) -> Results {
    results(partitions, |_, _| error)
}

/// The results of a verification. Partitions that are not part of the transaction get an error upon
/// which the client aborts the transaction and may retry it.
pub(crate) fn verified(partitions: &PartitionSet, missing: &PartitionSet) -> Results {
    results(partitions, |topic, partition| match missing.contains(topic, partition) {
        false => ErrorCode::None,
        _ => ErrorCode::TransactionAbortable,
    })
}

pub(crate) fn not_attempted(partitions: &PartitionSet, unknown: &PartitionSet) -> Results {
    results(partitions, |topic, partition| match unknown.contains(topic, partition) {
        false => ErrorCode::OperationNotAttempted,
        _ => ErrorCode::UnknownTopicOrPartition,
    })
}

fn results(partitions: &PartitionSet, error: impl Fn(&str, i32) -> ErrorCode) -> Results {
    let topics = partitions.topics().map(|(topic, all)| {
        let partitions = all.iter().map(|partition| AddPartitionsToTxnPartitionResult {
            partition_index: *partition,
            partition_error_code: error(topic, *partition).code(),
        });
        let results_by_partition = partitions.collect();
        AddPartitionsToTxnTopicResult { name: owned(topic), results_by_partition }
    });
    topics.collect()
}
