//! The times at which a coordinator has work.

use crate::limits::RESEND_MS;
use crate::text::Text;

/// Why [`crate::Coordinator::expire`] is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Operations that waited may be done.
    Work,
    /// An operation has waited for long enough.
    Wait,
    /// Messages have not been answered.
    Resend,
    /// Transactions may have been open for too long.
    Timeouts,
    /// Transactional ids may have expired.
    Expiry,
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// The time of the last call.
    pub(crate) now: i64,
    pub(crate) resend_at: Option<i64>,
    pub(crate) timeouts_at: Option<i64>,
    pub(crate) expiry_at: Option<i64>,
    /// The last id that a sweep has visited, if it is not complete.
    pub(crate) timeouts_after: Option<Text>,
    pub(crate) expiry_after: Option<Text>,
}

impl Timers {
    /// There are messages under way.
    pub(crate) fn resend_after(&mut self, now: i64) {
        self.resend_at.get_or_insert(now.saturating_add(RESEND_MS));
    }
}
