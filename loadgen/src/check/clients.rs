//! The claims of real clients beside the members, for the rule `two-owners`.
//!
//! muster-load does not see a client's requests. It sees only the lines that the client's rebalance
//! callbacks print. So the client's claim on a partition is certain in the interval
//!
//! ```text
//! from  when the line of its assignment was read   (the coordinator decided before that)
//! to    the first of: the line was read that gave the partition up; the client ended; a session or
//!       rebalance timeout has passed since its last line
//! ```
//!
//! Two exceptions make the rule milder. First, an overlap that is no longer than [`SLACK`] does not
//! count: a line may be read late, and a client that was removed learns this only from its next
//! heartbeat. Second, members may have noticed a sign that the client does not know yet: a broken
//! connection, or a coordinator that moved. A claim that was made before such a sign is certain
//! only up to the time of the sign.

use std::sync::Arc;
use std::time::Duration;

use super::group::Facts;
use crate::time::Time;

/// An overlap that is no longer than this does not count. It is longer than the heartbeat intervals
/// of clients: 3 s, and 5 s in consumer groups.
pub(super) const SLACK: Duration = Duration::from_secs(8);

/// A real client process beside the simulated members.
pub(super) struct Client {
    pub(super) name: Arc<str>,
    /// The time when the last line that the client printed was read.
    heard: Time,
}

impl Client {
    pub(super) fn new(name: Arc<str>, at: Time) -> Self {
        Self { name, heard: at }
    }

    pub(super) fn heard(&mut self, at: Time) {
        self.heard = self.heard.max(at);
    }

    /// The time until which a claim made at `since` is certain, if the client does not give it up.
    pub(super) fn certain_until(&self, since: Time, facts: &Facts) -> Time {
        let timeout = facts.group.session_timeout.min(facts.group.rebalance_timeout);
        let until = self.heard + timeout;
        if since <= facts.shaken { until.min(facts.shaken) } else { until }
    }
}
