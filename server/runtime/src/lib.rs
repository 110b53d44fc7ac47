//! The work that a shard does for each of its internal topics, written once. A topic adds its own
//! [`Machine`]s, one for each partition, which give its records their meaning.
//!
//! Only [`Runtime`] makes records durable: it appends operations of any topic, applies each to the
//! machine of its partition, and returns the position. When a shard is loaded, each batch of the
//! log goes to the same machines ([`Load`]). A machine applies all records of an operation in one
//! call, because the image of the cluster gives all changes of one operation the same position.
//! Only a topic whose machine is [`Transactional`] has records in transactions. After each call of
//! a machine, [`Slots`] calls [`Machine::settle`]. In this call the groups report to a budget that
//! they share how much memory the clients at each address use. The budget is not in the log.
//!
//! The state of a machine consists of *sections*, which a snapshot has one by one. For example, a
//! partition of `__consumer_offsets` has a section with its groups, and one with its transactions
//! of offsets. Each section has a position of its own: it has all records up to there. The progress
//! of writing a section is kept in the snapshot, so a snapshot that is given up leaves nothing in a
//! machine. [`SectionAt`] has the end of the partition's log: a partition of share states that had
//! records once has a section even when it is empty.
//!
//! [`Snapshots`] does not know the topics. It writes a slice of at most 64 KiB at the end of a turn
//! in which no block is open, so that every position in the slice is the end of a block. It gets
//! the machines as a [`TopicSet`], because the parts of a shard own their machines. A clean stop
//! writes the snapshot that is due or in progress, at full speed, for at most
//! `snapshot.on.stop.max.ms`. A load refuses sections and records of partitions that the shard does
//! not lead. A shard is loaded as a whole: to load one slot alone, as a cluster will, a load needs
//! a filter of slots.
//!
//! [`LogCheck`] compares the machines of a running shard with copies that replay its log, and
//! [`Audit`] compares them with their own records. After damage in the log, [`Rewrite`] writes the
//! states of all machines to the log again.
//!
//! `tests/power_loss.rs` takes a toy topic through all of this, and loses power at each write, sync
//! and rename. The topic is a machine and a row (`tests/toys/`); nothing here knows it.

#![forbid(unsafe_code)]

// The toy machines of the tests name this crate.
#[cfg(test)]
extern crate self as muster_runtime;

mod audit;
mod check;
mod check_copy;
mod clustered;
mod counters;
mod damage;
mod flush_clock;
mod injected;
mod load;
mod machine;
mod not_restated;
mod quorum;
mod reads;
mod replayed;
pub mod replicas;
mod restating;
mod rewrite;
mod runtime;
mod section;
mod slots;
mod snapshot;
mod topic;
mod turn;
mod upkeep;
mod written;

pub use audit::Audit;
pub use check::{CheckConfig, CheckNames, Difference, ITEMS_OF_ID_MAX, LogCheck, differences};
pub use check_copy::{CheckCopy, Digest, NextId};
pub use counters::{CheckCounters, LogCounters, RewriteCounters, SnapshotCounters};
pub use damage::{Damage, damaged};
pub use load::{Load, Replayed};
pub use machine::{Audited, Machine, Transactional, Unlimited};
pub use not_restated::NotRestated;
pub use reads::{Batches, LogBatches, LogRead, LogReads};
pub use replayed::{replay_each, replayed};
pub use restating::Restating;
pub use rewrite::{Rewrite, RewriteConfig};
pub use runtime::{LogNews, NotWritten, Runtime};
pub use section::{AnyWalk, Opened, SectionAt, part_of};
pub use slots::Slots;
pub use snapshot::{LoadedSnapshot, Snapshots, SnapshotsDue};
pub use topic::{Topic, TopicSet};
pub use turn::Turn;
pub use upkeep::{Upkeep, UpkeepConfig};
