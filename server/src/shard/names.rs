//! The names by which a shard knows its files and their operations: one space for all its parts, as
//! the reactor has one table of files, and each completion finds its part by its token.

use muster_storage::{FileId, FileToken};

/// Tokens of the log's operations have this in their top byte.
pub(super) const LOG_TOKENS: u8 = 1;

/// The same of partitions.
pub(super) const PARTITION_TOKENS: u8 = 2;

/// Of the writes of a snapshot: one at a time is under way.
pub(super) const SNAPSHOT_TOKEN: FileToken = FileToken(3 << 56);

/// Of the reads of the running check: one at a time is under way.
pub(super) const LOG_CHECK_TOKEN: FileToken = FileToken(4 << 56);

/// Files of the log have ids from here on.
pub(super) const FIRST_LOG_FILE: u32 = 0;

/// The snapshot that is being written, behind those of the log.
pub(super) const SNAPSHOT_FILE: FileId = FileId(FIRST_PARTITION_FILE.0 - 1);

/// Files of partitions have ids from here on.
pub(super) const FIRST_PARTITION_FILE: FileId = FileId(1 << 16);
