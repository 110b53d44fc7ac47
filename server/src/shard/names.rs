//! File ids and completion tokens, divided among the parts of a shard. The reactor has one table of
//! files, and the token of a completion identifies the part that it belongs to.

use muster_runtime::CheckNames;
use muster_storage::{FileId, FileToken};

/// The top byte in the tokens of operations of the log.
pub(super) const LOG_TOKENS: u8 = 1;

/// The top byte in the tokens of operations of partitions.
pub(super) const PARTITION_TOKENS: u8 = 2;

/// The token of writes of a snapshot. One write at a time is under way.
pub(super) const SNAPSHOT_TOKEN: FileToken = FileToken(3 << 56);

/// The names of the running check. One read of each kind at a time is under way.
pub(super) const LOG_CHECK: CheckNames = CheckNames {
    token: FileToken(4 << 56),
    file: FileId(FIRST_PARTITION_FILE.0 - 2),
    file_token: FileToken(5 << 56),
};

/// The token of reads of a replicated log's entries. One read is under way at a time.
pub(super) const ENTRIES_TOKEN: FileToken = FileToken(6 << 56);

/// The first id of files of the log.
pub(super) const FIRST_LOG_FILE: u32 = 0;

/// The id of the snapshot that is being written: the last id before those of partitions.
pub(super) const SNAPSHOT_FILE: FileId = FileId(FIRST_PARTITION_FILE.0 - 1);

/// The first id of files of partitions.
pub(super) const FIRST_PARTITION_FILE: FileId = FileId(1 << 16);
