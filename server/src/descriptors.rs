//! Divides the file descriptors between connections and files, so that clients cannot use them up.
//!
//! Each shard has its own descriptors for its log and for the files of partitions. All shards share
//! one budget of connections, and a driver accepts a connection only within it
//! (`server/uring/src/connection_budget.rs` counts the open connections). Without the budget, a
//! burst of clients could take the descriptor that the next file needs, which would end the
//! process. One slice of an answer needs no more files than a shard may keep open
//! (`OpenFiles::open_held`).

use crate::files::Freeing;
use muster_uring::{OpenFiles, SetupError};

/// Descriptors reserved for each shard: ring, eventfd, directories, the log's files, and partition
/// files that are being closed.
const PER_SHARD: u64 = 256;

/// The least and the most partition files that a shard keeps open.
const PARTITION_FILES_MIN: u64 = 8;
const PARTITION_FILES_MAX: u64 = 4_096;

/// Partition files get 1 / this number of the descriptors that remain. Connections get the rest.
const PARTITIONS_PART: u64 = 8;

/// The limits on open files and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// The limit for each shard.
    pub(crate) partition_files: u32,
    /// The limit for all shards together: a large group may have all its connections on one shard.
    pub(crate) connections: usize,
}

impl Descriptors {
    /// Divides the descriptors among `shards` shards.
    ///
    /// # Errors
    /// There are too few descriptors. The error names a remedy.
    pub(crate) fn share(open_files: &OpenFiles, shards: u32) -> Result<Self, SetupError> {
        let shards = u64::from(shards);
        let least = PER_SHARD + PARTITION_FILES_MIN * PARTITIONS_PART;
        let possible = open_files.soft.saturating_sub(Freeing::DESCRIPTORS) / least;
        let fewer = fewer_shards(possible);
        open_files.require(Freeing::DESCRIPTORS + shards * least, fewer.as_deref())?;
        let each = (open_files.soft - Freeing::DESCRIPTORS) / shards - PER_SHARD;
        let partition_files = (each / PARTITIONS_PART).min(PARTITION_FILES_MAX);
        let connections = shards * (each - partition_files);
        Ok(Self { partition_files: partition_files as u32, connections: connections as usize })
    }
}

/// The remedy if the limit allows only `possible` shards; None if it allows none.
pub(crate) fn fewer_shards(possible: u64) -> Option<String> {
    (possible > 0).then(|| format!("start with `--shards {possible}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(soft: u64, shards: u32) -> Option<(u32, usize)> {
        let shared = Descriptors::share(&OpenFiles { soft, hard: soft }, shards).ok()?;
        let files = u64::from(shards) * (u64::from(shared.partition_files) + PER_SHARD);
        assert!(files + shared.connections as u64 + Freeing::DESCRIPTORS <= soft);
        Some((shared.partition_files, shared.connections))
    }

    #[test]
    fn files_and_connections_share_the_descriptors_and_connections_get_most() {
        assert_eq!(share(1_024, 1), Some((63, 445)));
        assert_eq!(share(20_000, 2), Some((1_201, 16_826)));
        assert_eq!(share(1 << 20, 2), Some((4_096, 1_039_612)));
    }

    #[test]
    fn the_least_limit_is_enough_and_one_less_is_refused_with_the_number() {
        for shards in [1, 2, 5, 8] {
            let least = 260 + 320 * u64::from(shards);
            assert_eq!(share(least, shards), Some((8, 56 * shards as usize)));
            let few = OpenFiles { soft: least - 1, hard: least - 1 };
            let sentence = Descriptors::share(&few, shards).unwrap_err().to_string();
            assert!(sentence.contains(&format!("{least} are needed")), "{sentence}");
        }
    }

    #[test]
    fn too_few_are_refused() {
        assert_eq!(share(1_024, 3), None);
        assert_eq!(share(0, 1), None);
        let few = OpenFiles { soft: 4_096, hard: 4_096 };
        let sentence = Descriptors::share(&few, 32).unwrap_err().to_string();
        let possible = sentence.split_once("`--shards ").unwrap().1.split('`').next().unwrap();
        let possible: u64 = possible.parse().unwrap();
        assert!(share(4_096, possible as u32).is_some(), "{sentence}");
        assert!(share(4_096, possible as u32 + 1).is_none(), "{sentence}");
    }
}
