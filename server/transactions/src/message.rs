//! The messages between a coordinator and the slots: their partitions and groups.
//!
//! Nothing here relies on a transport that keeps or orders messages. A message to a slot names the
//! *session* of the slot, which increases whenever the slot is loaded; the slot drops those of
//! another session, and reports again. A message to a coordinator names the *epoch* of the
//! coordinator, which increases whenever that is loaded. [`Stamp`] orders what one coordinator
//! sends.

use crate::context::Slot;
use crate::partition_set::PartitionSet;
use crate::text::Text;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::record_batch::TransactionOutcome;

/// The order of what coordinators decide: by epoch, then by a number that counts up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp {
    pub coordinator_epoch: i32,
    pub sequence: u64,
}

/// A producer as it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Producer {
    pub id: i64,
    pub epoch: i16,
}

/// A message to a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToSlot {
    pub slot: Slot,
    /// The session of the report that the coordinator has of the slot; 0 if it has none.
    pub session: u64,
    /// The position that must be durable before the message is sent; 0 if it need not wait. A
    /// message to a slot of the same log may instead be applied in the block of this position.
    pub visible_at: u64,
    pub body: ToSlotBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToSlotBody {
    /// The coordinator was loaded: the slot sends its [`Report`].
    ReportWanted { coordinator_epoch: i32 },
    /// The coordinator has read a report.
    Reported(Reported),
    /// The answer to a [`Question`].
    Verdict(Verdict),
    /// The slot brings to stable storage what it has of these partitions, and then sends
    /// [`FromSlot::Synced`].
    Sync(Sync),
    /// The slot ends the transaction in these partitions, and then sends [`FromSlot::Marked`].
    Marker(Marker),
}

impl ToSlotBody {
    /// The epoch of the coordinator that sends it.
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
    /// Its epoch is that of the control batch: of version 2, one more than that of the data.
    pub producer: Producer,
    pub outcome: TransactionOutcome,
    /// 2 if the epoch must be higher than that of the data (KIP-1228); 0 if it is the same.
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
        /// False if a partition has lost what was written to it, or cannot be read: the transaction
        /// must not be committed.
        is_whole: bool,
    },
    /// The answer to [`Marker`]: the transaction is no longer open in these partitions.
    Marked {
        stamp: Stamp,
        partitions: PartitionSet,
        /// Whether the markers are on stable storage already.
        is_synced: bool,
        /// False if a partition is offline: it gets the marker when it is served again and reports
        /// the transaction.
        is_whole: bool,
    },
}

/// All transactions that a slot has open. What the slot has written is on stable storage before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub slot: Slot,
    /// Increases whenever the slot is loaded; from 1.
    pub session: u64,
    /// The epoch of the coordinator that wants it; -1 if the slot reports because it was loaded.
    pub coordinator_epoch: i32,
    /// Chosen by the slot, for the answer.
    pub number: u64,
    /// Whether writes that were answered may be missing, because the machine lost its memory: then
    /// no transaction that was open may be committed. It stays so until
    /// [`crate::Coordinator::lost_writes_settled_at`].
    pub may_have_lost_writes: bool,
    /// False if a partition is offline: what it has open is not in the report.
    pub is_whole: bool,
    /// Shared by the reports to all coordinators.
    pub open: Arc<[OpenIn]>,
}

/// A transaction that is open in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIn {
    pub producer: Producer,
    pub topic: Text,
    pub partition: i32,
}

/// The coordinator's knowledge of the transactions of a report, by producer. Those that it does not
/// name are unknown to it; the slot aborts one that is unknown to all coordinators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    pub stamp: Stamp,
    pub number: u64,
    pub known: Vec<(Producer, Known)>,
}

/// The fate of an open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It continues; a marker will follow.
    Open,
    /// It was decided: the slot writes this marker again.
    Decided { producer: Producer, outcome: TransactionOutcome, version: i8 },
}

/// Whether a producer may append to partitions, asked before the first batch of a transaction in
/// each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub slot: Slot,
    /// Chosen by the slot, for the answer.
    pub number: u64,
    pub transactional_id: Text,
    pub producer: Producer,
    pub partitions: PartitionSet,
    pub kind: QuestionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// The partitions join the transaction: Produce 12+, TxnOffsetCommit 5+.
    Add,
    /// The client has added them itself.
    Verify,
}

impl QuestionKind {
    /// Whether the coordinator is asked; `verifies` is `transaction.partition.verification.enable`.
    /// A batch without a question has the default stamp.
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
    /// Partitions that are not in the transaction: TRANSACTION_ABORTABLE.
    pub refused: PartitionSet,
}

impl Verdict {
    /// Whether the producer may append to a partition of the question.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn on(&self, topic: &str, partition: i32) -> Result<(), ErrorCode> {
        if self.refused.contains(topic, partition) {
            return Err(ErrorCode::TransactionAbortable);
        }
        if self.error == ErrorCode::None { Ok(()) } else { Err(self.error) }
    }
}
