//! The group coordinator: who consumes what, and how far each consumer has read. Start here.
//!
//! A deterministic state machine without I/O, clock or randomness. There are four kinds of calls:
//!
//! - **Requests**: [`Coordinator::handle`] takes a request of a client and gives an [`Output`]:
//!   the records that it wants written and the responses that it gives, to this request or to ones
//!   that were parked before (a join waits for the others). It changes soft state only, such as who
//!   has joined so far and which responses are parked.
//! - **Records**: [`Coordinator::replay`] is the one thing that changes durable state, in normal
//!   work and at recovery alike. The caller replays the records of an `Output`, in order, before
//!   the next call, and appends them to its log as one atomic batch per group.
//! - **Time**: whenever `now` has reached [`Coordinator::next_deadline`], the caller calls
//!   [`Coordinator::expire`], and again as long as that is so: one call does a limited amount of
//!   work, and ends with the first that wants records written. A spurious call does no harm. `now`
//!   never goes back.
//! - **Topics**: [`Coordinator::topics_deleted`] when topics are gone. That topics are made, grow
//!   or move, groups notice by themselves: each call brings the topics as they are, and
//!   [`Topics::version`] tells whether they changed.
//! - **Configs**: [`Coordinator::set_group_config`] for each group that has configs of its own,
//!   after [`Coordinator::new`] and whenever they change.
//!
//! A coordinator begins with the records of its log, then [`Coordinator::loaded`], once, also if
//! the log is empty. Before that it serves no requests. It may begin with a [`snapshot`] instead,
//! which saves it all but the end of the log.
//!
//! **What is seen is durable**: [`Context::position`] is the place in the caller's log that the
//! records of this call will have. Each response says with [`Answer::visible_at`] which position
//! must be durable before it may leave: the last that wrote to the group, so that no client sees a
//! state that a crash could undo. Zero means at once.
//!
//! **Who holds what**: [`group`](group) has all there is under one group id. A classic group is in
//! [`classic`](classic), a consumer group in [`consumer`](consumer), with what later kinds will
//! share in [`modern`](modern); neither of the two kinds knows the other. A group that goes from
//! one to the other does so in [`migration`](migration). Long work, such as an assignment of
//! 100,000 partitions, goes in slices: the rest of it is due at once ([`Reason::Work`]), and other
//! requests come between.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

extern crate alloc;

pub mod assignors;
pub mod census;
mod classic;
pub mod config;
mod consumer;
pub mod context;
pub mod coordinator;
mod describe;
mod expire;
mod group;
mod heartbeats;
mod java_order;
pub mod limits;
mod migration;
mod modern;
mod offsets;
pub mod output;
mod recovery;
pub mod regex;
mod replay;
mod requests;
pub mod shadow;
pub mod shares;
pub mod snapshot;
mod text;
mod timers;
mod turn;

pub use census::Census;
pub use config::{Config, GroupOverrides, MigrationPolicy};
pub use context::{Context, DeletedTopic, Ids, NoTopics, Topics};
pub use coordinator::{Caller, Coordinator, NoRoom};
pub use describe::Listing;
pub use output::{Answer, Output, RequestId};
pub use shadow::{Sample, Shadow};
pub use shares::{ShareLimits, Shares};
pub use snapshot::{
    Divergence, NextGroup, Print, SnapshotBytes, SnapshotDamage, SnapshotPart, SnapshotWalk,
};
pub use timers::Reason;
