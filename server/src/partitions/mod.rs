//! The partitions of user topics that a shard leads: produce, fetch, transactions, offsets,
//! retention, compaction.
//!
//! A produce runs through `produce` (the request), `table/changes`, `partition`, and `batch` (the
//! checks) and `producers` (sequence numbers) there; `produces` has the produces that wait.
//!
//! [`Partitions`] performs no I/O (it is sans-I/O), like the coordinator. Its inputs are requests,
//! completions of operations, the time, and images of the cluster. Its outputs are [`Effects`]:
//! file operations and replies. The caller performs the operations of an `Effects` in order and
//! returns each [`FileDone`](muster_storage::FileDone).
//!
//! A record is visible (to a fetch, in an answer, in an offset) when its write is done: the high
//! watermark of a partition is the end of its last completed write.
//!
//! A fetch answer does not contain its records. It refers to parts of files, and says where in its
//! bytes each part belongs (`net/stream.rs`). Records of internal topics have another form in the
//! log than in answers, so they are converted and copied, 256 KiB to an answer. Partitions that do
//! not exist come at the end of an answer. Reads of committed records end at the first transaction
//! whose outcome is not known. In partitions of internal topics, which `groups/reads.rs` reads from
//! the shard's log, such reads end at the last stable offset.
//!
//! If a batch cannot be read at startup, its readers get an error, and everything else is served.
//! If it is also unknown where the next batch begins, the partition is offline (`offline.rs`).
//! Shards notify one another which of their partitions are offline, because Metadata shows these
//! without a leader. When a partition is loaded, its transactions are rebuilt from its batches.
//!
//! `compaction.rs` passes three things to a pass: which records are stable, which transactions were
//! aborted, and which batches are the last ones of their producers. A segment is opened as a file
//! that must exist (`OpenMode::EXISTING`). If it is gone, only reads that need it fail. Reads for
//! fetches and look-ups take at most 4 MiB at a time; further reads wait for their turn. This limit
//! covers the reads of batch headers (4 KiB for each partition) and those of records for look-ups
//! by time (32 KiB).

mod asked;
mod batch;
mod checkpoint;
mod compaction;
mod counters;
mod dead_letters;
mod delete_records;
mod describe_log_dirs;
mod describe_producers;
mod disk;
mod durably_stable;
mod effects;
mod happened;
mod identity;
mod internal_topics;
mod isolation;
mod jobs;
pub mod layout;
mod limits;
mod load;
mod locate;
mod looks;
mod lost_writes;
mod markers;
mod offline;
mod partition;
mod partition_id;
mod partition_set;
mod produce;
mod produce_answers;
mod producers;
mod produces;
mod questions;
mod reader;
mod reads;
mod rounds;
mod scrub;
mod table;
mod transactions;
mod upkeep;

pub(crate) use batch::is_transactional;
#[cfg(test)]
pub(crate) use counters::{PartitionCounters, PartitionGauges};
pub(crate) use dead_letters::NewLetters;
pub use effects::{Call, Effects, FailedRead, Outcome, Reply};
pub(crate) use effects::{LettersEnd, OpenBySlot};
pub use identity::Identity;
pub(crate) use internal_topics::INTERNAL_RECORD_BYTES;
pub(crate) use isolation::ISOLATION_LEVELS;
pub(crate) use layout::parse_directory;
pub(crate) use limits::{
    DECOMPRESSED_BYTES_MAX, READ_BYTES_IN_FLIGHT_MAX, UNWRITTEN_BYTES_MAX, WAITING_PARTITIONS_MAX,
};
pub use load::{
    CUT_EXTENSION, RecoveryPoints, Repair, SegmentOnDisk, partition_files, recovered, recovered_if,
    recovery_points,
};
pub use markers::OffsetTransactions;
pub(crate) use partition::Bounds;
pub use partition_id::PartitionId;
pub use partition_set::Partitions;
pub(crate) use reader::{Reader, RecordRead, RecordReadEnd};
pub(crate) use reads::{FULL_SESSION_EPOCHS, PARTITION_OF_FETCH_BYTES, replica};

#[cfg(test)]
mod tests;
