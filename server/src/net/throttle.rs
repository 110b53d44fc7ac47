//! Client quotas (Kafka's `ClientQuotaManager`, KIP-219): measures how much of them is used. Stops
//! serving a connection for a while if its client has exceeded a quota.
//!
//! A request is charged when it is answered. If its client has exceeded a quota, the answer has a
//! throttle time, and the connection is not served until this time is over. A throttled answer to
//! Fetch has no records, so the records that it would have had are not charged.

use super::connections::Connections;
use super::durable::VisibleAt;
use crate::clock::Stopwatch;
use crate::net::ConnectionId;
use crate::quotas::{Allowance, Limit, QuotaKey, Rates, Window};
use muster_codec::Response;
use muster_codec::messages::FetchResponse;
use muster_coordinator::RequestId;
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

/// The reason why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Throttled {
    #[default]
    No,
    /// The connection is not served until this time.
    Until(i64),
    /// The connection is closed at this time, because its address has opened too many connections.
    Closed(i64),
    /// The connection is not served until its listener admits it.
    AtDoor,
}

/// A request's use of its client's quotas.
#[derive(Debug)]
pub(super) struct Charge {
    allowance: Arc<Allowance>,
    used: Used,
    /// When the shard began to work on the request, by the stopwatch; None while the request waits.
    began: Option<u64>,
}

/// Bytes that a request uses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Used {
    Nothing,
    /// Bytes of a request with records.
    Produced(usize),
    /// The bytes of the answer.
    Fetched,
}

/// The number of waits that may be kept although they no longer count, because their connections
/// are closed or a later wait has replaced them.
const WAITING_GONE_MAX: usize = 64;

/// The nanoseconds in one percent of a second. The use of a core's time is measured in such
/// percents.
const PERCENT_NANOS: f64 = 10_000_000.0;

impl Throttle {
    pub(super) fn new(window: Window, stopwatch: Stopwatch) -> Self {
        Self { rates: Rates::new(window), stopwatch, now: 0, waiting: BinaryHeap::new() }
    }

    /// A reading of the stopwatch, in nanoseconds.
    pub(super) fn stopwatch(&self) -> u64 {
        (self.stopwatch)()
    }

    pub(super) fn advance(&mut self, now: i64) {
        self.now = now;
    }

    pub(super) fn window(&self) -> Window {
        self.rates.window()
    }

    /// Records the time since the shard began to work on a request.
    fn record_time(&mut self, charge: &mut Charge) {
        let Some(began) = charge.began.take() else { return };
        if let Some(limit) = charge.allowance.limit(QuotaKey::RequestPercentage) {
            let percent = (self.stopwatch)().saturating_sub(began) as f64 / PERCENT_NANOS;
            self.rates.record(QuotaKey::RequestPercentage, limit, percent, self.now);
        }
    }

