//! Maps the errors of verdicts to the errors that clients see
//! (`ReplicaManager.handleProduceAppend`, `AddPartitionsToTxnManager`,
//! `CoordinatorRuntime.scheduleTransactionalWriteOperation`).

#![allow(clippy::wildcard_enum_match_arm, reason = "nearly all errors stay as they are")]

use crate::message::QuestionKind;
use muster_codec::ErrorCode;

/// From this version on, a Produce adds its partitions to the transaction.
pub const PRODUCE_ADDS_FROM: i16 = 12;
/// From this version on, a TxnOffsetCommit adds its partition to the transaction.
pub const TXN_OFFSET_COMMIT_ADDS_FROM: i16 = 5;

/// From these versions on, clients know TRANSACTION_ABORTABLE.
const PRODUCE_ABORTABLE_FROM: i16 = 11;
const TXN_OFFSET_COMMIT_ABORTABLE_FROM: i16 = 4;

/// From this version on, TxnOffsetCommit may answer COORDINATOR_LOAD_IN_PROGRESS.
const TXN_OFFSET_COMMIT_LOADS_FROM: i16 = 2;

/// The question to the coordinator that must be answered before a Produce of this version appends a
/// producer's first batch.
pub fn produce_question(version: i16) -> QuestionKind {
    if version >= PRODUCE_ADDS_FROM { QuestionKind::Add } else { QuestionKind::Verify }
}

/// The question to the coordinator that must be answered before a TxnOffsetCommit of this version
/// writes its offsets.
pub fn txn_offset_commit_question(version: i16) -> QuestionKind {
    if version >= TXN_OFFSET_COMMIT_ADDS_FROM { QuestionKind::Add } else { QuestionKind::Verify }
}

/// The error of a partition in Produce.
pub fn produce_error(error: ErrorCode, version: i16) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < PRODUCE_ABORTABLE_FROM => {
            ErrorCode::InvalidTxnState
        }
        ErrorCode::NetworkException
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        ErrorCode::ConcurrentTransactions if version < PRODUCE_ADDS_FROM => {
            ErrorCode::NotEnoughReplicas
        }
        other => other,
    }
}

/// The error of all partitions in TxnOffsetCommit.
pub fn txn_offset_commit_error(error: ErrorCode, version: i16) -> ErrorCode {
    let error = match error {
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::TransactionAbortable if version < TXN_OFFSET_COMMIT_ABORTABLE_FROM => {
            ErrorCode::InvalidTxnState
        }
        ErrorCode::NetworkException => ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut
        | ErrorCode::UnknownTopicOrPartition => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower => ErrorCode::NotCoordinator,
        other => other,
    };
    match error {
        ErrorCode::CoordinatorLoadInProgress if version < TXN_OFFSET_COMMIT_LOADS_FROM => {
            ErrorCode::CoordinatorNotAvailable
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_produce_are_those_of_its_version() {
        let abortable = ErrorCode::TransactionAbortable;
        assert_eq!(produce_error(abortable, 10), ErrorCode::InvalidTxnState);
        assert_eq!(produce_error(abortable, 11), abortable);
        let concurrent = ErrorCode::ConcurrentTransactions;
        assert_eq!(produce_error(concurrent, 11), ErrorCode::NotEnoughReplicas);
        assert_eq!(produce_error(concurrent, 12), concurrent);
        assert_eq!(produce_error(ErrorCode::ProducerFenced, 3), ErrorCode::InvalidProducerEpoch);
    }

    #[test]
    fn errors_of_txn_offset_commit_are_those_of_its_version() {
        let (load, available) =
            (ErrorCode::CoordinatorLoadInProgress, ErrorCode::CoordinatorNotAvailable);
        assert_eq!(txn_offset_commit_error(ErrorCode::NetworkException, 2), load);
        assert_eq!(txn_offset_commit_error(ErrorCode::NetworkException, 1), available);
        let abortable = ErrorCode::TransactionAbortable;
        assert_eq!(txn_offset_commit_error(abortable, 3), ErrorCode::InvalidTxnState);
        assert_eq!(txn_offset_commit_error(abortable, 4), abortable);
    }
}
