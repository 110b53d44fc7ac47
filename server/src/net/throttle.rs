//! Client quotas (Kafka's `ClientQuotaManager`, KIP-219): measures how much of them is used. Stops
//! serving a connection for a while if its client has exceeded a quota.
//!
//! A request is charged when it is answered. If its client has exceeded a quota, the answer has a
//! throttle time, and the connection is not served until this time is over. A throttled answer to
//! Fetch has no records, so the records that it would have had are not charged.

use super::charge::{Charge, Used};
use super::connection::{Connection, Throttled};
use super::table::Table;
use crate::clock::Stopwatch;
use crate::net::ConnectionId;
use crate::quotas::{Allowance, Limit, QuotaKey, Rates, Window};
use muster_codec::Response;
use muster_codec::messages::FetchResponse;
use muster_faults::Fault;
use muster_storage::FileRange;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The use of clients' quotas.
#[derive(Debug)]
pub(super) struct Throttle {
    rates: Rates,
    stopwatch: Stopwatch,
    now: i64,
    /// The connections that are not served, ordered by the time until which they wait. Some of them
    /// were closed since.
    waiting: BinaryHeap<Reverse<(i64, ConnectionId)>>,
}

/// The end of a connection's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnded {
    /// The connection is served again.
    Served(ConnectionId),
    /// The connection is to be closed.
    Close(ConnectionId),
}

/// The number of entries of `waiting` that may be kept although they no longer count: the
/// connection is closed, or has a later entry.
const WAITING_GONE_MAX: usize = 64;

/// The nanoseconds in one percent of a second. The use of a core's time is measured in such
/// percents.
const PERCENT_NANOS: f64 = 10_000_000.0;

impl Throttle {
    pub(super) fn new(window: Window, stopwatch: Stopwatch) -> Self {
        Self { rates: Rates::new(window), stopwatch, now: 0, waiting: BinaryHeap::new() }
    }

    pub(super) fn advance(&mut self, now: i64) {
        self.now = now;
    }

    pub(super) fn window(&self) -> Window {
        self.rates.window()
    }

    /// The charge of a request that the shard begins to work on now.
    pub(super) fn charge(&self, allowance: Arc<Allowance>, used: Used) -> Charge {
        Charge::new(allowance, used, (self.stopwatch)())
    }

    /// Notes that the shard works on a request again.
    pub(super) fn works_on(&self, charge: &mut Charge) {
        charge.work((self.stopwatch)());
    }

    /// Notes that the shard no longer works on a request: records the time since it began.
    pub(super) fn rests(&mut self, charge: &mut Charge) {
        let Some(began) = charge.rest() else { return };
        if let Some(limit) = charge.limit(QuotaKey::RequestPercentage) {
            let percent = (self.stopwatch)().saturating_sub(began) as f64 / PERCENT_NANOS;
            self.rates.record(QuotaKey::RequestPercentage, limit, percent, self.now);
        }
    }

    /// Ends the charge of an answered request. Returns how long its client has to wait, in ms. As
    /// in Kafka, the wait is at most one sample of the window for time, but may be of any length
    /// for bytes.
    pub(super) fn settle(
        &mut self,
        charge: &mut Charge,
        response: Option<&Response<'_>>,
        files: &[FileRange],
    ) -> i64 {
        self.rests(charge);
        let key = QuotaKey::RequestPercentage;
        let of_time = charge.limit(key).map_or(0, |limit| {
            self.rates.delay_ms(key, limit, self.now).min(self.window().sample_ms)
        });
        match (charge.used(), response) {
            (Used::Produced(bytes), _) => {
                let key = QuotaKey::ProducerByteRate;
                let of_bytes = charge.limit(key).map_or(0, |limit| self.add(key, limit, bytes));
                of_time.max(of_bytes)
            }
            (Used::Fetched, Some(Response::Fetch(body))) => {
                let limit = charge.limit(QuotaKey::ConsumerByteRate);
                limit
                    .map_or(of_time, |limit| self.fetch(limit, fetched_bytes(body, files), of_time))
            }
            (Used::Nothing | Used::Fetched, _) => of_time,
        }
    }

