//! Events as members, and real clients beside them, saw them: the one stream that checks, measures,
//! the live view and the history file are made from.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::{GroupIndex, Isolation, MemberIndex, Partition};
use crate::time::Time;

/// An event of a member, at the moment when the member learned of it. Serialized as a line of the
/// history (HISTORY.md).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    pub at: Time,
    pub group: GroupIndex,
    /// [`OBSERVER`] if muster-load itself caused it.
    pub member: MemberIndex,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Stands in [`Event::member`] for muster-load itself: it reads offsets back, deletes groups, adds
/// partitions.
pub const OBSERVER: MemberIndex = MemberIndex(u32::MAX);

/// "Epoch" is the generation in a classic group and the member epoch in a consumer group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum EventKind {
    /// The simulated process started and will join.
    Started,
    /// The member sent a request to join (JoinGroup, or a heartbeat with epoch 0), with the
    /// partitions that it still owns.
    Joining,
    /// The coordinator accepted it: JoinGroup's answer, or a consumer group's first.
    Joined { member_id: Arc<str>, epoch: i32 },
    /// The member epoch of a consumer group's heartbeat answer moved.
    Epoch { epoch: i32 },
    /// A heartbeat, join or sync that was sent at `sent` was answered without error: it renewed the
    /// session at some time from `sent` to now. Classic heartbeats don't count after the
    /// coordinator was looked up again, until it has answered another request: while it loads the
    /// group, it may answer heartbeats without knowing the group.
    Alive { sent: Time, epoch: i32 },
    /// A heartbeat that does not count in this way was answered: the coordinator is back.
    Reached,
    /// The coordinator assigned these partitions, in addition to those that the member owns. It
    /// owns them from now on.
    Assigned { epoch: i32, partitions: Arc<[Partition]> },
    /// A classic group's member learned that a rebalance is under way, or a consumer group's member
    /// was asked to give up partitions, by the answer to a request that left at `sent`: the
    /// rebalance timeout began then or later.
    MustRebalance { sent: Time },
    /// The member gave up these partitions by itself, and is about to report that to the
    /// coordinator.
    Revoked { partitions: Arc<[Partition]> },
    /// The member lost these partitions because it was fenced, lost its session, or crashed.
    Lost { partitions: Arc<[Partition]> },
    /// The member is a thread of this process of its streams group.
    InProcess { process: u32 },
    /// The standby and warm-up tasks of a member of a streams group: all of them, from now on.
    Standbys { epoch: i32, partitions: Arc<[Partition]> },
    /// The statuses in the answers to a member of a streams group changed to these. Some make it
    /// stop processing: [`is_held`].
    Statuses { codes: Arc<[i8]> },
    /// The assignment of this epoch is complete on its side: nothing to give up, nothing missing
    /// of its target assignment.
    Settled { epoch: i32 },
    /// The coordinator refused it as a member (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    /// FENCED_INSTANCE_ID, ILLEGAL_GENERATION, UNRELEASED_INSTANCE_ID).
    Fenced { error: i16 },
    /// The member ended: none of its events follow until it starts again.
    Stopped { how: Stop },
    /// It can't continue (a refused password, an unsupported version, a fatal error code).
    Failed { reason: Arc<str> },
    /// A commit was sent. `id`, unique within the member, pairs it with its answer.
    CommitSent { id: u32, epoch: i32, offsets: Arc<[(Partition, i64)]> },
    /// The answer to a commit: the error codes of refused partitions; empty if all were accepted.
    CommitAnswered { id: u32, refused: Arc<[(Partition, i16)]> },
    /// A commit will never be answered (timeout, connection lost): it may have taken effect.
    CommitUnknown { id: u32 },
    /// A producer is about to send the first EndTxn of a transaction that is read, to commit or to
    /// abort it. These batches were acknowledged.
    TransactionEnding { number: u64, committed: bool, batches: Arc<[Written]> },
    /// A transaction of a producer ended: the answer to EndTxn, or it was given up before it had
    /// begun at the coordinator.
    TransactionEnded {
        #[serde(default)]
        number: u64,
        committed: bool,
    },
    /// A reader reads from these offsets on, where the first open transactions began, or the logs
    /// ended: it reads all of a transaction whose EndTxn is sent later.
    ReadingFrom { isolation: Isolation, positions: Arc<[(Partition, i64)]> },
    /// A reader was returned these records of transactions, at the moment `arrived`, and continues
    /// at these offsets.
    Read { arrived: Time, records: Arc<[Returned]>, positions: Arc<[(Partition, i64)]> },
    /// A member was returned these records, at the moment `arrived`.
    Consumed { arrived: Time, batches: Arc<[ConsumedBatch]> },
    /// A ShareFetch that was sent at `sent`, in a session with this number of the member, returned
    /// these records. Each is locked for `lock_ms` from some moment between.
    Acquired {
        session: u32,
        sent: Time,
        arrived: Time,
        lock_ms: u32,
        batches: Arc<[AcquiredBatch]>,
    },
    /// A ShareFetch of a session that was sent at `sent` was answered without records.
    SessionAnswered { session: u32, sent: Time },
    /// A session ended: it was closed, or the connection broke, or the broker does not know it.
    SessionEnded { session: u32, closed: bool },
    /// The leader of these partitions refused a member: they may be led by another one now.
    LeaderLost { partitions: Arc<[Partition]> },
    /// Acknowledgements were sent. `id`, unique within the member, pairs them with their answer.
    AcknowledgeSent { id: u32, session: u32, batches: Arc<[AcknowledgedBatch]> },
    /// The answer to the acknowledgements: the error codes of refused partitions, for all
    /// partitions of the request; empty if all were accepted.
    Acknowledged { id: u32, refused: Arc<[(Partition, i16)]> },
    /// These acknowledgements will never be answered: they may have taken effect.
    AcknowledgeUnknown { id: u32 },
    /// Start offsets of share partitions, read at some time from `sent` to now; -1 where there is
    /// none.
    StartOffsets { sent: Time, offsets: Arc<[(Partition, i64)]> },
    /// Committed offsets, read at some time from `sent` to now; -1 where there is none.
    Fetched { sent: Time, offsets: Arc<[(Partition, i64)]> },
    /// An error code that the member handles by itself (retries, looks up the coordinator again).
    Refused { api: i16, error: i16 },
    /// A connection could not be opened, or broke.
    Disconnected,
    /// The group was deleted: asked for at `sent`, and acknowledged by the coordinator.
    GroupDeleted { sent: Time },
    /// Partitions were added to the topics of the group, or its members subscribe to others: the
    /// number that it consumes now.
    PartitionsGrew { partitions: u32 },
    /// The same request was sent twice on purpose, and the two answers contradict each other.
    RepeatDiffered { api: i16, first: Arc<str>, second: Arc<str> },
    /// A real client beside the members was started. Clients are numbered after the members of all
    /// groups.
    ClientStarted { name: Arc<str> },
    /// A rebalance callback of the client: it owns these partitions, too, from now at the latest.
    ClientAssigned { partitions: Arc<[Partition]> },
    /// A rebalance callback of the client: it gives these partitions up, and has not reported it
    /// yet.
    ClientRevoked { partitions: Arc<[Partition]> },
    /// A rebalance callback of the client: it was removed from the group.
    ClientLost { partitions: Arc<[Partition]> },
    /// The client polls, and knows of no loss.
    ClientAlive,
    /// The process of the client ended.
    ClientEnded { how: Arc<str> },
}

