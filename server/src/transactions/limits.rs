//! The limits of the transactions of a shard.

use muster_fairness::ShareLimits;

/// The maximum number of transactional ids of a shard, and the maximum size of their names. Beyond
/// either, an InitProducerId with a new id is answered with COORDINATOR_NOT_AVAILABLE.
pub(super) const IDS_MAX: usize = 1_000_000;
pub(super) const ID_BYTES_MAX: usize = 64 << 20;

/// How many new ids an address may add, at once and over time, while half of a limit is in use.
pub(super) const ID_SHARE: ShareLimits = ShareLimits { burst: 10_000, every_ms: 100 };

/// The maximum number of letters that wait in the mailbox of another shard, and the maximum size of
/// the partitions that they name. Further letters are dropped. Dropped letters are sent again,
/// except questions: the client of a dropped question gets an error.
pub(super) const LETTERS_MAX: usize = 65_536;
pub(crate) const LETTER_BYTES_MAX: usize = 16 << 20;

/// The time after which a report that was not answered is sent again.
pub(super) const REPORT_AGAIN_MS: i64 = 1_000;

/// The maximum number of timers that fire in one turn.
pub(super) const TIMERS_OF_A_TURN: usize = 16;