    /// Charges the bytes of an answer to Fetch. Returns how long the client has to wait, in ms: at
    /// least `at_least`, which another quota requires. If it has to wait, the bytes are not
    /// charged.
    fn fetch(&mut self, limit: &Limit, bytes: usize, at_least: i64) -> i64 {
        let key = QuotaKey::ConsumerByteRate;
        let delay = self.add(key, limit, bytes).max(at_least);
        if delay > 0 {
            self.rates.record(key, limit, -(bytes as f64), self.now);
        }
        delay
    }

    fn add(&mut self, key: QuotaKey, limit: &Limit, bytes: usize) -> i64 {
        self.rates.record(key, limit, bytes as f64, self.now);
        if Fault::Unlimited.is_injected() {
            return 0;
        }
        self.rates.delay_ms(key, limit, self.now)
    }

    /// Counts a new connection of an address. Returns 0 if the connection may stay. Otherwise it is
    /// not counted, and the result is how long it is held before it is closed, in ms.
    pub(super) fn admit_address(&mut self, limit: &Limit) -> i64 {
        let key = QuotaKey::ConnectionCreationRate;
        self.rates.record(key, limit, 1.0, self.now);
        let delay = self.rates.delay_ms(key, limit, self.now).min(self.window().sample_ms);
        if delay > 0 {
            self.rates.record(key, limit, -1.0, self.now);
        }
        delay
    }

    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// Does not serve a connection for some time, unless it waits for longer already.
    pub(super) fn hold(
        &mut self,
        table: &mut Table,
        id: ConnectionId,
        delay_ms: i64,
        throttled: fn(i64) -> Throttled,
    ) {
        let until = self.now + delay_ms;
        let Some(connection) = table.get_mut(id) else { return };
        if let Throttled::Until(before) | Throttled::Closed(before) = connection.throttled
            && before >= until
        {
            return;
        }
        connection.throttled = throttled(until);
        self.waiting.push(Reverse((until, id)));
        self.forget_waiting(table);
    }

    /// Removes the entries of `waiting` that no longer count, if they are too many. Otherwise they
    /// could stay for weeks, because a wait may be that long.
    fn forget_waiting(&mut self, table: &Table) {
        if self.waiting.len() <= 2 * table.len() + WAITING_GONE_MAX {
            return;
        }
        let waits_until = |connection: &Connection, until| match connection.throttled {
            Throttled::No => false,
            Throttled::Until(at) | Throttled::Closed(at) => at == until,
        };
        self.waiting.retain(|Reverse((until, id))| {
            table.get(*id).is_some_and(|connection| waits_until(connection, *until))
        });
    }

    /// The next wait that is over.
    pub(super) fn next_ended(&mut self, table: &mut Table) -> Option<WaitEnded> {
        while let Some(Reverse((until, _))) = self.waiting.peek()
            && *until <= self.now
            && let Some(Reverse((_, id))) = self.waiting.pop()
        {
            let Some(connection) = table.get_mut(id) else { continue };
            match connection.throttled {
                Throttled::Until(until) if until <= self.now => {
                    connection.throttled = Throttled::No;
                    return Some(WaitEnded::Served(id));
                }
                Throttled::Closed(until) if until <= self.now => return Some(WaitEnded::Close(id)),
                Throttled::No | Throttled::Until(_) | Throttled::Closed(_) => {}
            }
        }
        None
    }

    /// When the next wait is over.
    pub(super) fn deadline(&self) -> Option<i64> {
        self.waiting.peek().map(|Reverse((until, _))| *until)
    }
}

/// The approximate number of bytes of an answer to Fetch. Kafka counts the bytes of its encoding.
fn fetched_bytes(body: &FetchResponse<'_>, files: &[FileRange]) -> usize {
    const OF_PARTITION: usize = 40;
    let of_files: usize = files.iter().map(|range| range.len as usize).sum();
    let partitions = body.responses.iter().flat_map(|topic| &topic.partitions);
    let in_memory: usize = partitions
        .map(|it| OF_PARTITION + it.records.as_ref().map_or(0, |records| records.len()))
        .sum();
    of_files + in_memory
}

