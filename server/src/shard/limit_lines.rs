//! Log lines about limits that are nearly reached. Clients get an error code, or wait. An operator
//! finds the name of the limit in these lines.

use super::Shard;
use crate::limit_gauges::{Limit, LimitGauges};
use tracing::warn;

/// The time between two checks, and the minimum time between two lines about the same limit.
const LOOK_MS: i64 = 1_000;
const LINE_MS: i64 = 60_000;

/// The percentage of a limit from which it counts as nearly reached.
const NEAR_PERCENT: u64 = 80;

/// The lines of a shard.
#[derive(Debug, Default)]
pub(super) struct LimitLines {
    next_look: i64,
    /// The limits that were logged, and the time from which each may be logged again.
    said: Vec<(Limit, i64)>,
}

impl LimitLines {
    /// The limits that are nearly reached, with their use. Limits that were logged recently are
    /// left out.
    fn near(&mut self, now: i64, gauges: &LimitGauges) -> Vec<(Limit, u64, u64)> {
        self.said.retain(|(_, until)| now < *until);
        let is_near = |(_, used, max): &(Limit, u64, u64)| {
            *used > 0 && used.saturating_mul(100) >= max.saturating_mul(NEAR_PERCENT)
        };
        let is_said = |limit: Limit| self.said.iter().any(|(said, _)| *said == limit);
        let all = gauges.iter().filter(is_near);
        let near: Vec<_> = all.filter(|(limit, ..)| !is_said(*limit)).collect();
        self.said.extend(near.iter().map(|(limit, ..)| (*limit, now + LINE_MS)));
        near
    }
}

impl Shard {
    /// Logs the limits that are nearly reached, at intervals.
    pub(super) fn log_near_limits(&mut self) {
        let now = self.times.now;
        if now < self.limit_lines.next_look {
            return;
        }
        self.limit_lines.next_look = now + LOOK_MS;
        let (gauges, shard) = (self.inspect().limits(), self.broker.number());
        for (limit, used, max) in self.limit_lines.near(now, &gauges) {
            let (name, help) = (limit.name(), limit.help());
            warn!(target: "limit", shard, "{used} of {max} of {name} are used: {help}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_near_from_four_fifths_on_and_logged_once_a_minute() {
        let mut lines = LimitLines::default();
        let mut near = |now, groups, acls| {
            let mut gauges = LimitGauges::default();
            gauges.set(Limit::Groups, groups, 1_000);
            gauges.set(Limit::Acls, acls, 100);
            let near = lines.near(now, &gauges).into_iter();
            near.map(|(limit, used, _)| (limit.name(), used)).collect::<Vec<_>>()
        };
        assert_eq!(near(0, 799, 79), []);
        assert_eq!(near(100, 800, 79), [("GROUPS_MAX", 800)]);
        assert_eq!(near(200, 900, 100), [("ACLS_MAX", 100)]);
        assert_eq!(near(99 + LINE_MS, 900, 0), []);
        assert_eq!(near(100 + LINE_MS, 900, 0), [("GROUPS_MAX", 900)]);
        let of_few = |used| {
            let mut gauges = LimitGauges::default();
            gauges.set(Limit::Slices, used, 32);
            LimitLines::default().near(0, &gauges).len()
        };
        assert_eq!([0, 25, 26].map(of_few), [0, 0, 1]);
    }
}
