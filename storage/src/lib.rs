//! The log of a shard, and the logs of the partitions that it leads. This crate decides on file
//! operations but does not perform them. Start reading here.
//!
//! There are two kinds of logs. Each shard has one [`ShardLog`], for the cluster's records and the
//! shard's partitions of internal topics; an append is durable before it is acknowledged. Each
//! partition of a user topic has a [`PartitionLog`], with Kafka's file layout and Kafka's
//! durability.
//!
//! Both do no I/O and use no clock and no randomness: `now` is an argument, and they push the
//! operations that they need onto a list of [`FileOp`]s. There are four kinds of calls:
//!
//! - **Recovery**: at startup the caller reads the files and passes them to a recovery, in order.
//!   The recovery yields batches for replay and, at the end, the state from which the log
//!   continues.
//! - **Appends** assign offsets or positions to records. They do not wait.
//! - **`poll`** of a [`ShardLog`] pushes the operations that are due. Call it after appends, after
//!   completions and at its next deadline; spurious calls are harmless. Operations are performed in
//!   the order in which they were pushed; see [`file_op`].
//! - **Completions** are passed to the log whose token they have. A completed write advances the
//!   end of the log for readers ([`Progress`]: `accepted >= submitted >= flushed`).
//!
//! Reads are planned: a plan pushes one [`FileOp::Read`] with a token of the caller, and later
//! extracts the wanted batches from the bytes that were read.
//!
//! A failed write ends the process; a log never sees the error. The exceptions are a full disk
//! while a file is written on which nothing depends yet ([`OpenMode::is_aside`]), and a file or
//! directory of a partition that is gone ([`OpenMode::may_be_lost`]).
//!
//! If a [`ShardLog`] has a [`CompactionConfig`], `poll` also compacts it.
//!
//! A [`ShardLog`] may be replicated ([`layout::Format`]). Then its blocks have entries of raft
//! groups ([`slot_entry`]), and the caller seals each block, after it has proposed the records that
//! were appended ([`ShardLog::end_entries`]). [`node_state`] has the node's own records of its
//! groups. No program does so yet.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

// The tests' disk names this crate.
#[cfg(test)]
extern crate self as muster_storage;

mod append_error;
mod entry_check;
pub mod file_op;
mod held_files;
mod injected;
pub mod layout;
pub mod limits;
pub mod log_partition;
mod newest;
pub mod node_state;
pub mod open_files;
mod outbox;
mod pace;
pub mod partition_log;
pub mod progress;
mod raw_record;
mod segment_name;
pub mod shard_log;
pub mod slot_entry;
pub mod snapshot;
mod topic_rules;

pub use append_error::AppendError;
pub use file_op::{
    Creates, FileDone, FileId, FileKey, FileOp, FileRange, FileToken, OpenMode, Writes,
};
pub use log_partition::{LogPartition, PARTITIONS_MAX, UNPARTITIONED};
pub use node_state::{NodeRecord, NodeState, ReplicaLog};
pub use open_files::OpenFiles;
pub use pace::Pace;
pub use partition_log::{
    Appended, BatchPlace, BatchSearch, DamagedPart, Find, Found, LogEnd, PartitionError,
    PartitionFile, PartitionLog, PartitionPlace, PartitionRecovery, RecoveredPartition,
    RecoveryPoint, Scrub, Searched, SegmentSource, Suspect, TimestampSearch, TopicConfig, TornEnd,
    VisitedBatch,
};
pub use progress::Progress;
pub use shard_log::{
    CompactionConfig, CompactionNews, Corruption, Cut, EndedEntry, EntryId, EntryPlace, FetchPlan,
    FetchedEntry, GroupLog, Kept, KnownSegments, LogConfig, LogExtent, LogFile, LogSlot, NewEntry,
    OfferedEntry, ReadPlan, Reading, Recovered, RecoveredBatch, RecoveredItem, Recovery,
    SegmentExtent, SegmentWalk, ShardLog, Superseded,
};
pub use slot_entry::{EntryHead, EntryKind, Marker, NODE_GROUP, SlotEntry};
pub use topic_rules::{KeyRule, TopicRule, TopicRules};
