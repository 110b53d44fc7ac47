//! The keys by which records are compared: their own, but for share state.
//!
//! `__share_group_state` has two types of records. A snapshot, or its tombstone, has the whole
//! state of a share partition. An update adds to the snapshot and the updates before it. Their keys
//! differ by their types alone.

use crate::log_partition::LogPartition;
use crate::newest::{KeyHash, Newest};

/// The type at the front of the key of a snapshot, and of an update.
const SNAPSHOT: &[u8] = &[0, 0];
const UPDATE: &[u8] = &[0, 1];

/// Whether a record adds to the older records of its key, and displaces none of them.
pub(super) fn is_update(partition: LogPartition, key: &[u8]) -> bool {
    match partition {
        LogPartition::ShareState(_) => key.starts_with(UPDATE),
        LogPartition::Cluster
        | LogPartition::ConsumerOffsets(_)
        | LogPartition::TransactionState(_) => false,
    }
}

/// The hash of a partition and of the key by which a record in it is compared.
pub(super) fn hash(newest: &Newest, partition: LogPartition, key: &[u8]) -> KeyHash {
    let (first, rest) = compared(partition, key);
    newest.hash([&partition.to_bytes(), first, rest])
}

/// The key by which a record is compared, in two parts. An update is compared by the key of its
/// snapshot.
fn compared(partition: LogPartition, key: &[u8]) -> (&[u8], &[u8]) {
    if is_update(partition, key) { (SNAPSHOT, &key[UPDATE.len()..]) } else { (&[], key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_updates_of_share_state_have_the_key_of_another_record() {
        let [share, offsets] = [LogPartition::ShareState(1), LogPartition::ConsumerOffsets(1)];
        for (partition, key, expected) in [
            (share, &[0, 1, 9][..], &[0, 0, 9][..]),
            (share, &[0, 1], &[0, 0]),
            (share, &[0, 0, 9], &[0, 0, 9]),
            (share, &[0, 2, 9], &[0, 2, 9]),
            (share, &[1, 9], &[1, 9]),
            (share, &[0], &[0]),
            (share, &[], &[]),
            (offsets, &[0, 1, 9], &[0, 1, 9]),
        ] {
            let (first, rest) = compared(partition, key);
            assert_eq!([first, rest].concat(), expected, "{partition} {key:?}");
            assert_eq!(is_update(partition, key), key != expected);
        }
    }
}
