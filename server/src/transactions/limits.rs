//! The limits of the transactions of a shard.

use muster_fairness::ShareLimits;

/// Transactional ids of a shard, and bytes of their names. Beyond that InitProducerId of a new one
/// is COORDINATOR_NOT_AVAILABLE.
pub(super) const IDS_MAX: usize = 1_000_000;
pub(super) const ID_BYTES_MAX: usize = 64 << 20;

/// The share of an address in the second half of them.
pub(super) const ID_SHARE: ShareLimits = ShareLimits { burst: 10_000, every_ms: 100 };

/// Letters to another shard that it has not taken out of its mailbox, and the bytes of the
/// partitions that they name. Further ones are dropped: all but questions are sent again, and the
/// client of a question hears of it.
pub(super) const LETTERS_MAX: usize = 65_536;
pub(crate) const LETTER_BYTES_MAX: usize = 16 << 20;

/// The time after which a report that was not answered is sent again.
pub(super) const REPORT_AGAIN_MS: i64 = 1_000;

/// Timers that fire in one turn.
pub(super) const TIMERS_OF_A_TURN: usize = 16;
