//! A shard's log, and the logs of the partitions it leads: decides file operations, does not
//! perform them. Start reading here.
//!
//! There are two kinds of logs. [`ShardLog`]: one for each shard, for the cluster's records and all
//! the offsets partitions that the shard owns; durable before it is acknowledged. [`PartitionLog`]:
//! one for each partition of a user topic, in Kafka's own layout and with Kafka's own durability.
//!
//! Both are without I/O, clock and randomness: `now` is an argument, and what they want done they
//! push onto a list of [`FileOp`]s. There are four kinds of calls:
//!
//! - **Recovery**: the caller reads the files at start-up and hands them to a recovery, in order;
//!   batches come out for replay, and at last the state from which a log goes on.
//! - **Appends** take records and give them their place. They do not wait.
//! - **`poll`** of a [`ShardLog`] asks for what is due: after appends, after completions, and at
//!   its next deadline. A spurious call does no harm. The operations are performed in the order in
//!   which they were pushed; see [`file_op`].
//! - **Completions** go to the log whose token they carry. A completed write moves the log's end
//!   for readers ([`Progress`]: `accepted >= submitted >= flushed`).
//!
//! Reads are planned: a plan pushes one [`FileOp::Read`] with a token of the caller's, and finds
//! the wanted batches in the bytes that come back.
//!
//! A write that fails ends the process, and no log is told of it; but for a full disk where a file
//! is written that nothing depends on yet.
//!
//! A [`ShardLog`] is compacted by its own `poll`, if its config says so.

#![forbid(unsafe_code)]

pub mod file_op;
mod held_files;
pub mod layout;
pub mod limits;
pub mod open_files;
mod outbox;
mod pace;
pub mod partition_log;
pub mod planted;
pub mod progress;
pub mod shard_log;
pub mod snapshot;

pub use file_op::{FileDone, FileId, FileOp, FileRange, FileToken, OpenMode};
pub use open_files::{FileKey, OpenFiles};
pub use pace::Pace;
pub use partition_log::{
    Appended, BatchPlace, BatchSearch, Find, Found, LogEnd, PartitionError, PartitionLog,
    PartitionPlace, PartitionRecovery, RecoveredPartition, RecoveryPoint, Searched, SegmentSource,
    TimestampSearch, TopicConfig, TornEnd,
};
pub use progress::Progress;
pub use shard_log::{
    AppendError, CompactionConfig, CompactionNews, Corruption, Cut, KnownSegments, LogConfig,
    ReadPlan, Reading, Recovered, RecoveredBatch, Recovery, SegmentWalk, ShardLog,
};
