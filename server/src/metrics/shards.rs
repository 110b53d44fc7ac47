//! The answer to `/api/v1/shards`: for each shard its state, and the values of its metrics
//! (`numbers`). Metrics with labels are left out, except limits. A histogram is shown as the count
//! and the sum of its values.

use super::health::{ShardState, ShardStates};
use crate::operator::timed;
use crate::report::Report;
use muster_counters::{Value as Number, Walk};
use serde_json::{Map, Value, json};

pub(super) fn all(version: &str, states: &ShardStates, reports: &[Report]) -> Value {
    let of_shard = |shard| {
        let report = reports.iter().find(|report| report.shard == shard);
        json!({
            "shard": shard,
            "state": name(states.of(shard)),
            "answers": report.is_some(),
            "obstacles": report.map_or(&[][..], |it| &it.obstacles),
            "warnings": report.map_or(&[][..], |it| &it.warnings),
            "numbers": report.map(numbers),
            "limits": report.map(limits),
        })
    };
    let shards: Vec<_> = (0..states.len()).map(of_shard).collect();
    timed(json!({ "version": version, "shards": shards }))
}

fn name(state: ShardState) -> &'static str {
    match state {
        ShardState::Starting => "starting",
        ShardState::Serving => "serving",
        ShardState::Loading => "loading",
        ShardState::Ended => "ended",
    }
}

fn numbers(report: &Report) -> Value {
    let mut numbers = Map::new();
    report.numbers.walk(&mut |metric, labels, value| match value {
        _ if !labels.is_empty() => {}
        Number::Number(number) => {
            numbers.insert(metric.name.to_owned(), json!(number));
        }
        Number::Histogram(histogram) => {
            let both = json!({ "count": histogram.count(), "sum": histogram.sum() });
            numbers.insert(metric.name.to_owned(), both);
        }
    });
    Value::Object(numbers)
}

/// The use of each limit, by the name of its config key or constant.
fn limits(report: &Report) -> Value {
    let mut limits = Map::new();
    report.numbers.walk(&mut |metric, labels, value| {
        let field = match metric.name {
            "limit_used" => "used",
            "limit_max" => "max",
            _ => return,
        };
        if let (Number::Number(number), [(_, limit)]) = (value, labels) {
            let limit = limits.entry(*limit).or_insert_with(|| json!({}));
            limit[field] = json!(number);
        }
    });
    Value::Object(limits)
}
