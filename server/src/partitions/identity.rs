//! The identity of a shard's partitions: their places among other shards and on the disk.

use crate::cluster::Endpoints;
use crate::disk_space::DiskSpace;
use crate::placement::Placement;
use muster_storage::FileId;

/// The shard, and the ranges of file ids, tokens and numbers that are reserved for its partitions.
#[derive(Debug, Clone)]
pub struct Identity {
    pub shard: u32,
    pub placement: Placement,
    /// The addresses of the shards, which are sent to clients that ask the wrong shard.
    pub endpoints: Endpoints,
    /// The first of the file ids of partitions; there are `open_files_max` of them.
    pub first_file: FileId,
    pub open_files_max: u32,
    /// The top byte of the partitions' tokens.
    pub token_tag: u8,
    /// The numbers of producers' requests are greater than this.
    pub first_number: u64,
    /// The secret key with which compaction hashes the keys of records. It is random, so that
    /// clients cannot choose record keys whose hashes collide.
    pub secret: u64,
    /// The free space of the disk. While it is short, batches of producers are refused.
    pub space: DiskSpace,
}
