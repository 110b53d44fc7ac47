//! The events of members and of real clients, as they saw them. This is the one stream from which
//! checks, measures, the live view and the history file are made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::{GroupIndex, Isolation, MemberIndex, Partition};
use crate::time::Time;

/// An event of a member, at the time when the member learned of it. Serialized as a line of the
/// history (HISTORY.md).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    pub at: Time,
    pub group: GroupIndex,
    /// The member of the event, or [`OBSERVER`] if muster-load itself caused it.
    pub member: MemberIndex,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// The value of [`Event::member`] for muster-load itself: it reads offsets back, deletes groups and
/// adds partitions.
pub const OBSERVER: MemberIndex = MemberIndex(u32::MAX);

/// The events. "Epoch" is the generation in a classic group, and the member epoch in all other
/// groups.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum EventKind {
    /// The simulated process started and will join.
    Started,
    /// The member sent a request to join (JoinGroup, or a heartbeat with epoch 0). The request
    /// names the partitions that the member still owns.
    Joining,
    /// The coordinator accepted the member. In a classic group this is the answer to JoinGroup, in
    /// other groups the answer to the first heartbeat.
    Joined { member_id: Arc<str>, epoch: i32 },
    /// The member's epoch in the answers to its heartbeats changed. Classic groups do not have this
    /// event.
    Epoch { epoch: i32 },
    /// A heartbeat, join or sync that was sent at `sent` was answered without error. It renewed the
    /// session at some time between `sent` and now. There is an exception in classic groups: after
    /// the coordinator was looked up again, a heartbeat is [`EventKind::Reached`] until another
    /// request was answered. A coordinator that loads the group may answer heartbeats without
    /// knowing the group.
    Alive { sent: Time, epoch: i32 },
    /// A heartbeat was answered that does not count as [`EventKind::Alive`]. It only proves that
    /// the coordinator answers again.
    Reached,
    /// The coordinator assigned these partitions, in addition to those that the member owns. The
    /// member owns them from now on.
    Assigned { epoch: i32, partitions: Arc<[Partition]> },
    /// The answer to a request that was sent at `sent` said that a rebalance is under way (classic
    /// group), or that the member has to give up partitions or tasks (consumer or streams group).
    /// So the rebalance timeout began at `sent` or later.
    MustRebalance { sent: Time },
    /// The member gave up these partitions, and is about to report this to the coordinator.
    Revoked { partitions: Arc<[Partition]> },
    /// The member lost these partitions because it was fenced, lost its session, or crashed.
    Lost { partitions: Arc<[Partition]> },
    /// The number of the process in which this member of a streams group is a thread.
    InProcess { process: u32 },
    /// The standby and warm-up tasks of a member of a streams group. From now on it has these and
    /// no others.
    Standbys { epoch: i32, partitions: Arc<[Partition]> },
    /// The statuses in the answers to a member of a streams group changed. Some statuses make it
    /// stop processing: [`is_held`].
    Statuses { codes: Arc<[i8]> },
    /// The member has completed the assignment of this epoch: it has exactly its target assignment.
    Settled { epoch: i32 },
    /// The coordinator refused the member (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    /// FENCED_INSTANCE_ID, ILLEGAL_GENERATION, UNRELEASED_INSTANCE_ID).
    Fenced { error: i16 },
    /// The member ended. It has no more events until it starts again.
    Stopped { how: Stop },
    /// The member can't continue (a refused password, an unsupported version, a fatal error code).
    Failed { reason: Arc<str> },
    /// A commit was sent. `id` is unique for the member, and pairs the commit with its answer.
    CommitSent { id: u32, epoch: i32, offsets: Arc<[(Partition, i64)]> },
    /// A commit was answered. `refused` has the error codes of refused partitions, and is empty if
    /// all partitions were accepted.
    CommitAnswered { id: u32, refused: Arc<[(Partition, i16)]> },
    /// A commit will never be answered (timeout, lost connection). It may have taken effect.
    CommitUnknown { id: u32 },
    /// A producer is about to send EndTxn (commit or abort) for a transaction that readers read. If
    /// EndTxn is repeated, there is another event only if its outcome is another one. `batches` are
    /// the acknowledged batches of the transaction.
    TransactionEnding { number: u64, committed: bool, batches: Arc<[Written]> },
    /// The end of a producer's transaction: EndTxn was answered, or the producer gave up the
    /// transaction before it had begun at the coordinator.
    TransactionEnded {
        #[serde(default)]
        number: u64,
        committed: bool,
    },
    /// A reader begins to read at these offsets. Each is the start of the partition's first open
    /// transaction, or the end of its log. So the reader sees every record of a transaction whose
    /// EndTxn is sent later.
    ReadingFrom { isolation: Isolation, positions: Arc<[(Partition, i64)]> },
    /// A reader got these records of transactions at `arrived`, and continues at these offsets.
    Read { arrived: Time, records: Arc<[Returned]>, positions: Arc<[(Partition, i64)]> },
    /// A member got these records at `arrived`.
    Consumed { arrived: Time, batches: Arc<[ConsumedBatch]> },
    /// A ShareFetch returned these records. It was sent at `sent`, in the member's session with
    /// this number. Each record is locked for `lock_ms`, from some time between `sent` and the
    /// answer.
    Acquired {
        session: u32,
        sent: Time,
        arrived: Time,
        lock_ms: u32,
        batches: Arc<[AcquiredBatch]>,
    },
    /// A ShareFetch of a session was answered without records. It was sent at `sent`.
    SessionAnswered { session: u32, sent: Time },
    /// A share session ended: the member closed it, its connection broke, or the broker forgot it.
    SessionEnded { session: u32, closed: bool },
    /// The leader of these partitions refused a member. Another broker may lead them now.
    LeaderLost { partitions: Arc<[Partition]> },
    /// Acknowledgements were sent. `id` is unique for the member, and pairs them with their answer.
    AcknowledgeSent { id: u32, session: u32, batches: Arc<[AcknowledgedBatch]> },
    /// A request with acknowledgements was answered for all its partitions. `refused` has the
    /// partitions that the answer refused, with their error codes; it is empty if there are none.
    Acknowledged { id: u32, refused: Arc<[(Partition, i16)]> },
    /// These acknowledgements will never be answered. They may have taken effect.
    AcknowledgeUnknown { id: u32 },
    /// The start offsets of share partitions, read at some time between `sent` and now. -1 means
    /// none.
    StartOffsets { sent: Time, offsets: Arc<[(Partition, i64)]> },
    /// Committed offsets, read at some time between `sent` and now. -1 means none.
    Fetched { sent: Time, offsets: Arc<[(Partition, i64)]> },
    /// An error code that the member handles itself, for example by a retry or a new lookup.
    Refused { api: i16, error: i16 },
    /// A connection could not be opened, or broke.
    Disconnected,
    /// The group was deleted. The request was sent at `sent`, and the coordinator has acknowledged
    /// it.
    GroupDeleted { sent: Time },
    /// The group now consumes this number of partitions, because topics grew or members changed
    /// their subscriptions.
    PartitionsGrew { partitions: u32 },
    /// The same request was sent twice on purpose, and the two answers contradict each other.
    RepeatDiffered { api: i16, first: Arc<str>, second: Arc<str> },
    /// A real client was started: a process that consumes in a group beside the simulated members.
    /// In [`Event::member`], clients are numbered after the last member.
    ClientStarted { name: Arc<str> },
    /// The client reported a rebalance callback that assigns partitions. The client owns these
    /// partitions, in addition to its others, since this time or a little earlier.
    ClientAssigned { partitions: Arc<[Partition]> },
    /// The client reported a rebalance callback that revokes partitions. The client gives up these
    /// partitions, but has not reported this to the coordinator yet.
    ClientRevoked { partitions: Arc<[Partition]> },
    /// The client reported a rebalance callback: the group removed it, so it lost these partitions.
    ClientLost { partitions: Arc<[Partition]> },
    /// The client reported that it still polls, and has not noticed that the group removed it.
    ClientAlive,
    /// The client's process ended.
    ClientEnded { how: Arc<str> },
}

