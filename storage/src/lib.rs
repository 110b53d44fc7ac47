//! A shard's log, and the logs of the partitions it leads. This crate decides on file operations
//! and does not perform them. Start reading here.
//!
//! There are two kinds of logs. [`ShardLog`]: one for each shard, for the cluster's records and the
//! partitions of internal topics that the shard owns; durable before it is acknowledged.
//! [`PartitionLog`]: one for each partition of a user topic, in Kafka's own layout and with Kafka's
//! own durability.
//!
//! Both are without I/O, clock and randomness: `now` is an argument, and the operations that they
//! need are pushed onto a list of [`FileOp`]s. There are four kinds of calls:
//!
//! - **Recovery**: the caller reads the files at start-up and passes them to a recovery, in order;
//!   it yields batches for replay, and finally the state from which a log continues.
//! - **Appends** assign records their offsets or position. They do not wait.
//! - **`poll`** of a [`ShardLog`] pushes the operations that are due: after appends, after
//!   completions, and at its next deadline. A spurious call does no harm. The operations are
//!   performed in the order in which they were pushed; see [`file_op`].
//! - **Completions** go to the log whose token they carry. A completed write moves the log's end
//!   for readers ([`Progress`]: `accepted >= submitted >= flushed`).
//!
//! Reads are planned: a plan pushes one [`FileOp::Read`] with a token of the caller's, and finds
//! the wanted batches in the bytes that were read.
//!
//! A write that fails ends the process; a log never sees the error. The exception is a full disk
//! when a file is written on which nothing depends yet ([`OpenMode::Aside`]).
//!
//! `poll` also compacts a [`ShardLog`] that has a [`CompactionConfig`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod append_error;
pub mod file_op;
mod held_files;
pub mod layout;
pub mod limits;
pub mod log_partition;
mod newest;
pub mod open_files;
mod outbox;
mod pace;
pub mod partition_log;
pub mod progress;
mod raw_record;
mod segment_name;
pub mod shard_log;
pub mod snapshot;

pub use append_error::AppendError;
pub use file_op::{FileDone, FileId, FileKey, FileOp, FileRange, FileToken, OpenMode};
pub use log_partition::{LogPartition, PARTITIONS_MAX};
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
    CompactionConfig, CompactionNews, Corruption, Cut, KnownSegments, LogConfig, LogExtent,
    LogFile, ReadPlan, Reading, Recovered, RecoveredBatch, Recovery, SegmentExtent, SegmentWalk,
    ShardLog, Superseded,
};
