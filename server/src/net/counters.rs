//! The metrics of a shard's clients.

use super::account::ByKind;
use muster_codec::{ApiKey, ErrorCode, Response};
use muster_counters::{Metric, Number, Value, Visitor, counters};
use std::collections::BTreeMap;

counters! {
    /// Connections and requests since the shard's start.
    pub struct ClientCounters in "clients" {
        /// Connections that were opened.
        connections_opened: u64 = Counter of Count,
        /// Connections that were closed, by either side.
        connections_closed: u64 = Counter of Count,
        /// Connections that a limit refused, or that came during a stop.
        connections_refused: u64 = Counter of Count,
        /// Connections that were closed because they were idle: connections.max.idle.ms.
        connections_idle_closed: u64 = Counter of Count,
        /// Successful authentications of clients, including repeated ones.
        authentications: u64 = Counter of Count,
        /// Failed authentications.
        authentications_failed: u64 = Counter of Count,
        /// Requests that were denied, as a whole or in part.
        requests_denied: u64 = Counter of Count,
        /// Requests whose clients had exceeded a quota.
        requests_throttled: u64 = Counter of Count,
        /// Requests that were begun.
        requests: Requests = Counter of Count,
        /// Error codes in answers, including those for parts of a request.
        errors: Errors = Counter of Count,
        /// Bytes received from clients.
        received_bytes: u64 = Counter of Bytes,
        /// Bytes of answers that were passed to sockets.
        sent_bytes: u64 = Counter of Bytes,
    }
}

counters! {
    /// Bytes and requests that are held for clients now.
    pub struct ClientGauges in "clients" {
        /// Open connections.
        connections: u64 = Gauge of Count,
        /// Connections with requests that wait for their turn.
        waiting: u64 = Gauge of Count,
        /// Answers that wait for a flush.
        answers_waiting: u64 = Gauge of Count,
        /// Bytes of requests that are incomplete or not handled yet.
        input_bytes: u64 = Gauge of Bytes,
        /// Bytes of answers that clients have not read.
        unread_bytes: u64 = Gauge of Bytes,
        /// Bytes that the shard holds for clients.
        held_bytes: u64 = Gauge of Bytes,
        /// The most bytes that the shard held for clients.
        held_bytes_peak: u64 = Gauge of Bytes,
        /// Bytes that the shard holds for clients, by purpose.
        held_by_kind_bytes: ByKind = Gauge of Bytes,
    }
}

/// The number of API keys from 0 to the highest one.
const KEYS: usize = ApiKey::ALL[ApiKey::ALL.len() - 1] as usize + 1;

/// The number of versions of an API that are counted separately. The last counter also counts all
/// higher versions.
const VERSIONS: usize = 24;

/// The number of requests by API and version. Only APIs and versions that occurred are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests(Box<[[u64; VERSIONS]; KEYS]>);

impl Default for Requests {
    fn default() -> Self {
        Self(Box::new([[0; VERSIONS]; KEYS]))
    }
}

impl Requests {
    pub(super) fn count(&mut self, api: ApiKey, version: i16) {
        let version = usize::from(version.unsigned_abs()).min(VERSIONS - 1);
        self.0[api as usize][version] += 1;
    }
}

impl Number for Requests {
    const LABELS: &'static [&'static str] = &["api", "version"];

    fn add(&mut self, other: &Self) {
        let (own, others) = (self.0.iter_mut().flatten(), other.0.iter().flatten());
        own.zip(others).for_each(|(own, count)| *own += count);
    }

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>) {
        for api in ApiKey::ALL {
            let versions = self.0[*api as usize].iter().enumerate();
            for (version, count) in versions.filter(|(_, count)| **count > 0) {
                let labels = [("api", api.name()), ("version", &*version.to_string())];
                visitor(metric, &labels, Value::Number(*count));
            }
        }
    }
}

/// The number of finished requests of each API: their answers were sent, or they need none. A
/// number may wrap around.
#[derive(Debug)]
pub(super) struct Answered(Box<[u32; KEYS]>);

impl Default for Answered {
    fn default() -> Self {
        Self(Box::new([0; KEYS]))
    }
}

impl Answered {
    pub(super) fn count(&mut self, api: ApiKey) {
        let count = &mut self.0[api as usize];
        *count = count.wrapping_add(1);
    }

    pub(super) fn of(&self, api: ApiKey) -> u32 {
        self.0[api as usize]
    }
}

/// The number of answers by API and error code. Combinations that have not occurred are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors(BTreeMap<(ApiKey, i16), u64>);

impl Errors {
    pub(super) fn count(&mut self, response: &Response<'_>) {
        let api = response.api_key();
        response.errors(&mut |code| *self.0.entry((api, code)).or_default() += 1);
    }
}

impl Number for Errors {
    const LABELS: &'static [&'static str] = &["api", "error"];

    fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(key, count)| *self.0.entry(*key).or_default() += count);
    }

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>) {
        for ((api, code), count) in &self.0 {
            let labels = [("api", api.name()), ("error", &kafkas_name(*code))];
            visitor(metric, &labels, Value::Number(*count));
        }
    }
}

/// The name of an error in Kafka's documentation: `NOT_COORDINATOR`.
fn kafkas_name(code: i16) -> String {
    let Some(error) = ErrorCode::from_code(code) else { return code.to_string() };
    let mut name = String::new();
    for letter in format!("{error:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::messages::{FetchResponse, HeartbeatResponse};
    use muster_counters::Totals;

    #[test]
    fn requests_and_errors_are_counted_by_api() {
        let mut counters = ClientCounters::default();
        let requests = [ApiKey::Fetch, ApiKey::Heartbeat, ApiKey::Fetch];
        requests.into_iter().zip([4, 4, 5]).for_each(|(api, it)| counters.requests.count(api, it));
        for error_code in [0, 16, 16, 999] {
            let response = HeartbeatResponse { error_code, ..Default::default() };
            counters.errors.count(&response.into());
        }
        counters.errors.count(&FetchResponse { error_code: -1, ..Default::default() }.into());
        let mut totals = Totals::default();
        totals.count(&counters);
        assert_eq!(
            totals.to_string(),
            "clients_errors{api=\"Fetch\",error=\"UNKNOWN_SERVER_ERROR\"} 1, \
             clients_errors{api=\"Heartbeat\",error=\"999\"} 1, \
             clients_errors{api=\"Heartbeat\",error=\"NOT_COORDINATOR\"} 2, \
             clients_requests{api=\"Fetch\",version=\"4\"} 1, \
             clients_requests{api=\"Fetch\",version=\"5\"} 1, \
             clients_requests{api=\"Heartbeat\",version=\"4\"} 1"
        );
        let twice = counters.clone() + counters;
        let count = |it: &ClientCounters| it.errors.0.values().sum::<u64>();
        assert_eq!((twice.requests.0[12][4], count(&twice)), (2, 8));
    }
}
