//! Log lines about the bytes that a shard holds for its clients.

use super::Shard;
use crate::net::{Account, Kind};
use tracing::{info, warn};

/// The shortest time between two lines about a limit that is near.
const LINE_MS: i64 = 60_000;

/// The part of a limit from which on it is near.
const NEAR_PERCENT: usize = 80;

/// A part of the account that has a limit, and the effect of the limit on clients.
struct Part {
    name: &'static str,
    kinds: &'static [Kind],
    limit: usize,
    beyond: &'static str,
}

impl Part {
    fn held(&self, account: &Account) -> usize {
        self.kinds.iter().map(|kind| account.held(*kind)).sum()
    }

    fn is_near(&self, account: &Account) -> bool {
        self.held(account) >= self.limit / 100 * NEAR_PERCENT
    }
}

impl Shard {
    /// Logs that a limit is near.
    pub(super) fn warn_of_limits(&mut self) {
        if self.now < self.next_account_line {
            return;
        }
        let account = self.connections.account();
        let Some(part) = self.parts().into_iter().find(|part| part.is_near(account)) else {
            return;
        };
        let (held, limit, number) = (part.held(account) >> 10, part.limit >> 10, self.number);
        warn!(
            "shard {number} holds {held} KiB of {} for its clients; from {limit} KiB on {}. It \
             holds: {account}",
            part.name, part.beyond
        );
        self.next_account_line = self.now + LINE_MS;
    }

    /// Logs the most bytes that were held.
    pub(super) fn report_peak(&self) {
        let (number, peak) = (self.number, self.connections.account().peak() >> 10);
        info!("shard {number} stops: it held {peak} KiB for its clients at the most");
    }

    fn parts(&self) -> [Part; 2] {
        let limits = self.connections.limits();
        [
            Part {
                name: "requests that are unfinished or not handled yet",
                kinds: &[Kind::Input],
                limit: limits.input_bytes,
                beyond: "large requests are received one at a time (queued.max.request.bytes)",
            },
            Part {
                name: "unread answers",
                kinds: &[Kind::Answers, Kind::Unsent],
                limit: limits.unread_bytes,
                beyond: "large answers wait, and clients that do not read are closed",
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    #[test]
    fn a_limit_is_near_from_four_fifths_on_and_logged_once_a_minute() {
        let mut world = World::new(&[]);
        let shard = &mut world.shard;
        let limit = shard.connections.limits().unread_bytes;
        let silent = shard.next_account_line;
        shard.connections.account.take(Kind::Answers, limit / 2);
        shard.connections.account.take(Kind::Unsent, limit / 4);
        shard.warn_of_limits();
        assert_eq!(shard.next_account_line, silent, "three quarters");
        shard.connections.account.take(Kind::Unsent, limit / 16);
        shard.warn_of_limits();
        let next = shard.next_account_line;
        assert_eq!(next, shard.now + LINE_MS);
        shard.now += LINE_MS - 1;
        shard.warn_of_limits();
        assert_eq!(shard.next_account_line, next);
        shard.now += 1;
        shard.warn_of_limits();
        assert_eq!(shard.next_account_line, next + LINE_MS);
    }
}
