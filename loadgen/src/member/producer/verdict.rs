//! The meaning of an error code for a producer, as in the Java client (`TransactionManager`,
//! `Sender`).

use muster_codec::{ApiKey, ErrorCode};

use crate::member::error::is_retriable;

/// The reaction to an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Verdict {
    /// The work is done. Either this request did it, or an earlier request whose answer was lost.
    Done,
    /// Retry after the back-off: the previous transaction has not ended yet.
    Busy,
    /// Retry after the back-off.
    Again,
    /// Retry, but look up the coordinator first.
    LookUp,
    /// Retry, but look up the leaders of the partitions first.
    Leaders,
    /// The transaction can only be aborted; the producer continues.
    Abort,
    /// The producer cannot continue.
    Fatal,
}

/// How a producer reacts to an error. `aborts` is set if the request aborts a transaction.
pub(super) fn verdict(api: ApiKey, error: ErrorCode, aborts: bool) -> Verdict {
    use ErrorCode as E;
    match (api, error) {
        (_, E::ConcurrentTransactions) => Verdict::Busy,
        (_, E::TransactionAbortable) if aborts => Verdict::Fatal,
        (_, E::TransactionAbortable) => Verdict::Abort,
        (ApiKey::Produce, error) => of_produce(error),
        (_, E::NotCoordinator | E::CoordinatorNotAvailable) => Verdict::LookUp,
        (
            ApiKey::TxnOffsetCommit,
            E::IllegalGeneration | E::UnknownMemberId | E::FencedInstanceId,
        ) => Verdict::Abort,
        (_, error) if is_retriable(error) => Verdict::Again,
        _ => Verdict::Fatal,
    }
}

/// How a producer reacts to an error of a batch. An error that concerns the producer, its
/// permissions or the version is fatal, because later batches would fail with it, too. After any
/// other error, at least the next transaction may succeed.
fn of_produce(error: ErrorCode) -> Verdict {
    use ErrorCode as E;
    match error {
        E::DuplicateSequenceNumber => Verdict::Done,
        E::NotLeaderOrFollower
        | E::LeaderNotAvailable
        | E::FencedLeaderEpoch
        | E::UnknownTopicOrPartition
        | E::UnknownTopicId => Verdict::Leaders,
        E::ProducerFenced
        | E::InvalidProducerIdMapping
        | E::TransactionalIdAuthorizationFailed
        | E::TopicAuthorizationFailed
        | E::ClusterAuthorizationFailed
        | E::UnsupportedVersion => Verdict::Fatal,
        error if is_retriable(error) => Verdict::Again,
        _ => Verdict::Abort,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_handled_as_by_the_java_client() {
        use ErrorCode as E;
        for (api, error, expected) in [
            (ApiKey::EndTxn, E::ConcurrentTransactions, Verdict::Busy),
            (ApiKey::EndTxn, E::CoordinatorLoadInProgress, Verdict::Again),
            (ApiKey::EndTxn, E::NotCoordinator, Verdict::LookUp),
            (ApiKey::EndTxn, E::InvalidProducerEpoch, Verdict::Fatal),
            (ApiKey::EndTxn, E::InvalidTxnState, Verdict::Fatal),
            (ApiKey::EndTxn, E::TransactionAbortable, Verdict::Abort),
            (ApiKey::InitProducerId, E::ProducerFenced, Verdict::Fatal),
            (ApiKey::TxnOffsetCommit, E::IllegalGeneration, Verdict::Abort),
            (ApiKey::TxnOffsetCommit, E::CoordinatorNotAvailable, Verdict::LookUp),
            (ApiKey::Produce, E::NotLeaderOrFollower, Verdict::Leaders),
            (ApiKey::Produce, E::NotEnoughReplicas, Verdict::Again),
            (ApiKey::Produce, E::ConcurrentTransactions, Verdict::Busy),
            (ApiKey::Produce, E::InvalidProducerEpoch, Verdict::Abort),
            (ApiKey::Produce, E::OutOfOrderSequenceNumber, Verdict::Abort),
            (ApiKey::Produce, E::DuplicateSequenceNumber, Verdict::Done),
            (ApiKey::Produce, E::ProducerFenced, Verdict::Fatal),
        ] {
            assert_eq!(verdict(api, error, false), expected, "{api:?} {error:?}");
        }
        let aborting = verdict(ApiKey::EndTxn, E::TransactionAbortable, true);
        assert_eq!(aborting, Verdict::Fatal, "there is nothing else to try");
    }
}