    /// How long a client has to wait after this answer, in ms. As in Kafka, the wait for used time
    /// is at most one sample long, and the wait for bytes has no maximum.
    fn settle(
        &mut self,
        charge: &mut Charge,
        response: Option<&Response<'_>>,
        files: &[FileRange],
    ) -> i64 {
        self.record_time(charge);
        let (allowance, key) = (&charge.allowance, QuotaKey::RequestPercentage);
        let of_time = allowance.limit(key).map_or(0, |limit| {
            self.rates.delay_ms(key, limit, self.now).min(self.window().sample_ms)
        });
        match (charge.used, response) {
            (Used::Produced(bytes), _) => {
                let key = QuotaKey::ProducerByteRate;
                let of_bytes = allowance.limit(key).map_or(0, |limit| self.add(key, limit, bytes));
                of_time.max(of_bytes)
            }
            (Used::Fetched, Some(Response::Fetch(body))) => {
                let limit = allowance.limit(QuotaKey::ConsumerByteRate);
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
fn throttled<'r>(response: &Response<'r>, delay_ms: i64) -> Response<'r> {
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

impl Connections {
    /// Charges a request to its client when it is answered.
    pub(super) fn charge(&mut self, request: RequestId, allowance: Arc<Allowance>, used: Used) {
        let charge = Charge { allowance, used, began: Some((self.throttle.stopwatch)()) };
        if let Some(connection) = self.get_mut(ConnectionId(request.connection)) {
            connection.charge(request.sequence, Box::new(charge));
        }
    }

    /// Notes that the shard works on a request again.
    pub(crate) fn works_on(&mut self, request: RequestId) {
        self.with_charge(request, |throttle, charge| charge.began = Some((throttle.stopwatch)()));
    }

    /// Notes that the shard no longer works on a request, which waits.
    pub(crate) fn rests(&mut self, request: RequestId) {
        self.with_charge(request, Throttle::record_time);
    }

    fn with_charge(&mut self, request: RequestId, act: impl FnOnce(&mut Throttle, &mut Charge)) {
        let id = ConnectionId(request.connection);
        let Some(connection) = self.get_mut(id) else { return };
        let Some(mut charge) = connection.take_charge(request.sequence) else { return };
        act(&mut self.throttle, &mut charge);
        if let Some(connection) = self.get_mut(id) {
            connection.charge(request.sequence, charge);
        }
    }

    /// The throttled answer, if the client has exceeded a quota; None if the answer stays as it is.
    /// `response` is None for a request without an answer.
    pub(super) fn settled<'r>(
        &mut self,
        request: RequestId,
        response: Option<&Response<'r>>,
        files: &[FileRange],
    ) -> Option<Response<'r>> {
        let id = ConnectionId(request.connection);
        let mut charge = self.get_mut(id)?.take_charge(request.sequence)?;
        let delay = self.throttle.settle(&mut charge, response, files);
        if delay == 0 {
            return None;
        }
        self.throttle(id, delay);
        let api = response.map(|response| response.api_key());
        api.into_iter().for_each(|api| self.timings.throttled(api, delay));
        response.map(|response| throttled(response, delay))
    }

    /// Stops serving a connection for some time.
    pub(crate) fn throttle(&mut self, id: ConnectionId, delay_ms: i64) {
        self.counters.requests_throttled += 1;
        if Fault::Unmuted.is_injected() {
            return;
        }
        self.hold_until(id, delay_ms, Throttled::Until);
    }

    pub(super) fn hold_until(
        &mut self,
        id: ConnectionId,
        delay_ms: i64,
        throttled: fn(i64) -> Throttled,
    ) {
        let until = self.throttle.now + delay_ms;
        let Some(connection) = self.get_mut(id) else { return };
        if let Throttled::Until(before) | Throttled::Closed(before) = connection.throttled
            && before >= until
        {
            return;
        }
        connection.throttled = throttled(until);
        self.throttle.waiting.push(Reverse((until, id)));
        self.forget_waiting();
    }

    /// Forgets the waits of closed connections when these waits outnumber the others. A wait may
    /// last for weeks.
    fn forget_waiting(&mut self) {
        if self.throttle.waiting.len() <= 2 * self.len() + WAITING_GONE_MAX {
            return;
        }
        let mut waiting = std::mem::take(&mut self.throttle.waiting);
        waiting.retain(|Reverse((until, id))| {
            self.get(*id).is_some_and(|connection| match connection.throttled {
                Throttled::No | Throttled::AtDoor => false,
                Throttled::Until(at) | Throttled::Closed(at) => at == *until,
            })
        });
        self.throttle.waiting = waiting;
    }

    /// Serves connections again whose throttle time is over. Returns the connections that are to be
    /// closed.
    pub(super) fn end_throttling(&mut self) -> Vec<ConnectionId> {
        let (now, mut to_close) = (self.throttle.now, Vec::new());
        while let Some(Reverse((until, _))) = self.throttle.waiting.peek()
            && *until <= now
            && let Some(Reverse((_, id))) = self.throttle.waiting.pop()
        {
            let Some(connection) = self.get_mut(id) else { continue };
            match connection.throttled {
                Throttled::Until(until) if until <= now => {
                    connection.throttled = Throttled::No;
                    self.mark_dirty(id);
                }
                Throttled::Closed(until) if until <= now => to_close.push(id),
                Throttled::No | Throttled::Until(_) | Throttled::Closed(_) | Throttled::AtDoor => {}
            }
        }
        to_close
    }

    /// Takes an answer of the controller, and applies its throttle time to the connection.
    pub(crate) fn answer_of_controller(&mut self, request: RequestId, response: &mut Response<'_>) {
        let delay = response.throttle_time_ms().map_or(0, |ms| *ms);
        if delay > 0 {
            self.throttle(ConnectionId(request.connection), i64::from(delay));
        }
        self.answer(request, response, VisibleAt::Now);
    }
}

#[cfg(test)]
impl Connections {
    /// Connections of clients without quotas.
    pub(super) fn unthrottled(limits: super::Limits) -> Self {
        Self::new(limits, Throttle::new(Window::default(), || 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::ListenerIndex;
    use crate::net::Limits;
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
        assert_eq!(connections.counters.requests_throttled, 1);
        assert_eq!(connections.get(id).unwrap().files(), [FILE], "of the first answer alone");
        connections.throttle.advance(4_000);
        connections.end_throttling();
        assert!(connections.is_stalled(id), "some 4,080 ms are to be waited");
        connections.throttle.advance(4_200);
        connections.end_throttling();
        assert!(!connections.is_stalled(id));
        assert!(fetch(&mut connections, 900), "the bytes that were not sent do not count");
    }

    #[test]
    fn closed_connections_do_not_wait() {
        let mut connections = Connections::unthrottled(Limits::of(&Config::default()));
        for number in 0..1_000 {
            let id = ConnectionId::new(0, number);
            connections.open(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
            connections.throttle(id, 1_000_000 + i64::from(number));
            connections.throttle(id, 1_000_000_000);
            connections.close(id);
            assert!(connections.throttle.waiting.len() <= WAITING_GONE_MAX + 2);
        }
    }

    #[test]
    fn a_throttled_answer_says_for_how_long() {
        let (response, _) = fetched(10);
        let Response::Fetch(body) = throttled(&response, 4_321) else { panic!() };
        assert_eq!((body.throttle_time_ms, body.session_id, body.responses.len()), (4_321, 7, 0));
    }
}