impl EventKind {
    /// Whether a member with this event has received an answer of the coordinator.
    pub const fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Alive { .. }
                | Self::Joined { .. }
                | Self::Epoch { .. }
                | Self::Settled { .. }
                | Self::Statuses { .. }
                | Self::MustRebalance { .. }
                | Self::Reached
                | Self::CommitAnswered { .. }
                | Self::Fetched { .. }
                | Self::Acquired { .. }
                | Self::SessionAnswered { .. }
                | Self::Acknowledged { .. }
        )
    }
}

/// A batch of a transaction that was acknowledged. Serialized as `[partition, offset, records]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Partition, i64, u32)", into = "(Partition, i64, u32)")]
pub struct Written {
    pub partition: Partition,
    /// The offset of its first record; -1 if the broker did not say.
    pub offset: i64,
    pub records: u32,
}

/// Records of one transaction that follow each other in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Returned {
    pub partition: Partition,
    /// The offset of the first record.
    pub offset: i64,
    pub producer: MemberIndex,
    /// The number of the transaction.
    pub number: u64,
    /// The place of the first of them in its batch.
    pub first: u32,
    pub count: u32,
}

impl From<(Partition, i64, u32)> for Written {
    fn from((partition, offset, records): (Partition, i64, u32)) -> Self {
        Self { partition, offset, records }
    }
}

