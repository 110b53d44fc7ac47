//! The isolation levels of readers.

use std::ops::RangeInclusive;

const READ_COMMITTED: i8 = 1;

pub(crate) const ISOLATION_LEVELS: RangeInclusive<i8> = 0..=READ_COMMITTED;

/// Whether a client reads a transaction's records only after the transaction was committed.
pub(super) fn reads_committed(isolation_level: i8) -> bool {
    isolation_level == READ_COMMITTED
}