/// The answer with a throttle time, and without its records.
pub(super) fn throttled<'r>(response: &Response<'r>, delay_ms: i64) -> Response<'r> {
    let mut response = if let Response::Fetch(FetchResponse { session_id, .. }) = *response {
        FetchResponse { session_id, ..Default::default() }.into()
    } else {
        response.clone()
    };
    let delay_ms = i32::try_from(delay_ms).unwrap_or(i32::MAX);
    if let Some(throttle_time_ms) = response.throttle_time_ms() {
        *throttle_time_ms = delay_ms.max(*throttle_time_ms);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ListenerIndex};
    use crate::net::Limits;
    use crate::net::connections::Connections;
    use crate::quotas::{Bound, ClientQuotas, Entity, Name};
    use muster_codec::messages::{FetchableTopicResponse, PartitionData};
    use muster_codec::{ApiKey, Records};
    use muster_storage::FileKey;

    const FETCH: (ApiKey, i16) = (ApiKey::Fetch, 12);
    const FILE: FileKey = FileKey { log: 1, segment: 0 };

    fn fetched(len: u32) -> (Response<'static>, Vec<FileRange>) {
        let records = Some(Records::elsewhere(len));
        let partition = PartitionData { records, ..Default::default() };
        let topic = FetchableTopicResponse { partitions: vec![partition], ..Default::default() };
        let response =
            FetchResponse { responses: vec![topic], session_id: 7, ..Default::default() };
        (response.into(), vec![FileRange { file: FILE, offset: 0, len }])
    }

    fn allowance() -> Arc<Allowance> {
        let mut quotas = ClientQuotas::default();
        let all = Entity::User(Name::Default);
        quotas.set(all, QuotaKey::ConsumerByteRate, Some(Bound::from(1_000)));
        Arc::new(Allowance::new(&quotas, "alice", "app"))
    }

    #[test]
    fn a_throttled_answer_has_no_records_which_do_not_count() {
        let mut connections = Connections::unthrottled(Limits::of(&Config::default()));
        let id = ConnectionId::new(0, 1);
        connections.open(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
        let fetch = |connections: &mut Connections, len| {
            let request = connections.begin(id, FETCH.0, 1, FETCH.1);
            connections.charge(request, allowance(), Used::Fetched);
            let (response, files) = fetched(len);
            connections.answer_from_files(request, &response, &files)
        };
        assert!(fetch(&mut connections, 9_000));
        assert!(!connections.is_stalled(id));
        assert!(!fetch(&mut connections, 5_000), "its parts are to be released");
        assert!(connections.is_stalled(id));
        assert_eq!(connections.counters().requests_throttled, 1);
        assert_eq!(connections.get(id).unwrap().files(), [FILE], "of the first answer alone");
        connections.set_time(4_000);
        connections.end_throttling();
        assert!(connections.is_stalled(id), "some 4,080 ms are to be waited");
        connections.set_time(4_200);
        connections.end_throttling();
        assert!(!connections.is_stalled(id));
        assert!(fetch(&mut connections, 900), "the bytes that were not sent do not count");
    }

    #[test]
    fn closed_connections_do_not_wait() {
        let mut table = Table::default();
        let mut throttle = Throttle::new(Window::default(), || 0);
        for number in 0..1_000 {
            let id = ConnectionId::new(0, number);
            table.add(Connection::new(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0));
            let delay = 1_000_000 + i64::from(number);
            throttle.hold(&mut table, id, delay, Throttled::Until);
            throttle.hold(&mut table, id, 1_000_000_000, Throttled::Until);
            assert!(table.remove(id).is_some());
            assert!(throttle.waiting.len() <= WAITING_GONE_MAX + 2);
        }
    }

    #[test]
    fn a_throttled_answer_says_for_how_long() {
        let (response, _) = fetched(10);
        let Response::Fetch(body) = throttled(&response, 4_321) else { panic!() };
        assert_eq!((body.throttle_time_ms, body.session_id, body.responses.len()), (4_321, 7, 0));
    }
}