impl From<Written> for (Partition, i64, u32) {
    fn from(written: Written) -> Self {
        (written.partition, written.offset, written.records)
    }
}

/// Records of a batch that a member consumed, and when they were due to be written if a producer of
/// the run wrote them. Serialized as `[partition, first, last, due]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Partition, i64, i64, Option<Time>)", into = "(Partition, i64, i64, Option<Time>)")]
pub struct ConsumedBatch {
    pub partition: Partition,
    pub first: i64,
    pub last: i64,
    pub due: Option<Time>,
}

impl ConsumedBatch {
    pub fn count(&self) -> u64 {
        u64::try_from(self.last.saturating_sub(self.first)).map_or(0, |more| more + 1)
    }
}

impl From<(Partition, i64, i64, Option<Time>)> for ConsumedBatch {
    fn from((partition, first, last, due): (Partition, i64, i64, Option<Time>)) -> Self {
        Self { partition, first, last, due }
    }
}

impl From<ConsumedBatch> for (Partition, i64, i64, Option<Time>) {
    fn from(batch: ConsumedBatch) -> Self {
        (batch.partition, batch.first, batch.last, batch.due)
    }
}

/// Records that were acquired, with the number of their deliveries so far. Serialized as
/// `[partition, first, last, deliveries]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Partition, i64, i64, i16)", into = "(Partition, i64, i64, i16)")]
pub struct AcquiredBatch {
    pub partition: Partition,
    pub first: i64,
    pub last: i64,
    pub deliveries: i16,
}

impl From<(Partition, i64, i64, i16)> for AcquiredBatch {
    fn from((partition, first, last, deliveries): (Partition, i64, i64, i16)) -> Self {
        Self { partition, first, last, deliveries }
    }
}

impl From<AcquiredBatch> for (Partition, i64, i64, i16) {
    fn from(batch: AcquiredBatch) -> Self {
        (batch.partition, batch.first, batch.last, batch.deliveries)
    }
}

/// Records that are acknowledged in the same way. Serialized as `[partition, first, last, how]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Partition, i64, i64, Acknowledge)", into = "(Partition, i64, i64, Acknowledge)")]
pub struct AcknowledgedBatch {
    pub partition: Partition,
    pub first: i64,
    pub last: i64,
    pub how: Acknowledge,
}

impl From<(Partition, i64, i64, Acknowledge)> for AcknowledgedBatch {
    fn from((partition, first, last, how): (Partition, i64, i64, Acknowledge)) -> Self {
        Self { partition, first, last, how }
    }
}

impl From<AcknowledgedBatch> for (Partition, i64, i64, Acknowledge) {
    fn from(batch: AcknowledgedBatch) -> Self {
        (batch.partition, batch.first, batch.last, batch.how)
    }
}

/// Whether a member of a streams group with these statuses processes nothing: topics are missing or
/// have wrong numbers of partitions, or the assignment is delayed.
pub fn is_held(statuses: &[i8]) -> bool {
    const MISSING_SOURCE_TOPICS: i8 = 1;
    const WRONG_PARTITIONS: i8 = 2;
    const MISSING_INTERNAL_TOPICS: i8 = 3;
    const ASSIGNMENT_DELAYED: i8 = 5;
    const HOLDING: [i8; 4] =
        [MISSING_SOURCE_TOPICS, WRONG_PARTITIONS, MISSING_INTERNAL_TOPICS, ASSIGNMENT_DELAYED];
    statuses.iter().any(|code| HOLDING.contains(code))
}

/// The end of a delivery, with its number in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// There is no record at the offset.
    Gap = 0,
    Accept = 1,
    Release = 2,
    Reject = 3,
}

/// How a member ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The member leaves: LeaveGroup, or a heartbeat with epoch -1.
    Leave,
    /// A static member closes and means to come back: nothing in a classic group, epoch -2 in a
    /// consumer group.
    Close,
    /// The member asks the coordinator of its streams group to end all members, and leaves with
    /// them.
    Shutdown,
    /// The member vanishes: its connection breaks, and it sends nothing to the coordinator.
    Crash,
}
