//! The metrics of each shard under muster's own names, which consist of `muster_`, the name of the
//! part, and that of the field.

use super::family::{Families, Labels, Type};
use crate::report::Report;
use muster_counters::{Kind, Metric, Unit, Value, Walk};

/// Microseconds in a second.
const MICROS: f64 = 1_000_000.0;

/// Adds the metrics of a shard.
pub(super) fn add(families: &mut Families, report: &Report) {
    report.numbers.walk(&mut |metric, labels, value| {
        if !is_shown(metric) {
            return;
        }
        let labels = labels.iter().map(|(label, value)| (*label, (*value).to_owned()));
        let labels: Labels = of_shard(report.shard).into_iter().chain(labels).collect();
        let family = families.family(&name(metric), metric.help, of_type(metric));
        match value {
            Value::Number(number) => family.add(labels, number as f64 / divisor(metric)),
            Value::Histogram(it) => family.add_histogram(labels, it, divisor(metric)),
        }
    });
}

pub(super) fn of_shard(shard: u32) -> Labels {
    vec![("shard", shard.to_string())]
}

/// Whether a metric is shown here. A histogram with a label for the API is not: it would add
/// thousands of lines, and Kafka's metrics show it.
pub(super) fn is_shown(metric: &Metric) -> bool {
    !metric.is_histogram || metric.labels.is_empty()
}

/// The name of a metric. Times are shown in seconds.
pub(super) fn name(metric: &Metric) -> String {
    match metric.name.strip_suffix("_micros") {
        Some(beginning) => format!("muster_{beginning}_seconds"),
        None => format!("muster_{}", metric.name),
    }
}

pub(super) fn of_type(metric: &Metric) -> Type {
    match metric.kind {
        Kind::Counter if metric.is_histogram => Type::Histogram,
        Kind::Counter => Type::Counter,
        Kind::Gauge => Type::Gauge,
    }
}

fn divisor(metric: &Metric) -> f64 {
    match metric.unit {
        Unit::Microseconds => MICROS,
        Unit::Count | Unit::Bytes => 1.0,
    }
}
