//! A request or question in the form in which it is parked, and how it is answered.

use crate::message::Producer;
use crate::output::RequestId;
use crate::partition_set::PartitionSet;
use crate::state::EPOCH_PER_TRANSACTION;
use crate::text::Text;
use muster_codec::ErrorCode;
use muster_codec::record_batch::TransactionOutcome;

#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) id: Text,
    pub(crate) action: Action,
    pub(crate) reply: Reply,
    /// None if the operation was never parked. Otherwise the deadline for its answer, and its
    /// number in the queue.
    pub(crate) waited: Option<(i64, u64)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Init(Init),
    Add { producer: Producer, partitions: PartitionSet, client_version: i16 },
    Verify { producer: Producer, partitions: PartitionSet },
    End(End),
}

/// The fields of InitProducerId.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Init {
    pub(crate) timeout_ms: i32,
    /// The producer id and epoch that the client had so far.
    pub(crate) given: Option<Producer>,
}

/// The fields of EndTxn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) producer: Producer,
    pub(crate) outcome: TransactionOutcome,
    pub(crate) client_version: i16,
}

impl End {
    /// Whether the epoch identifies one transaction.
    pub(crate) fn names_transaction(&self) -> bool {
        self.client_version == EPOCH_PER_TRANSACTION
    }
}

impl Action {
    /// Whether the epoch identifies one transaction. If it does not, a late operation may change
    /// another transaction.
    pub(crate) fn names_transaction(&self) -> bool {
        match self {
            Self::End(end) => end.names_transaction(),
            Self::Add { client_version, .. } => *client_version == EPOCH_PER_TRANSACTION,
            Self::Init(_) | Self::Verify { .. } => false,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    InitProducerId(To),
    AddPartitions(To),
    AddOffsets(To),
    EndTxn(To),
    Verdict { slot: u32, number: u64 },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct To {
    pub(crate) request: RequestId,
    pub(crate) api_version: i16,
}

/// The result of an operation.
#[derive(Debug, Clone)]
pub(crate) enum Done {
    /// The producer id and epoch that the client must use from now on.
    Identity(Producer),
    Added,
    /// The partitions that are not part of the transaction.
    Verified(PartitionSet),
}

/// The reason why an operation is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Now(ErrorCode),
    /// The operation may be retried later.
    Wait(Wait),
    /// The operation has caused a decision that must wait for syncs. The operation is answered when
    /// the decision is written.
    Begun,
}

/// How an operation waits until it is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) until: WaitFor,
    /// The answer if the operation waits too long.
    pub(crate) error: ErrorCode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// The end of the id's transaction.
    Transaction,
    /// The reports of all slots, or new producer ids.
    Others,
}

impl Refusal {
    /// The id's transaction is ending, or the record of its next transaction must wait.
    pub(crate) const CONCURRENT: Self = Self::Wait(Wait::CONCURRENT);
    /// The reports are not complete, or there is no producer id.
    pub(crate) const LOADING: Self =
        Self::Wait(Wait { until: WaitFor::Others, error: ErrorCode::CoordinatorLoadInProgress });
}

impl Wait {
    pub(crate) const CONCURRENT: Self =
        Self { until: WaitFor::Transaction, error: ErrorCode::ConcurrentTransactions };
}

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Self {
        Self::Now(error)
    }
}

impl Operation {
    /// The operation's approximate memory in bytes while it is parked.
    pub(crate) fn bytes(&self) -> usize {
        let partitions = match &self.action {
            Action::Init(_) | Action::End(_) => 0,
            Action::Add { partitions, .. } | Action::Verify { partitions, .. } => {
                partitions.bytes()
            }
        };
        size_of::<Self>() + self.id.len() + partitions
    }
}
