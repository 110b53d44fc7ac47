//! Checks for each API whether a client has waited too long: since when its oldest request has made
//! no progress. A look is such a check of all connections. It checks some of them in each turn,
//! because there may be many. For each connection it compares the awaited request with that of the
//! previous look. So handling a request needs no extra work.

use super::connections::Connections;
use crate::net::ConnectionId;
use crate::stall::STALLED_MS;
use muster_codec::ApiKey;
use muster_coordinator::RequestId;
use std::collections::BTreeMap;

/// The number of entries of the table of connections, used or free, that are checked in one turn.
/// This takes about ten microseconds.
const LOOKED_AT_ONCE: usize = 1_024;

/// A look at all connections.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// The index of the next entry in the table of connections.
    next: usize,
    found: LookedAt,
}

/// The findings of a look at all connections.
#[derive(Debug, Default)]
pub(crate) struct LookedAt {
    /// The time since which the oldest request of an API has made no progress, if this is at least
    /// [`STALLED_MS`] ago.
    pub(crate) oldest: BTreeMap<ApiKey, i64>,
    /// Whether any client waits for something.
    pub(crate) is_awaited: bool,
}

impl Looks {
    /// Checks the next connections. Returns the findings once all connections are checked.
    /// `is_parked` returns whether a request waits for something other than the server.
    pub(super) fn look(
        &mut self,
        connections: &mut Connections,
        now: i64,
        is_parked: impl Fn(RequestId, ApiKey) -> bool,
    ) -> Option<LookedAt> {
        let Self { next, found } = self;
        let (part, after) = connections.part(*next, LOOKED_AT_ONCE);
        for connection in part {
            let Some(awaited) = connection.awaited() else {
                connection.stands_for_good_reason();
                continue;
            };
            found.is_awaited = true;
            let since = connection.stands_since(&awaited, now);
            if now - since < STALLED_MS {
                continue;
            }
            let ConnectionId(connection_id) = connection.id;
            let request = |sequence| RequestId { connection: connection_id, sequence };
            if awaited.sequence.is_some_and(|it| is_parked(request(it), awaited.api)) {
                connection.stands_for_good_reason();
            } else {
                let first = found.oldest.entry(awaited.api).or_insert(since);
                *first = since.min(*first);
            }
        }
        *next = after.unwrap_or(0);
        after.is_none().then(|| std::mem::take(found))
    }
}

#[cfg(test)]
mod tests {
    use super::super::durable::VisibleAt;
    use super::super::limits::Limits;
    use super::*;
    use crate::config::{Config, ListenerIndex};
    use muster_codec::messages::OffsetCommitResponse;
    use muster_storage::LogSlot;

    const SLOT: LogSlot = LogSlot::at(0);

    fn connections(count: u32) -> Connections {
        let mut connections = Connections::unthrottled(Limits::of(&Config::default()));
        for slot in 0..count {
            let host = "/10.0.0.1".into();
            connections.open(id(slot), ListenerIndex::FIRST, host, 0).unwrap();
        }
        connections
    }

    fn id(slot: u32) -> ConnectionId {
        ConnectionId::new(slot, 1)
    }

    /// The findings of one look at all connections. Requests of the API `JoinGroup` count as
    /// parked.
    fn found(connections: &mut Connections, now: i64) -> Vec<(ApiKey, i64)> {
        let mut looks = Looks::default();
        loop {
            if let Some(found) = looks.look(connections, now, |_, api| api == ApiKey::JoinGroup) {
                return found.oldest.into_iter().collect();
            }
        }
    }

    #[test]
    fn the_oldest_request_of_each_api_is_found_and_parked_ones_are_not() {
        let mut connections = connections(3_000);
        assert_eq!(found(&mut connections, 0), []);
        for (slot, api) in [(0, ApiKey::JoinGroup), (10, ApiKey::Fetch), (2_500, ApiKey::Produce)] {
            connections.begin(id(slot), api, 1, 4);
        }
        assert_eq!(found(&mut connections, 1_000), []);
        connections.begin(id(2_999), ApiKey::Produce, 1, 4);
        assert_eq!(found(&mut connections, 2_000), []);
        let both = [(ApiKey::Produce, 1_000), (ApiKey::Fetch, 1_000)];
        assert_eq!(found(&mut connections, 11_000), both);
        connections.close(id(2_500));
        let both = [(ApiKey::Produce, 2_000), (ApiKey::Fetch, 1_000)];
        assert_eq!(found(&mut connections, 12_000), both);
    }

    #[test]
    fn an_answer_that_waits_for_the_disk_stands_still_until_it_leaves() {
        let mut connections = connections(1);
        let api = ApiKey::OffsetCommit;
        let request = connections.begin(id(0), api, 1, 8);
        let response = OffsetCommitResponse::default().into();
        connections.answer(request, &response, VisibleAt::position(SLOT, 1));
        assert_eq!(found(&mut connections, 1_000), []);
        assert_eq!(found(&mut connections, 20_000), [(api, 1_000)]);
        assert_eq!(connections.answered(api), 0);
        connections.flushed(SLOT, 1);
        assert_eq!(found(&mut connections, 21_000), []);
        assert_eq!(connections.answered(api), 1);
    }
}
