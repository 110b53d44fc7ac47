//! The time that requests take, by API and stage (Kafka's `RequestMetrics`), for a sample of the
//! requests: reading a clock for each request would cost some percent of a heartbeat.

use super::connections::Connections;
use crate::net::ConnectionId;
use muster_codec::ApiKey;
use muster_coordinator::RequestId;
use muster_counters::{Histogram, Metric, Number, Value, Visitor, counters};

/// One in this number of pieces of input is measured, with all its requests.
const SAMPLED: u32 = 16;

counters! {
    /// The requests that were measured since the shard's start: about one in sixteen.
    pub struct Timings in "requests" {
        /// Measured requests, by the time from the arrival of their first bytes until they were
        /// begun.
        queue_micros: ByApi = Counter of Microseconds,
        /// Measured requests, by the time for which the shard worked on them before it did anything
        /// else.
        local_micros: ByApi = Counter of Microseconds,
        /// Measured requests, by the time from the end of this work until they were answered: they
        /// wait for the disk, other members, records or other shards.
        remote_micros: ByApi = Counter of Microseconds,
        /// Measured requests, by the time from their arrival until their answer was passed to the
        /// socket.
        total_micros: ByApi = Counter of Microseconds,
        /// Measured requests, by their bytes.
        size_bytes: ByApi = Counter of Bytes,
        /// All requests whose clients had exceeded a quota, by the time for which they are delayed.
        throttle_micros: ByApi = Counter of Microseconds,
    }
}

/// A histogram for each API that clients have used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByApi(Vec<Option<Box<Histogram>>>);

impl ByApi {
    fn of(&mut self, api: ApiKey) -> &mut Histogram {
        let place = api as usize;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place].get_or_insert_default()
    }
}

impl Number for ByApi {
    const LABELS: &'static [&'static str] = &["api"];
    const IS_HISTOGRAM: bool = true;

    fn add(&mut self, other: &Self) {
        for api in ApiKey::ALL {
            if let Some(Some(histogram)) = other.0.get(*api as usize) {
                self.of(*api).add(histogram);
            }
        }
    }

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>) {
        for api in ApiKey::ALL {
            if let Some(Some(histogram)) = self.0.get(*api as usize) {
                visitor(metric, &[("api", api.name())], Value::Histogram(histogram));
            }
        }
    }
}

/// A request that is measured, with times of the stopwatch.
#[derive(Debug)]
pub(super) struct Timing {
    api: ApiKey,
    received: u64,
    began: u64,
    worked_until: Option<u64>,
}

/// Chooses the requests to measure, pseudo-randomly: a regular choice could coincide with a pattern
/// of the clients' requests.
#[derive(Debug)]
pub(super) struct Sampler(u32);

impl Default for Sampler {
    fn default() -> Self {
        Self(0x9E37_79B9)
    }
}

impl Sampler {
    pub(super) fn takes_next(&mut self) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0.is_multiple_of(SAMPLED)
    }
}

impl Timings {
    /// Counts an answer that leaves, at a time of the stopwatch.
    fn answered(&mut self, timing: &Timing, now: u64) {
        let worked_until = timing.worked_until.unwrap_or(now);
        let mut record = |of: fn(&mut Self) -> &mut ByApi, from: u64, until: u64| {
            of(self).of(timing.api).record(until.saturating_sub(from) / 1_000);
        };
        record(|it| &mut it.queue_micros, timing.received, timing.began);
        record(|it| &mut it.local_micros, timing.began, worked_until);
        record(|it| &mut it.remote_micros, worked_until, now);
        record(|it| &mut it.total_micros, timing.received, now);
    }

    pub(super) fn throttled(&mut self, api: ApiKey, delay_ms: i64) {
        let micros = delay_ms.max(0).unsigned_abs().saturating_mul(1_000);
        self.throttle_micros.of(api).record(micros);
    }
}

impl Connections {
    /// Notes that input arrived on a connection without unhandled input: its requests may be
    /// measured.
    pub(super) fn sample_input(&mut self, id: ConnectionId) {
        let is_taken = self.sampler.takes_next();
        let received = is_taken.then(|| self.throttle.stopwatch());
        if let Some(connection) = self.get_mut(id) {
            connection.received = received;
        }
    }

    /// Measures a request that begins, if its input is sampled.
    pub(super) fn sample_request(&mut self, id: ConnectionId, sequence: u64, api: ApiKey) {
        self.timed = None;
        let Some(received) = self.get(id).and_then(|connection| connection.received) else {
            return;
        };
        let began = self.throttle.stopwatch();
        self.timed = Some((RequestId { connection: id.0, sequence }, api));
        if let Some(connection) = self.get_mut(id) {
            let timing = Timing { api, received, began, worked_until: None };
            connection.time(sequence, Box::new(timing));
        }
    }

    /// Notes that the shard has worked on the last request that has begun, which had this number of
    /// bytes.
    #[inline]
    pub(crate) fn worked(&mut self, bytes: usize) {
        if let Some((request, api)) = self.timed.take() {
            self.note_worked(request, api, bytes);
        }
    }

    fn note_worked(&mut self, request: RequestId, api: ApiKey, bytes: usize) {
        self.timings.size_bytes.of(api).record(bytes as u64);
        let now = self.throttle.stopwatch();
        let connection = self.get_mut(ConnectionId(request.connection));
        if let Some(timing) = connection.and_then(|it| it.timing(request.sequence)) {
            timing.worked_until = Some(now);
        }
    }

    /// Counts measured requests whose answers leave.
    pub(super) fn count_answered(&mut self, answered: &[Timing]) {
        let now = self.throttle.stopwatch();
        answered.iter().for_each(|timing| self.timings.answered(timing, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_in_sixteen_is_taken_and_no_pattern_escapes() {
        let mut sampler = Sampler::default();
        let taken: Vec<bool> = (0..16_000).map(|_| sampler.takes_next()).collect();
        assert!((900..1_100).contains(&taken.iter().filter(|it| **it).count()));
        for every in 2..20 {
            let of_client = taken.iter().step_by(every).filter(|it| **it).count();
            assert!(of_client * every > 700, "{of_client} of each {every}th");
        }
    }

    #[test]
    fn the_stages_add_up() {
        let mut timings = Timings::default();
        let timing = Timing {
            api: ApiKey::JoinGroup,
            received: 1_000_000,
            began: 3_000_000,
            worked_until: Some(3_500_000),
        };
        timings.answered(&timing, 9_000_000);
        let sums = [
            &mut timings.queue_micros,
            &mut timings.local_micros,
            &mut timings.remote_micros,
            &mut timings.total_micros,
        ]
        .map(|stage| stage.of(ApiKey::JoinGroup).sum());
        assert_eq!(sums, [2_000, 500, 5_500, 8_000]);
        let at_once = Timing { worked_until: None, ..timing };
        timings.answered(&at_once, 3_200_000);
        assert_eq!(timings.remote_micros.of(ApiKey::JoinGroup).sum(), 5_500);
        assert_eq!(timings.local_micros.of(ApiKey::JoinGroup).sum(), 700);
        let mut twice = timings.clone() + timings;
        assert_eq!(twice.total_micros.of(ApiKey::JoinGroup).count(), 4);
    }
}
