//! The state of a run as OpenTelemetry metrics: the request for metrics of OTLP, in JSON.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::live::LiveState;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counters count from the start of the run.
const CUMULATIVE: u8 = 2;

/// The resource to which all metrics belong.
pub struct Resource {
    pub version: String,
    pub scenario: String,
    /// The value of `--label`.
    pub label: Option<String>,
    pub host: String,
    /// When the run began.
    pub began: SystemTime,
}

/// The body of a request to `/v1/metrics`.
pub fn metrics(state: &LiveState, resource: &Resource) -> String {
    let moment =
        Moment { start: nanos(resource.began), now: nanos(resource.began + state.elapsed) };
    let attributes = [
        Some(("service.name", "muster-load")),
        Some(("service.version", resource.version.as_str())),
        Some(("host.name", resource.host.as_str())),
        Some(("muster_load.scenario", resource.scenario.as_str())),
        resource.label.as_deref().map(|label| ("muster_load.label", label)),
    ];
    let attributes: Vec<_> = attributes.into_iter().flatten().collect();
    let scope = json!({"name": "muster-load", "version": resource.version});
    json!({"resourceMetrics": [{
        "resource": {"attributes": named(&attributes)},
        "scopeMetrics": [{"scope": scope, "metrics": all(state, moment)}],
    }]})
    .to_string()
}

/// Two times in nanoseconds since 1970: when the run started, and when the figures were read. They
/// are strings in the request, because JSON has no 64-bit integers.
#[derive(Clone, Copy)]
struct Moment {
    start: u64,
    now: u64,
}

