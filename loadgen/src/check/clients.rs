//! The certain claims of real clients beside the members, for the rule `two-owners`.
//!
//! muster-load does not see a client's requests, only the lines of its rebalance callbacks. So its
//! claim on a partition is certain in the interval
//!
//! ```text
//! from  when the line of its assignment was read   (the coordinator decided before that)
//! to    when the line was read by which it gave the partition up, or it ended, or a session or
//!       rebalance timeout after its last line, whichever is first
//! ```
//!
//! with two exceptions, both in favour of the coordinator. A line may be read late, and a client
//! that was removed learns of it with its next heartbeat only: an overlap that is no longer than
//! [`SLACK`] does not count. And a client may not know yet of what members noticed (a connection
//! that broke, a coordinator that moved): claims from before that end with it.

use std::sync::Arc;
use std::time::Duration;

use super::group::Facts;
use crate::time::Time;

/// More than the intervals of heartbeats that clients have: 3 s, and 5 s in consumer groups.
pub(super) const SLACK: Duration = Duration::from_secs(8);

/// A process that is no simulated member.
pub(super) struct Client {
    pub(super) name: Arc<str>,
    /// The time of its last line.
    heard: Time,
}

impl Client {
    pub(super) fn new(name: Arc<str>, at: Time) -> Self {
        Self { name, heard: at }
    }

    pub(super) fn heard(&mut self, at: Time) {
        self.heard = self.heard.max(at);
    }

    /// The end of a claim that was made at `since`, if the client does not give it up.
    pub(super) fn certain_until(&self, since: Time, facts: &Facts) -> Time {
        let timeout = facts.group.session_timeout.min(facts.group.rebalance_timeout);
        let until = self.heard + timeout;
        if since <= facts.shaken { until.min(facts.shaken) } else { until }
    }
}