impl EventKind {
    /// Whether this event shows that the cluster answered the member.
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

/// An acknowledged batch of a transaction. Serialized as `[partition, offset, records]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(Partition, i64, u32)", into = "(Partition, i64, u32)")]
pub struct Written {
    pub partition: Partition,
    /// The offset of the first record. -1 if the broker did not return it.
    pub offset: i64,
    pub records: u32,
}

/// Consecutive records of one transaction in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Returned {
    pub partition: Partition,
    /// The offset of the first record.
    pub offset: i64,
    pub producer: MemberIndex,
    /// The number of the transaction.
    pub number: u64,
    /// The index of the first record in its batch.
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

/// Records of a batch that a member consumed. `due` is when a producer of the run began to write
/// them; `None` for other records. Serialized as `[partition, first, last, due]`.
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

/// Records that were acquired, and how often each was delivered so far. Serialized as `[partition,
/// first, last, deliveries]`.
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

/// Whether these statuses forbid a member of a streams group to process records: topics are missing
/// or have wrong partition counts, or the assignment is delayed.
pub fn is_held(statuses: &[i8]) -> bool {
    const MISSING_SOURCE_TOPICS: i8 = 1;
    const WRONG_PARTITIONS: i8 = 2;
    const MISSING_INTERNAL_TOPICS: i8 = 3;
    const ASSIGNMENT_DELAYED: i8 = 5;
    const HOLDING: [i8; 4] =
        [MISSING_SOURCE_TOPICS, WRONG_PARTITIONS, MISSING_INTERNAL_TOPICS, ASSIGNMENT_DELAYED];
    statuses.iter().any(|code| HOLDING.contains(code))
}

/// The type of an acknowledgement, with its number in the protocol.
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
    /// The member leaves, with LeaveGroup or a heartbeat with epoch -1.
    Leave,
    /// A static member closes and will come back. In a classic group it sends nothing, in a
    /// consumer group epoch -2.
    Close,
    /// The member requests that the coordinator end all members of its streams group, and leaves
    /// with them.
    Shutdown,
    /// The member vanishes: its connection breaks, and it sends nothing.
    Crash,
}
