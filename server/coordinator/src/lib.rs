//! The group coordinator: members, assignments and committed offsets of groups. Start here.
//!
//! A deterministic state machine without I/O, clock or randomness. There are five main kinds of
//! calls:
//!
//! - **Requests**: [`Coordinator::handle`] takes a client's request and returns an [`Output`]: the
//!   records to write, and the responses to this request or to parked ones (a JoinGroup waits for
//!   the other members). It changes only volatile state, such as the joined members and the parked
//!   requests.
//! - **Records**: [`Coordinator::replay`] alone changes durable state, in normal work and at
//!   recovery. Before the next call, the caller replays the records of an `Output` in order, and
//!   appends them to its log as one atomic batch per group. If the log refuses records, it calls
//!   [`Coordinator::not_written`] instead of replaying them.
//! - **Time**: when `now` has reached [`Coordinator::next_deadline`], the caller calls
//!   [`Coordinator::expire`], again and again until the next deadline is in the future. One call
//!   does a limited amount of work, and ends with the first timer that writes records. A spurious
//!   call does no harm. `now` never decreases.
//! - **Topics**: the caller calls [`Coordinator::topics_deleted`] when topics were deleted. Groups
//!   notice by themselves that topics were created, extended or moved: each call passes the current
//!   topics, and [`Topics::version`] shows whether they changed.
//! - **Configs**: the caller calls [`Coordinator::set_group_config`] for each group with its own
//!   configs, after [`Coordinator::new`] and whenever they change.
//!
//! At startup the caller replays the records of the log and then calls [`Coordinator::loaded`]
//! once, even if the log is empty. Requests come only after that. A [`snapshot`] may replace all
//! but the end of the log.
//!
//! **Only durable state is visible**: the caller passes [`Context::position`], the position in its
//! log that the first record of the call will have. [`Answer::visible_at`] is the position of the
//! last write to the group. A response may leave only when the log is durable up to that position.
//! So no client sees a state that a crash could undo. Zero means at once.
//!
//! **Transactions**: the caller passes a TxnOffsetCommit on after the transaction coordinator has
//! allowed the producer to write. [`Output::producer`] is then set: the records are a batch of
//! their own with this producer, and [`Coordinator::replay_in_transaction`] replays them. The
//! offsets are *pending* until the producer's marker is written to this slot. Then the caller calls
//! [`Coordinator::replay_end_transaction`] with the position of the marker, and answers the marker
//! when it is durable. A marker without pending offsets is written, too, and changes nothing. A
//! marker that is refused as stale is not replayed. [`Coordinator::replay_batch`] takes the batches
//! of the log: plain, transactional, and markers. [`Coordinator::open_transactions`] lists the
//! producers of pending offsets for the report of a slot. The coordinator knows neither the epochs
//! of producers nor which markers are stale.
//!
//! **Events** for operators, such as the end of a rebalance with its causes: the caller takes them
//! with [`Coordinator::take_events`] after each call and the replay of its records. They come from
//! volatile state, so reading a log makes none.
//!
//! **Several coordinators** divide the groups of a shard and share its limits: the caller passes
//! each call a [`Budget`] with what the other coordinators use.
//!
//! **Modules**: [`group`](group) is the whole state of one group id. The four kinds of groups are
//! [`classic`](classic), [`consumer`](consumer), [`share`](share) and [`streams`](streams). The
//! last three take the same steps: [`modern`](modern) is generic over the kind. No kind refers to
//! another; [`migration`](migration) converts classic groups into consumer groups and back. Long
//! work, such as an assignment of 100,000 partitions, is done in slices: the next slice is due at
//! once ([`Reason::Work`]), and other requests are served in between.

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
mod client;
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
pub use coordinator::{Caller, Coordinator, Listing, StateWalk, WalkLimit, WalkProgress};
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
