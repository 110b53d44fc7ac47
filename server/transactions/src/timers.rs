//! The times at which a coordinator has work to do.

use crate::limits::RESEND_MS;
use crate::text::Text;

/// The reason why [`crate::Coordinator::expire`] is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Parked operations may be carried out.
    Work,
    /// An operation has waited until its deadline.
    Wait,
    /// Messages were not answered.
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
    /// The last id that an incomplete sweep has visited.
    pub(crate) timeouts_after: Option<Text>,
    pub(crate) expiry_after: Option<Text>,
}

impl Timers {
    /// Called when messages are under way.
    pub(crate) fn resend_after(&mut self, now: i64) {
        self.resend_at.get_or_insert(now.saturating_add(RESEND_MS));
    }
}
