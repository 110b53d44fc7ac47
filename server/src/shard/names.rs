//! File ids and completion tokens, divided among the parts of a shard: the reactor has one table of
//! files, and the token of a completion identifies the part that it belongs to.

use crate::groups::CheckNames;
use muster_storage::{FileId, FileToken};

/// Tokens of the log's operations have this in their top byte.
pub(super) const LOG_TOKENS: u8 = 1;

/// Tokens of the operations of partitions have this in their top byte.
pub(super) const PARTITION_TOKENS: u8 = 2;

/// The token of writes of a snapshot, of which one at a time is under way.
pub(super) const SNAPSHOT_TOKEN: FileToken = FileToken(3 << 56);

/// The names of the running check: of its reads, one of each kind at a time is under way.
pub(super) const LOG_CHECK: CheckNames = CheckNames {
    token: FileToken(4 << 56),
    file: FileId(FIRST_PARTITION_FILE.0 - 2),
    file_token: FileToken(5 << 56),
};

/// Files of the log have ids from here on.
pub(super) const FIRST_LOG_FILE: u32 = 0;

/// The id of the snapshot that is being written, the last before those of partitions.
pub(super) const SNAPSHOT_FILE: FileId = FileId(FIRST_PARTITION_FILE.0 - 1);

/// Files of partitions have ids from here on.
pub(super) const FIRST_PARTITION_FILE: FileId = FileId(1 << 16);
