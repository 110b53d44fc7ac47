//! Kafka's metrics, under the names that Prometheus' JMX exporter usually gives them: the names of
//! the MBean and of the attribute, joined, in lower case. The values are sums over all shards, as
//! if the process were one broker.

/// Adds the beginning to the name of a gauge about classic groups. The macro `coordinator` does so
/// for other attributes of the group coordinator.
macro_rules! classic {
    ($end:literal) => {
        concat!("kafka_coordinator_group_groupmetadatamanager_", $end)
    };
}
macro_rules! coordinator {
    ($end:literal) => {
        concat!("kafka_server_group_coordinator_metrics_", $end)
    };
}

// This is here because the macros must be defined before the module that uses them.
mod rows;

use super::family::{Families, Labels, Type};
use super::sums::{Amount, Recent};
use muster_codec::ApiKey;
use rows::ROWS;

/// A Kafka meter: a total, and its rate in 1/s.
pub(super) struct Meter {
    /// The name of the metric without `_count` and `_rate`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// The counter of the shards whose sum is the total. None if the meter is always 0.
    pub(super) number: Option<&'static str>,
}

const fn meter(name: &'static str, help: &'static str, number: Option<&'static str>) -> Meter {
    Meter { name, help, number }
}

pub(super) const METERS: &[Meter] = &[
    meter(
        coordinator!("consumer_group_rebalance"),
        "New epochs of consumer groups for a changed subscription or changed topics",
        Some("groups_consumer_rebalances"),
    ),
    meter(
        coordinator!("group_completed_rebalance"),
        "Rebalances of classic groups that ended with an assignment",
        Some("groups_classic_rebalances"),
    ),
    meter(coordinator!("offset_commit"), "Committed offsets", Some("groups_offsets_committed")),
    meter(
        coordinator!("offset_deletion"),
        "Offsets that a client deleted",
        Some("groups_offsets_deleted"),
    ),
    meter(
        coordinator!("offset_expiration"),
        "Offsets whose retention has ended",
        Some("groups_offsets_expired"),
    ),
    meter(
        coordinator!("share_group_rebalance"),
        "New epochs of share groups for a changed subscription or changed topics",
        Some("groups_share_rebalances"),
    ),
    meter(
        coordinator!("streams_group_rebalance"),
        "New epochs of streams groups for a changed subscription or changed topics",
        Some("groups_streams_rebalances"),
    ),
];

/// Quantiles of a time, in ms, over the last 30 to 60 s.
pub(super) struct Time {
    /// The name of the metric without the quantile.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// The shards' histogram, in microseconds.
    pub(super) histogram: &'static str,
    /// Whether only requests to group coordinators ([`OF_GROUPS`]) are measured.
    pub(super) is_of_groups: bool,
}

pub(super) const TIMES: &[Time] = &[
    Time {
        name: coordinator!("batch_flush_time_ms"),
        help: "Time until a flush was durable",
        histogram: "log_flush_micros",
        is_of_groups: false,
    },
    Time {
        name: coordinator!("batch_linger_time_ms"),
        help: "Time for which the first operation of a flush waited",
        histogram: "log_linger_micros",
        is_of_groups: false,
    },
    Time {
        name: coordinator!("event_processing_time_ms"),
        help: "Time of the work on a request of groups",
        histogram: "requests_local_micros",
        is_of_groups: true,
    },
    Time {
        name: coordinator!("event_purgatory_time_ms"),
        help: "Time until the records of a request of groups were durable",
        histogram: "requests_remote_micros",
        is_of_groups: true,
    },
    Time {
        name: coordinator!("event_queue_time_ms"),
        help: "Time until a request of groups was begun",
        histogram: "requests_queue_micros",
        is_of_groups: true,
    },
];

