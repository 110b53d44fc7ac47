//! What happened, as members saw it: the one stream from which checks, measures, the live view and
//! the history file are made.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plan::{GroupIndex, MemberIndex, Partition};
use crate::time::Time;

/// One thing that happened to a member, at the moment when the member knew it. Serialized as a line
/// of the history (HISTORY.md).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Event {
    pub at: Time,
    pub group: GroupIndex,
    /// [`OBSERVER`] where it is no member's doing.
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
    /// It sent a request to join (JoinGroup, or a heartbeat with epoch 0), with the partitions that
    /// it still owns.
    Joining,
    /// The coordinator took it in: JoinGroup's answer, or the first of a consumer group.
    Joined { member_id: Arc<str>, epoch: i32 },
    /// The member epoch of a consumer group's heartbeat answer moved.
    Epoch { epoch: i32 },
    /// A heartbeat, join or sync that was sent at `sent` was answered without error: it renewed the
    /// session at some time from `sent` to now. Classic heartbeats don't count after the coordinator
    /// was looked up anew, until it has answered something else: while it loads the group, it may
    /// answer them without knowing it.
    Alive { sent: Time, epoch: i32 },
    /// Such a heartbeat that does not count was answered: the coordinator is there again.
    Reached,
    /// The coordinator gave it these, in addition to what it owns. From now on it owns them.
    Assigned { epoch: i32, partitions: Arc<[Partition]> },
    /// A classic group's member was told that a rebalance runs, or a consumer group's to give up
    /// partitions: its rebalance timeout counts at the earliest from `sent`, when the request left
    /// that was answered so.
    MustRebalance { sent: Time },
    /// It gave these up of its own, and is about to tell the coordinator. Owned no more.
    Revoked { partitions: Arc<[Partition]> },
    /// It gave these up because it was fenced, lost its session, or crashed.
    Lost { partitions: Arc<[Partition]> },
    /// The assignment of this epoch is complete on its side: nothing to give up, nothing missing
    /// that it was promised.
    Settled { epoch: i32 },
    /// The coordinator refused it as a member (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
    /// FENCED_INSTANCE_ID, ILLEGAL_GENERATION, UNRELEASED_INSTANCE_ID).
    Fenced { error: i16 },
    /// It ended: how, and nothing more comes from it until it starts again.
    Stopped { how: Stop },
    /// It can't go on (a refused password, an unsupported version, a fatal error code).
    Failed { reason: Arc<str> },
    /// A commit left. `id` pairs it with its answer, within the member.
    CommitSent { id: u32, epoch: i32, offsets: Arc<[(Partition, i64)]> },
    /// Its answer: the error code of each partition that has one; empty means all were accepted.
    CommitAnswered { id: u32, refused: Arc<[(Partition, i16)]> },
    /// Its answer will never come (timeout, connection lost): it may or may not have taken effect.
    CommitUnknown { id: u32 },
    /// Committed offsets read at some time from `sent` to now; -1 where there is none.
    Fetched { sent: Time, offsets: Arc<[(Partition, i64)]> },
    /// An error code of an answer that the member handles by itself (retries, looks up anew).
    Refused { api: i16, error: i16 },
    /// A connection that could not be made, or broke.
    Disconnected,
    /// The group was deleted: asked for at `sent`, and acknowledged by the coordinator.
    GroupDeleted { sent: Time },
    /// Partitions of the group's topics were added: how many there are now of all of them.
    PartitionsGrew { partitions: u32 },
    /// The same request was sent twice on purpose, and both answers differ in what they mean.
    RepeatDiffered { api: i16, first: Arc<str>, second: Arc<str> },
}

/// How a member ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// It leaves: LeaveGroup, or a heartbeat with epoch -1.
    Leave,
    /// A static member closes and means to come back: nothing in a classic group, epoch -2 in a
    /// consumer group.
    Close,
    /// It vanishes: its connection breaks, the coordinator is told nothing.
    Crash,
}
