//! The limits of the transactions of a shard.

use muster_fairness::ShareLimits;

/// The maximum number of transactional ids of a shard, and the maximum size of their names. Beyond
/// either, an InitProducerId with a new id is answered with COORDINATOR_NOT_AVAILABLE.
pub(super) const IDS_MAX: usize = 1_000_000;
pub(super) const ID_BYTES_MAX: usize = 64 << 20;

/// The share of an address in the second half of these limits.
pub(super) const ID_SHARE: ShareLimits = ShareLimits { burst: 10_000, every_ms: 100 };

/// The maximum number of letters to another shard that are not yet taken out of its mailbox, and
/// the maximum size of the partitions that the letters name. Further letters are dropped. All but
/// questions are sent again, and the client of a dropped question gets an error.
pub(super) const LETTERS_MAX: usize = 65_536;
pub(crate) const LETTER_BYTES_MAX: usize = 16 << 20;

/// The time after which a report that was not answered is sent again.
pub(super) const REPORT_AGAIN_MS: i64 = 1_000;

/// The maximum number of timers that fire in one turn.
pub(super) const TIMERS_OF_A_TURN: usize = 16;
