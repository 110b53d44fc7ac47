//! The time that requests take, by API and stage (Kafka's `RequestMetrics`), for a sample of the
//! requests: reading a clock for each request would cost some percent of a heartbeat.

use crate::clock::Stopwatch;
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

impl Timing {
    /// Notes that the shard has worked on the request, until a time of the stopwatch.
    pub(super) fn worked(&mut self, until: u64) {
        self.worked_until = Some(until);
    }
}

/// Measures a sample of the requests.
#[derive(Debug)]
pub(super) struct Meter {
    stopwatch: Stopwatch,
    timings: Timings,
    sampler: Sampler,
    /// The request that the shard works on, if it is measured.
    timed: Option<(RequestId, ApiKey)>,
}

impl Meter {
    pub(super) fn new(stopwatch: Stopwatch) -> Self {
        let (timings, sampler) = (Timings::default(), Sampler::default());
        Self { stopwatch, timings, sampler, timed: None }
    }

    pub(super) fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Decides whether to measure the requests in input that has arrived on a connection that had
    /// none. If so, returns the present time.
    pub(super) fn sample(&mut self) -> Option<u64> {
        self.sampler.takes_next().then(|| (self.stopwatch)())
    }

    /// Notes that a request begins. `arrived` is the time when its input arrived, if the input is
    /// measured. Then the measured times are returned, and are kept until the request is answered.
    pub(super) fn begin(
        &mut self,
        request: RequestId,
        api: ApiKey,
        arrived: Option<u64>,
    ) -> Option<Box<Timing>> {
        self.timed = None;
        let received = arrived?;
        self.timed = Some((request, api));
        let began = (self.stopwatch)();
        Some(Box::new(Timing { api, received, began, worked_until: None }))
    }

    /// Notes that the shard has worked on the request that began last, which has `bytes` bytes.
    /// Returns the request and the present time if the request is measured.
    #[inline]
    pub(super) fn worked(&mut self, bytes: usize) -> Option<(RequestId, u64)> {
        let (request, api) = self.timed.take()?;
        self.timings.size_bytes.of(api).record(bytes as u64);
        Some((request, (self.stopwatch)()))
    }

    /// Counts measured requests whose answers leave.
    pub(super) fn answered(&mut self, measured: &[Timing]) {
        let now = (self.stopwatch)();
        measured.iter().for_each(|timing| self.timings.answered(timing, now));
    }

    /// Counts a request whose client has exceeded a quota.
    pub(super) fn throttled(&mut self, api: ApiKey, delay_ms: i64) {
        let micros = delay_ms.max(0).unsigned_abs().saturating_mul(1_000);
        self.timings.throttle_micros.of(api).record(micros);
    }
}

/// Chooses the requests to measure, pseudo-randomly: a regular choice could coincide with a pattern
/// of the clients' requests.
#[derive(Debug)]
struct Sampler(u32);

impl Default for Sampler {
    fn default() -> Self {
        Self(0x9E37_79B9)
    }
}

impl Sampler {
    fn takes_next(&mut self) -> bool {
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
