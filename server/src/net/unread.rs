//! Limits the bytes of answers that clients have not read, for all connections together.
//!
//! While these exceed the budget, a connection with unread answers is not served until its client
//! has read them, and requests that may have large answers wait. Among the clients that do not
//! read, the one with the most unread bytes is closed.

use super::account::{Account, Kind, UNREAD};
use super::connection::Connection;
use super::table::Table;
use crate::net::ConnectionId;

/// Two times in ms: how long a client may read nothing while the budget is exceeded, and how long
/// the budget may be exceeded until even a client that reads slowly may be closed.
const SILENCE_MS: i64 = 10_000;
const PATIENCE_MS: i64 = 60_000;

/// Whether the budget of unread answers, `max`, is exceeded.
#[inline]
pub(super) fn is_full(account: &Account, max: usize) -> bool {
    account.held_of(&UNREAD) > max
}

/// Counts the answers that a connection holds now.
#[inline]
pub(super) fn count(connection: &mut Connection, account: &mut Account) {
    let (before, now) = connection.count_answers();
    for (kind, before, now) in [(Kind::Answers, before.0, now.0), (Kind::Unsent, before.1, now.1)] {
        if before != now {
            account.release(kind, before);
            account.take(kind, now);
        }
    }
}

/// Releases the answers of a closed connection.
pub(super) fn closed(connection: &Connection, account: &mut Account) {
    let (waiting, unsent) = connection.counted_answers();
    account.release(Kind::Answers, waiting);
    account.release(Kind::Unsent, unsent);
}

/// The clients that do not read while the budget is exceeded.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// The time since which unread answers have exceeded their budget.
    full_since: Option<i64>,
}

impl Unread {
    /// Notes since when the budget `max` has been exceeded. Returns a connection that has to be
    /// closed because its client has not read in time, and the reason.
    pub(super) fn overdue(
        &mut self,
        table: &Table,
        account: &Account,
        max: usize,
        now: i64,
    ) -> Option<(ConnectionId, String)> {
        if !is_full(account, max) {
            self.full_since = None;
            return None;
        }
        let since = *self.full_since.get_or_insert(now);
        if now < since + SILENCE_MS {
            return None;
        }
        let silent_since =
            |it: &Connection| it.output.last_taken.max(it.input.last_active).max(since);
        let may_close =
            |it: &&Connection| now >= silent_since(it) + SILENCE_MS || now >= since + PATIENCE_MS;
        let unsent = |it: &Connection| it.counted_answers().1;
        let most = table.iter().filter(may_close).max_by_key(|it| unsent(it));
        let most = most.filter(|it| unsent(it) > 0)?;
        self.full_since = Some(now - SILENCE_MS);
        let bytes = unsent(most);
        let words = format!(
            "it has not read {bytes} bytes of answers, while unread answers exceed the {max} bytes \
             that they may take"
        );
        Some((most.id, words))
    }

    /// The time when [`Self::overdue`] has to be called next.
    pub(super) fn deadline(&self, now: i64) -> Option<i64> {
        let since = self.full_since?;
        Some((since + SILENCE_MS).max(now + 1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::super::VisibleAt;
    use super::*;
    use crate::config::{Config, ListenerIndex};
    use crate::net::Limits;
    use crate::net::connections::Connections;
    use crate::placement::Slot;
    use muster_codec::ApiKey;
    use muster_codec::messages::FindCoordinatorResponse;

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 0)
    }

    fn connections() -> Connections {
        let mut connections = Connections::unthrottled(Limits {
            connections: 10,
            connections_per_ip: 10,
            requests_in_flight: 10,
            output_bytes: 1 << 20,
            input_bytes: 1,
            unread_bytes: 10_000,
            ..Limits::of(&Config::default())
        });
        for slot in 0..3 {
            connections.open(id(slot), ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
        }
        connections
    }

    fn answer(connections: &mut Connections, slot: u32, bytes: usize, visible_at: u64) {
        let request = connections.begin(id(slot), ApiKey::FindCoordinator, 1, 0);
        let host = "h".repeat(bytes).into();
        let response = FindCoordinatorResponse { host, ..Default::default() }.into();
        let visible_at = VisibleAt::position(Slot(0).log_slot(), visible_at);
        connections.answer(request, &response, visible_at);
    }

    fn take_all(connections: &mut Connections, slot: u32, now: i64) {
        connections.get_mut(id(slot)).unwrap().output.take();
        connections.taken(id(slot), now);
        connections.sent(id(slot), 0);
    }

    fn held(connections: &Connections) -> (usize, usize) {
        let account = connections.account();
        (account.held(Kind::Answers), account.held(Kind::Unsent))
    }

    #[test]
    fn answers_are_counted_until_they_are_taken() {
        let mut connections = connections();
        answer(&mut connections, 0, 1_000, 0);
        answer(&mut connections, 1, 500, 7);
        let head = 4 + 4 + 2 + 4 + 2 + 4;
        assert_eq!(held(&connections), (500 + head, 1_000 + head));
        connections.flushed(Slot(0).log_slot(), 7);
        assert_eq!(held(&connections), (0, 1_500 + 2 * head));
        take_all(&mut connections, 0, 0);
        assert_eq!(held(&connections), (0, 500 + head));
        assert!(connections.close(id(1)).is_some());
        assert_eq!(connections.account().total(), 0);
    }

    #[test]
    fn over_the_budget_only_connections_without_unread_answers_are_served() {
        let mut connections = connections();
        answer(&mut connections, 0, 9_000, 0);
        assert!(!connections.is_stalled(id(0)), "within the budget");
        answer(&mut connections, 1, 2_000, 0);
        assert!(connections.is_unread_full());
        assert!(connections.is_stalled(id(0)) && connections.is_stalled(id(1)));
        assert!(!connections.is_stalled(id(2)));
        take_all(&mut connections, 1, 0);
        assert!(!connections.is_unread_full() && !connections.is_stalled(id(0)));
    }

    #[test]
    fn the_connection_with_most_unread_bytes_is_closed() {
        let mut connections = connections();
        for (slot, bytes) in [(0, 3_000), (1, 4_000), (2, 5_000)] {
            answer(&mut connections, slot, bytes, 0);
        }
        assert_eq!(connections.overdue_reader(1_000), None);
        connections.taken(id(2), 5_000);
        assert_eq!(connections.overdue_reader(1_000 + SILENCE_MS - 1), None);
        let (overdue, reason) = connections.overdue_reader(1_000 + SILENCE_MS).unwrap();
        assert_eq!(overdue, id(1), "the third still reads");
        assert!(reason.starts_with("it has not read 4020 bytes of answers"), "{reason}");
        assert!(connections.close(overdue).is_some());
        assert_eq!(connections.overdue_reader(1_001 + SILENCE_MS), None, "within the budget again");
    }
}
