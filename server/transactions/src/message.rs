//! The messages between a coordinator and slots, for their partitions and groups.
//!
//! The messages may be lost or reordered. A message to a slot names the *session* of the slot,
//! which increases whenever the slot is loaded. The slot drops messages with another session, and
//! reports again. A message to a coordinator names the *epoch* of the coordinator, which increases
//! whenever the coordinator is loaded. A [`Stamp`] orders the messages of a coordinator.

use crate::context::Slot;
use crate::partition_set::PartitionSet;
use crate::text::Text;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::record_batch::TransactionOutcome;

pub use muster_codec::record_batch::Producer;

/// The order of a coordinator's messages: by its epoch, then by an ascending number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    pub coordinator_epoch: i32,
    pub sequence: u64,
}

/// A message to a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToSlot {
    pub slot: Slot,
    /// The slot's session according to its last report; 0 if it has not reported.
    pub session: u64,
    /// The position that must be durable before the message is sent; 0 if the message need not
    /// wait. If the slot and the coordinator share a log, the slot may apply the message earlier:
    /// the slot's records are then in the block of this position.
    pub visible_at: u64,
    pub body: ToSlotBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSlotBody {
    /// The coordinator was loaded, and requests a [`Report`].
    ReportWanted { coordinator_epoch: i32 },
    /// The answer to a [`Report`].
    Reported(Reported),
    /// The answer to a [`Question`].
    Verdict(Verdict),
    /// The slot must sync its records of these partitions to stable storage, and then send
    /// [`FromSlot::Synced`].
    Sync(Sync),
    /// The slot must end the transaction in these partitions, and then send [`FromSlot::Marked`].
    Marker(Marker),
}

impl ToSlotBody {
    /// The epoch of the coordinator that sends the message.
    pub fn coordinator_epoch(&self) -> i32 {
        match self {
            Self::ReportWanted { coordinator_epoch } => *coordinator_epoch,
            Self::Reported(Reported { stamp, .. })
            | Self::Verdict(Verdict { stamp, .. })
            | Self::Sync(Sync { stamp, .. })
            | Self::Marker(Marker { stamp, .. }) => stamp.coordinator_epoch,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sync {
    pub stamp: Stamp,
    /// The producer of the transaction that is to be decided.
    pub producer: Producer,
    pub partitions: PartitionSet,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    pub stamp: Stamp,
    /// The producer that the control batch names. In transaction version 2, its epoch is one more
    /// than that of the transaction's data.
    pub producer: Producer,
    pub outcome: TransactionOutcome,
    /// 2 if the marker's epoch must be higher than the data's (KIP-1228); 0 if it is the same.
    pub version: i8,
    pub partitions: PartitionSet,
}

/// A message from a slot to a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromSlot {
    Report(Report),
    Question(Question),
    /// The answer to [`Sync`].
    Synced {
        stamp: Stamp,
        partitions: PartitionSet,
        /// False if a partition lost writes or cannot be read. The transaction must then not be
        /// committed.
        is_whole: bool,
    },
    /// The answer to [`Marker`]: the transaction is no longer open in these partitions.
    Marked {
        stamp: Stamp,
        partitions: PartitionSet,
        /// Whether the markers are on stable storage already.
        is_synced: bool,
        /// False if a partition is offline. It gets the marker after it is served again and has
        /// reported the transaction.
        is_whole: bool,
    },
}

/// All open transactions of a slot. Before it reports, the slot syncs everything that it has
/// written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub slot: Slot,
    /// The slot's session, from 1. It increases whenever the slot is loaded.
    pub session: u64,
    /// The highest epoch of the coordinator that the slot has seen; -1 if it has seen none since it
    /// was loaded.
    pub coordinator_epoch: i32,
    /// The number that the slot gives the report. The answer repeats it.
    pub number: u64,
    /// Whether acknowledged writes may be missing because the machine lost its memory. If so, the
    /// transactions that were open at that time must not be committed. Slots report this until
    /// [`crate::Coordinator::lost_writes_settled_at`] is durable.
    pub may_have_lost_writes: bool,
    /// False if a partition is offline. Its open transactions are not in the report.
    pub is_whole: bool,
    /// The open transactions. The reports to all coordinators share the list.
    pub open: Arc<[OpenIn]>,
}

/// A transaction that is open in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIn {
    pub producer: Producer,
    pub topic: Text,
    pub partition: i32,
}

/// The answer to a report: the reported transactions that the coordinator knows, by producer. If no
/// coordinator knows a transaction, the slot aborts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    pub stamp: Stamp,
    pub number: u64,
    pub known: Vec<(Producer, Known)>,
}

/// The fate of an open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The transaction continues; a marker will follow.
    Open,
    /// The transaction was decided. The slot must write this marker again.
    Decided { producer: Producer, outcome: TransactionOutcome, version: i8 },
}

/// Asks whether a producer may append to partitions. The slot asks before it appends the first
/// batch of a transaction to a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub slot: Slot,
    /// The number that the slot gives the question. The answer repeats it.
    pub number: u64,
    pub transactional_id: Text,
    pub producer: Producer,
    pub partitions: PartitionSet,
    pub kind: QuestionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// The partitions join the transaction: Produce v12+, TxnOffsetCommit v5+.
    Add,
    /// The client has already added the partitions.
    Verify,
}

impl QuestionKind {
    /// Whether the slot asks at all. `verifies` is `transaction.partition.verification.enable`. A
    /// batch that is appended without a question counts as admitted by a verdict with the default
    /// stamp.
    pub fn is_asked(self, verifies: bool) -> bool {
        verifies || self == Self::Add
    }
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub stamp: Stamp,
    pub number: u64,
    pub producer: Producer,
    /// NONE if the producer may append to the partitions that are not in `refused`.
    pub error: ErrorCode,
    /// Partitions that are not part of the transaction: they get TRANSACTION_ABORTABLE.
    pub refused: PartitionSet,
}

impl Verdict {
    /// Whether the producer may append to a partition of the question.
    ///
    /// # Errors
    /// The error with which the append is refused.
    pub fn on(&self, topic: &str, partition: i32) -> Result<(), ErrorCode> {
        if self.refused.contains(topic, partition) {
            return Err(ErrorCode::TransactionAbortable);
        }
        if self.error == ErrorCode::None { Ok(()) } else { Err(self.error) }
    }
}
