//! The group coordinator: members, assignments and committed offsets of groups. Start here.
//!
//! A deterministic state machine without I/O, clock or randomness. There are five kinds of calls:
//!
//! - **Requests**: [`Coordinator::handle`] takes a client's request and returns an [`Output`]: the
//!   records to write and the responses, to this request or to ones that were parked before (a join
//!   waits for the others). It changes volatile state only, such as the members that have joined so
//!   far and the parked requests.
//! - **Records**: [`Coordinator::replay`] alone changes durable state, in normal work and at
//!   recovery alike. The caller replays the records of an `Output`, in order, before the next call,
//!   and appends them to its log as one atomic batch per group. If the log refuses some, it calls
//!   [`Coordinator::not_written`] instead of replaying them.
//! - **Time**: when `now` has reached [`Coordinator::next_deadline`], the caller calls
//!   [`Coordinator::expire`], and repeats that while it holds: one call does a limited amount of
//!   work, and ends with the first timer that writes records. A spurious call does no harm. `now`
//!   never goes back.
//! - **Topics**: [`Coordinator::topics_deleted`] when topics were deleted. Groups notice by
//!   themselves that topics are created, extended or moved: each call brings the present topics,
//!   and [`Topics::version`] shows whether they changed.
//! - **Configs**: [`Coordinator::set_group_config`] for each group that has configs of its own,
//!   after [`Coordinator::new`] and whenever they change.
//!
//! The caller replays the records of the log and then calls [`Coordinator::loaded`], once, even if
//! the log is empty. Before that, no requests are served. A [`snapshot`] may stand for all but the
//! end of the log.
//!
//! **Only durable state is visible**: [`Context::position`] is the place in the caller's log that
//! the records of this call will have. [`Answer::visible_at`] is the position that must be durable
//! before a response may leave: that of the last write to the group, so that no client sees a state
//! that a crash could undo. Zero means at once.
//!
//! **Transactions**: a TxnOffsetCommit is passed on once the coordinator of the transaction has let
//! the producer write. Its [`Output::producer`] is set: the records are written as a batch of their
//! own with this producer, and replayed by [`Coordinator::replay_in_transaction`]. The offsets are
//! *pending* until the marker of their producer is written to this slot: then the caller calls
//! [`Coordinator::replay_end_transaction`] with the position of the marker, which is answered when
//! that is durable. A marker for which nothing is pending is written, too, and changes nothing; one
//! that is refused as stale is not replayed. [`Coordinator::replay_batch`] takes batches of both
//! kinds from the log. [`Coordinator::open_transactions`] lists the producers of pending offsets,
//! for the report of a slot. The epochs of producers, and which markers are stale, are not known
//! here.
//!
//! **Events** for the operator, such as the end of a rebalance with its causes: the caller takes
//! them after each call and the replay of its records ([`Coordinator::take_events`]). They are of
//! volatile state: a log that is read makes none.
//!
//! **Several coordinators** divide the groups of a shard. They share its limits: the caller passes
//! each call a [`Budget`] with what the others have.
//!
//! **Modules**: [`group`](group) has the whole state of one group id. There are four kinds of
//! groups: [`classic`](classic) ones, and [`consumer`](consumer), [`share`](share) and
//! [`streams`](streams) groups, which take the same steps ([`modern`](modern), generic over a
//! kind). No kind refers to another; [`migration`](migration) converts classic groups into consumer
//! groups, and consumer groups into classic ones. Long work, such as an assignment of
//! 100,000 partitions, is done in slices: the rest is due at once ([`Reason::Work`]), and other
//! requests are served in between.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

extern crate alloc;

mod allowance;
pub mod assignors;
mod budget;
mod changes;
pub mod check_copy;
mod classic;
mod committed;
pub mod config;
mod consumer;
pub mod context;
pub mod coordinator;
pub mod counters;
mod event;
mod group;
mod groups;
mod java_order;
pub mod limits;
mod migration;
mod modern;
mod noted;
mod offsets;
mod operation;
pub mod output;
mod partition_set;
mod payers;
mod pending;
mod rebalances;
pub mod regex;
pub mod request_id;
mod share;
pub mod share_state;
pub mod snapshot;
mod streams;
mod survey;
mod text;
mod timers;
mod topic_hashes;
mod turn;
mod view;

pub use budget::{Budget, Held, Limited, Refusal};
pub use check_copy::{CheckCopy, Sample};
pub use config::{Config, GroupOverrides, MigrationPolicy};
pub use context::{Context, DeletedTopic, Describes, Ids, NoTopics, Topics};
pub use coordinator::counts::Counts;
pub use coordinator::{
    Caller, Coordinator, Listing, NextGroup, StateWalk, WalkLimit, WalkProgress,
};
pub use counters::{Counters, Events, Gauges};
pub use event::{
    CAUSES_NAMED_MAX, Cause, CausedBy, Causes, EVENT_NAME_BYTES_MAX, EVENT_REASON_BYTES_MAX, Event,
    EventBody, EventClient, Moved, Rebalance, Rejection, Removal, Why,
};
pub use groups::{Divergence, GroupDigest, SnapshotWalk};
pub use muster_snapshot_index::{SnapshotBytes, SnapshotPart};
pub use noted::EVENTS_MAX;
pub use operation::operations;
pub use output::{Answer, MissingTopic, Output, RequestId};
pub use pending::{OpenTransaction, Producer};
pub use share_state::{Start, StateCall, StateRequest, StateResult, Summary};
pub use snapshot::SnapshotDamage;
pub use survey::{GroupsPage, SurveyedGroup};
pub use timers::Reason;
pub use view::{Assigned, AssignedTo, CommitView, GroupAsked, GroupView, MemberView};
