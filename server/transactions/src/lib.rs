//! The transaction coordinator: which transactions are open, how they end, and which producers may
//! write in them. Start here; `README.md` has the messages and the duties of the server.
//!
//! A deterministic state machine without I/O, clock or randomness. Its contract is like that of the
//! group coordinator:
//!
//! - **Requests**: [`Coordinator::handle`] takes a client's request and returns an [`Output`]: the
//!   records to write, the responses to this request or to parked ones, and messages to slots.
//! - **Messages**: [`Coordinator::receive`] takes messages of slots: questions, acknowledgements
//!   and reports ([`message`]).
//! - **Records**: [`Coordinator::replay`] alone changes durable state, in normal work and at
//!   recovery. Before the next call, the caller replays the records of an `Output` in order. If the
//!   log refuses them, it calls [`Coordinator::not_written`] instead.
//! - **Time**: when `now` has reached [`Coordinator::next_deadline`], the caller calls
//!   [`Coordinator::expire`], until the next deadline is in the future.
//!
//! At startup the caller replays the records of the log and then calls [`Coordinator::loaded`]
//! once, even if the log is empty.
//!
//! **Only durable state is visible**: [`Answer::visible_at`] and [`message::ToSlot::visible_at`]
//! are positions that must be durable before the response or message may leave. Verdicts are the
//! exception: after a positive one, a partition appends before the record is durable. If a crash
//! loses the record, the reports of slots restore it ([`message::Report`]).
//!
//! **Waiting**: a request that Kafka answers with CONCURRENT_TRANSACTIONS waits for the end of the
//! id's transaction, for at most `add.partitions.to.txn.retry.backoff.max.ms`, or
//! [`limits::TRANSACTION_WAIT_MS`] if the request's epoch identifies its own transaction.
//!
//! **Memory**: the ids at rest of an opened snapshot stay bytes of its file until one is needed
//! ([`snapshot`]).
//!
//! [`partition`] and [`link`] are the other side: the transactions of one partition, and a slot's
//! messages with one coordinator.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

extern crate alloc;

mod add_partitions;
mod beginning;
mod checks;
pub mod config;
pub mod context;
pub mod coordinator;
mod decide;
mod describe;
mod end_txn;
mod entry;
pub mod errors;
mod exceptions;
mod expire;
mod ids;
mod init_producer_id;
mod kept;
pub mod limits;
pub mod link;
mod markers;
pub mod message;
mod operation;
pub mod output;
pub mod partition;
mod partition_set;
mod replay;
mod reply;
mod reports;
mod reset;
mod response;
pub mod snapshot;
mod snapshots;
mod state;
mod text;
mod timers;
mod waits;

pub use config::Config;
pub use context::{Admission, Context, Held, Matcher, ProducerIds, Slot, Topics};
pub use coordinator::{Caller, Coordinator};
pub use describe::Listing;
pub use muster_snapshot_index::{SnapshotBytes, SnapshotPart};
pub use output::{Answer, Output, RequestId};
pub use partition_set::PartitionSet;
pub use response::{Request, Response};
pub use snapshot::IdsWalk;
pub use state::State;
pub use text::Text;
pub use timers::Reason;
