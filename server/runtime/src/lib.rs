//! The work that a shard does for each of its internal topics, written once. A topic adds its own
//! [`Machine`]s, one for each partition, which give its records their meaning.
//!
//! [`Runtime`] alone makes records durable: it appends operations of any topic, applies each to the
//! machine of its partition, and returns the position. At a load each batch of the log goes to the
//! same machines ([`Load`]). A machine applies a whole operation, not a record, because the image
//! of the cluster dates all changes of one operation alike. Only a topic whose machine is
//! [`Transactional`] has records in transactions. After each call of a machine, [`Slots`] calls
//! [`Machine::settle`]. There the groups report to the budget that they share, which is not in the
//! log.
//!
//! The state of a machine consists of *sections*, which a snapshot has one by one. For example, a
//! partition of `__consumer_offsets` has its groups, and its transactions with offsets. Each
//! section has a position of its own, up to which it has all records. The progress of writing
//! belongs to the snapshot, so a snapshot that is given up leaves nothing in a machine.
//! [`SectionAt`] has the end of the partition's log, because a partition without share states has a
//! section, too, if it ever had records.
//!
//! [`Snapshots`] knows no topic. It writes a slice of at most 64 KiB at the end of a turn in which
//! no operation is open, so that every position in the slice is the end of a block. It gets the
//! machines as a [`TopicSet`], because the parts of a shard own their machines. A clean stop writes
//! the snapshot that is due or in progress, at full speed, for at most `snapshot.on.stop.max.ms`. A
//! load refuses sections and records of partitions that the shard does not lead. A shard is loaded
//! as a whole: to load one slot alone, as a cluster will, a load needs a filter of slots.

#![forbid(unsafe_code)]

mod audit;
mod check;
mod check_copy;
mod counters;
mod damage;
mod flush_clock;
mod load;
mod machine;
mod not_restated;
mod replayed;
mod rewrite;
mod runtime;
mod section;
mod slots;
mod snapshot;
mod topic;
mod turn;

pub use audit::Audit;
pub use check::{CheckConfig, CheckNames, Difference, LogCheck, differences};
pub use check_copy::{CheckCopy, Digest, NextId};
pub use counters::{CheckCounters, LogCounters, RewriteCounters, SnapshotCounters};
pub use damage::{Damage, damaged};
pub use load::{Load, Replayed};
pub use machine::{Audited, Machine, Transactional, Unlimited};
pub use not_restated::NotRestated;
pub use replayed::{replay_each, replayed};
pub use rewrite::{Rewrite, RewriteConfig};
pub use runtime::{LogNews, NotWritten, Runtime};
pub use section::{AnyWalk, Opened, SectionAt, part_of};
pub use slots::Slots;
pub use snapshot::{Snapshots, SnapshotsDue};
pub use topic::{Topic, TopicSet};
pub use turn::Turn;