fn nanos(time: SystemTime) -> u64 {
    let since: Duration = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn all(state: &LiveState, moment: Moment) -> Vec<Value> {
    let members = state.members.each();
    let members = members.map(|(_, name, count)| moment.point(count.into(), &[("state", name)]));
    let phase = [("phase", state.phase.name.as_str())];
    let rates =
        state.loads.iter().map(|load| moment.point(load.per_second, &[("request", &load.name)]));
    let times = state.loads.iter().flat_map(|load| {
        let at = |quantile, millis: f64| {
            moment.point(millis / 1e3, &[("request", &load.name), ("quantile", quantile)])
        };
        [at("0.5", load.p50), at("0.99", load.p99)]
    });
    let gauge = |name, unit, value: f64| gauge(name, unit, vec![moment.point(value, &[])]);
    let sum = |name, unit, value: u64| sum(name, unit, vec![moment.point(value as f64, &[])]);
    vec![
        self::gauge("phase", "1", vec![moment.point(state.phase.number.into(), &phase)]),
        self::gauge("members", "{member}", members.collect()),
        gauge("groups", "{group}", state.groups.into()),
        gauge("groups.stable", "{group}", state.groups_stable.into()),
        gauge("partitions.unowned", "{partition}", state.partitions_unowned.into()),
        gauge("requests.unanswered", "{request}", state.waiting as f64),
        gauge("requests.unanswered.oldest", "s", state.waiting_longest.as_secs_f64()),
        gauge("connections", "{connection}", state.connections.into()),
        sum("rebalances", "{rebalance}", state.rebalances),
        sum("errors", "{error}", state.errors),
        sum("violations", "{violation}", state.violations),
        self::gauge("requests.rate", "{request}/s", rates.collect()),
        self::gauge("requests.duration", "s", times.collect()),
    ]
}

fn gauge(name: &str, unit: &str, points: Vec<Value>) -> Value {
    let name = format!("muster_load.{name}");
    json!({"name": name, "unit": unit, "gauge": {"dataPoints": points}})
}

fn sum(name: &str, unit: &str, points: Vec<Value>) -> Value {
    let name = format!("muster_load.{name}");
    let sum = json!({
        "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true,
    });
    json!({"name": name, "unit": unit, "sum": sum})
}

impl Moment {
    fn point(self, value: f64, attributes: &[(&str, &str)]) -> Value {
        json!({
            "attributes": named(attributes),
            "startTimeUnixNano": self.start.to_string(),
            "timeUnixNano": self.now.to_string(),
            "asDouble": double(value),
        })
    }
}

/// A number as protobuf encodes it in JSON. JSON has no infinity and no NaN, so they are strings.
fn double(value: f64) -> Value {
    match value {
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        value if value.is_nan() => "NaN".into(),
        value => value.into(),
    }
}

fn named(attributes: &[(&str, &str)]) -> Vec<Value> {
    let attribute =
        |(key, value): &(&str, &str)| json!({"key": key, "value": {"stringValue": value}});
    attributes.iter().map(attribute).collect()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

    use super::*;
    use crate::member::State;
    use crate::report::live::{LiveLoad, MemberCounts};

    fn state(p99: f64) -> LiveState {
        let mut members = MemberCounts::default();
        members.add(State::Stable, 40);
        let commit = LiveLoad { name: "commit".into(), per_second: 8.0, p50: 1.5, p99 };
        let elapsed = Duration::from_millis(1_500);
        LiveState { elapsed, members, errors: 7, loads: vec![commit], ..LiveState::default() }
    }

    fn body() -> Value {
        body_of(&state(f64::INFINITY))
    }

    fn body_of(state: &LiveState) -> Value {
        let resource = Resource {
            version: "0.1.0".into(),
            scenario: "a \"b\"".into(),
            label: None,
            host: "here".into(),
            began: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        };
        serde_json::from_str(&metrics(state, &resource)).unwrap()
    }

    fn metric(name: &str) -> Value {
        let body = body();
        let all = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let found = all.as_array().unwrap().iter().find(|metric| metric["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}")).clone()
    }

    #[test]
    fn a_counter_counts_from_the_start_of_the_run() {
        let expected = json!({"name": "muster_load.errors", "unit": "{error}", "sum": {
            "aggregationTemporality": 2,
            "isMonotonic": true,
            "dataPoints": [{
                "attributes": [],
                "startTimeUnixNano": "1700000000000000000",
                "timeUnixNano": "1700000001500000000",
                "asDouble": 7.0,
            }],
        }});
        assert_eq!(metric("muster_load.errors"), expected);
    }

    #[test]
    fn members_have_their_state_as_an_attribute() {
        let members = metric("muster_load.members");
        let points = members["gauge"]["dataPoints"].as_array().unwrap();
        let stable = json!([{"key": "state", "value": {"stringValue": "stable"}}]);
        let point = points.iter().find(|point| point["attributes"] == stable).unwrap();
        assert_eq!(point["asDouble"], json!(40.0));
    }

    #[test]
    fn the_resource_names_the_scenario() {
        let attributes = body()["resourceMetrics"][0]["resource"]["attributes"].clone();
        let scenario = json!({"key": "muster_load.scenario", "value": {"stringValue": "a \"b\""}});
        assert!(attributes.as_array().unwrap().contains(&scenario), "{attributes}");
    }

    /// Whether `all` contains each value of `part` at the same place.
    fn includes(all: &Value, part: &Value) -> bool {
        match (all, part) {
            (Value::Object(all), Value::Object(part)) => part
                .iter()
                .all(|(key, value)| all.get(key).is_some_and(|known| includes(known, value))),
            (Value::Array(all), Value::Array(part)) => {
                all.len() == part.len() && all.iter().zip(part).all(|(a, b)| includes(a, b))
            }
            (all, part) => all == part,
        }
    }

    /// Reads the request with OpenTelemetry's own definitions, and writes it again. They ignore
    /// fields that they do not know, so a wrong field would be missing from what is written.
    #[test]
    fn the_definitions_of_opentelemetry_read_all_of_it() {
        let body = body_of(&state(9.5));
        let request: ExportMetricsServiceRequest = serde_json::from_value(body.clone()).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!(metrics.len(), 13);
        let again = serde_json::to_value(&request).unwrap();
        assert!(includes(&again, &body), "{body}\nis read as\n{again}");
    }

    /// JSON has no infinity. OTLP uses strings for values that are not numbers.
    #[test]
    fn each_value_is_a_number() {
        let times = metric("muster_load.requests.duration");
        for point in times["gauge"]["dataPoints"].as_array().unwrap() {
            assert!(point["asDouble"].is_number() || point["asDouble"] == "Infinity", "{point}");
        }
    }
}
