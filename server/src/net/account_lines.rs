//! Log lines about the bytes that a shard holds for its clients.

use super::account::{Account, Kind, UNREAD};
use super::connections::Connections;
use super::limits::Limits;
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
        account.held_of(self.kinds)
    }

    fn is_near(&self, account: &Account) -> bool {
        self.held(account) >= self.limit / 100 * NEAR_PERCENT
    }
}

/// The lines of a shard.
#[derive(Debug)]
pub(super) struct AccountLines {
    /// The earliest time of the next line.
    next_at: i64,
}

impl AccountLines {
    pub(super) fn new(now: i64) -> Self {
        Self { next_at: now }
    }

    /// Logs that a limit is near.
    pub(super) fn warn(&mut self, shard: u32, now: i64, connections: &Connections) {
        if now < self.next_at {
            return;
        }
        let account = connections.account();
        let near = parts(connections.limits()).into_iter().find(|part| part.is_near(account));
        let Some(part) = near else { return };
        let (held, limit) = (part.held(account) >> 10, part.limit >> 10);
        warn!(
            "shard {shard} holds {held} KiB of {} for its clients; from {limit} KiB on {}. It \
             holds: {account}",
            part.name, part.beyond
        );
        self.next_at = now + LINE_MS;
    }

    /// Logs the most bytes that were held.
    pub(super) fn report_peak(&self, shard: u32, connections: &Connections) {
        let peak = connections.account().peak() >> 10;
        info!("shard {shard} stops: it held at most {peak} KiB for its clients");
    }
}

fn parts(limits: &Limits) -> [Part; 2] {
    [
        Part {
            name: "requests that are unfinished or not handled yet",
            kinds: &[Kind::Input],
            limit: limits.input_bytes,
            beyond: "large requests are received one at a time (queued.max.request.bytes)",
        },
        Part {
            name: "unread answers",
            kinds: &UNREAD,
            limit: limits.unread_bytes,
            beyond: "large answers wait, and clients that do not read are closed",
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn a_limit_is_near_from_four_fifths_on_and_logged_once_a_minute() {
        let mut connections = Connections::unthrottled(Limits::of(&Config::default()));
        let mut lines = AccountLines::new(100);
        let mut next_after = |now, connections: &Connections| {
            lines.warn(0, now, connections);
            lines.next_at
        };
        let limit = connections.limits().unread_bytes;
        connections.account.take(Kind::Answers, limit / 2);
        connections.account.take(Kind::Unsent, limit / 4);
        assert_eq!(next_after(100, &connections), 100, "three quarters");
        connections.account.take(Kind::Unsent, limit / 16);
        assert_eq!(next_after(100, &connections), 100 + LINE_MS);
        assert_eq!(next_after(99 + LINE_MS, &connections), 100 + LINE_MS);
        assert_eq!(next_after(100 + LINE_MS, &connections), 100 + 2 * LINE_MS);
    }
}