/// The name suffixes of [`TIMES`].
pub(super) const QUANTILES: &[(&str, f64)] =
    &[("max", 1.0), ("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// The requests that are measured for the times of group coordinators: heartbeats, departures and
/// offsets of classic and consumer groups. JoinGroup and SyncGroup are left out, because their
/// answers wait for other members and would distort the times. Requests of share and streams groups
/// are also left out, and so are those that describe, list or delete groups.
const OF_GROUPS: &[ApiKey] = &[
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::ConsumerGroupHeartbeat,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::OffsetDelete,
    ApiKey::TxnOffsetCommit,
];

/// The stages of a request (Kafka's `RequestMetrics`): name, help, histogram, and the divisor of
/// its values.
pub(super) const STAGES: &[(&str, &str, &str, f64)] = &[
    (
        "kafka_network_requestmetrics_totaltimems",
        "The time from the arrival of a request until its answer left, in ms.",
        "requests_total_micros",
        1_000.0,
    ),
    (
        "kafka_network_requestmetrics_requestqueuetimems",
        "The time until a request was begun, in ms.",
        "requests_queue_micros",
        1_000.0,
    ),
    (
        "kafka_network_requestmetrics_localtimems",
        "The time of the work on a request, in ms.",
        "requests_local_micros",
        1_000.0,
    ),
    (
        "kafka_network_requestmetrics_remotetimems",
        "The time for which a request then waited: for the disk, members, records, in ms.",
        "requests_remote_micros",
        1_000.0,
    ),
    (
        "kafka_network_requestmetrics_throttletimems",
        "The time for which a client that has exceeded a quota is delayed, in ms.",
        "requests_throttle_micros",
        1_000.0,
    ),
    (
        "kafka_network_requestmetrics_requestbytes",
        "The bytes of a request.",
        "requests_size_bytes",
        1.0,
    ),
];

/// The quantiles shown of each stage.
const STAGE_QUANTILES: &[&str] = &["0.5", "0.75", "0.95", "0.98", "0.99", "0.999"];

pub(super) const REQUESTS: (&str, &str) =
    ("kafka_network_requestmetrics_requests", "Requests, by API and version.");
pub(super) const ERRORS: (&str, &str) =
    ("kafka_network_requestmetrics_errors", "Error codes in answers, by API; no successes.");

/// Adds all Kafka metrics.
pub(super) fn add(families: &mut Families, recent: &Recent<'_>) {
    for row in ROWS {
        let labels = row.labels.iter().map(|(label, value)| (*label, (*value).to_owned()));
        let family = families.family(row.name, row.help, row.of_type);
        family.add(labels.collect(), (row.value)(recent));
    }
    for meter in METERS {
        add_meter(families, recent, meter);
    }
    for time in TIMES {
        add_time(families, recent, time);
    }
    add_requests(families, recent);
}

fn add_meter(families: &mut Families, recent: &Recent<'_>, meter: &Meter) {
    let Meter { name, help, number } = meter;
    let total = number.map_or(0.0, |number| recent.now.number(number));
    let rate = number.map_or(0.0, |number| recent.rate(number));
    let family = families.family(&format!("{name}_count"), &format!("{help}."), Type::Unknown);
    family.add(Labels::new(), total);
    let help = format!("{help}, in a second.");
    families.family(&format!("{name}_rate"), &help, Type::Unknown).add(Labels::new(), rate);
}

fn add_time(families: &mut Families, recent: &Recent<'_>, time: &Time) {
    let wanted = |api: &str| OF_GROUPS.iter().any(|it| it.name() == api);
    let histogram = recent.histogram(time.histogram, |api| !time.is_of_groups || wanted(api));
    for (end, quantile) in QUANTILES {
        let ms = histogram.quantile(*quantile).unwrap_or(0.0) / 1_000.0;
        let help = format!("{} ({end}, ms).", time.help);
        let family = families.family(&format!("{}_{end}", time.name), &help, Type::Unknown);
        family.add(Labels::new(), ms);
    }
}

fn add_requests(families: &mut Families, recent: &Recent<'_>) {
    for ((name, help), number, label) in
        [(REQUESTS, "clients_requests", "version"), (ERRORS, "clients_errors", "error")]
    {
        let family = families.family(name, help, Type::Counter);
        for (labels, amount) in recent.now.by_labels(number) {
            if let ([api, by], Amount::Number(count)) = (labels, amount) {
                let labels = vec![("request", api.clone()), (label, by.clone())];
                family.add(labels, *count as f64);
            }
        }
    }
    for (name, help, histogram, divisor) in STAGES {
        let family = families.family(name, help, Type::Summary);
        for api in ApiKey::ALL {
            let of_api = |it: &str| it == api.name();
            let all = recent.now.histogram(histogram, of_api);
            if all.count() == 0 {
                continue;
            }
            let lately = recent.histogram(histogram, of_api);
            let request = || ("request", api.name().to_owned());
            for quantile in STAGE_QUANTILES {
                let value = quantile.parse().ok().and_then(|it| lately.quantile(it));
                let labels = vec![request(), ("quantile", (*quantile).to_owned())];
                family.add(labels, value.unwrap_or(0.0) / divisor);
            }
            family.add_as("_count", vec![request()], requests(recent, api.name(), &all));
        }
    }
}

/// The number of requests of an API, but at least the number of those that were measured.
fn requests(recent: &Recent<'_>, api: &str, measured: &muster_counters::Histogram) -> f64 {
    let of_api = recent
        .now
        .by_labels("clients_requests")
        .filter(|(labels, _)| labels.first().is_some_and(|label| label == api));
    let counts = of_api.map(|(_, amount)| match amount {
        Amount::Number(count) => *count as f64,
        Amount::Histogram(_) => 0.0,
    });
    counts.sum::<f64>().max(measured.count() as f64)
}
