//! The state of a run for other programs, while it runs: a line of JSON, or Prometheus' text
//! format.

use std::fmt::Write;

use serde_json::{Value, json};

use super::live::LiveState;

/// One line, without its line end.
pub fn json_line(state: &LiveState) -> String {
    let members = state.members.each().map(|(_, name, count)| (name.to_owned(), count.into()));
    let members: serde_json::Map<String, Value> = members.collect();
    let loads = state.loads.iter().map(|load| {
        let figures = json!({"per_second": load.per_second, "p50": load.p50, "p99": load.p99});
        (load.name.clone(), figures)
    });
    let loads: serde_json::Map<String, Value> = loads.collect();
    json!({
        "at": state.elapsed.as_secs_f64(),
        "scenario": state.scenario,
        "phase": state.phase.name,
        "members": members,
        "groups": state.groups,
        "groups_stable": state.groups_stable,
        "rebalances": state.rebalances,
        "partitions_unowned": state.partitions_unowned,
        "requests": loads,
        "unanswered": state.waiting,
        "unanswered_longest_seconds": state.waiting_longest.as_secs_f64(),
        "errors": state.errors,
        "violations": state.violations,
        "connections": state.connections,
    })
    .to_string()
}

/// The text of an endpoint for Prometheus, in version 0.0.4 of its format.
pub fn prometheus(state: &LiveState) -> String {
    let mut text = Exposition { text: String::new() };
    let phase = [("scenario", state.scenario.as_str()), ("phase", state.phase.name.as_str())];
    text.metric("phase_info", "gauge", "The phase that is under way.", [(&phase[..], 1.0)]);
    let members = state.members.each().map(|(_, name, count)| ([("state", name)], count));
    let members: Vec<_> = members.collect();
    let members = members.iter().map(|(labels, count)| (&labels[..], f64::from(*count)));
    text.metric("members", "gauge", "Members by state.", members);
    let singles = [
        ("groups", "gauge", "Groups.", f64::from(state.groups)),
        ("groups_stable", "gauge", "Groups that are stable.", state.groups_stable.into()),
        ("partitions_unowned", "gauge", "Partitions without an owner.", unowned(state)),
        ("rebalances_total", "counter", "Rebalances that ended.", state.rebalances as f64),
        ("errors_total", "counter", "Answers with an error code.", state.errors as f64),
        ("violations_total", "counter", "Violations of the protocol.", state.violations as f64),
        ("requests_unanswered", "gauge", "Requests that wait for a second.", state.waiting as f64),
        ("unanswered_seconds", "gauge", "The age of the oldest of them.", longest(state)),
        ("connections", "gauge", "Open connections.", state.connections.into()),
    ];
    for (name, kind, help, value) in singles {
        text.metric(name, kind, help, [(&[][..], value)]);
    }
    requests(state, &mut text);
    text.text
}

fn unowned(state: &LiveState) -> f64 {
    state.partitions_unowned.into()
}

fn longest(state: &LiveState) -> f64 {
    state.waiting_longest.as_secs_f64()
}

/// Adds the rates and times of requests that the live view shows: those since the last update.
fn requests(state: &LiveState, text: &mut Exposition) {
    let rates: Vec<_> =
        state.loads.iter().map(|load| ([("request", &*load.name)], load.per_second)).collect();
    let rates = rates.iter().map(|(labels, rate)| (&labels[..], *rate));
    text.metric("request_rate", "gauge", "Answers a second.", rates);
    let quantiles = state.loads.iter().flat_map(|load| {
        let labels = |quantile| [("request", &*load.name), ("quantile", quantile)];
        [(labels("0.5"), load.p50 / 1e3), (labels("0.99"), load.p99 / 1e3)]
    });
    let quantiles: Vec<_> = quantiles.collect();
    let quantiles = quantiles.iter().map(|(labels, seconds)| (&labels[..], *seconds));
    let help = "From when a request was due to its answer.";
    text.metric("request_seconds", "summary", help, quantiles);
}

struct Exposition {
    text: String,
}

impl Exposition {
    fn metric<'a>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (&'a [(&'a str, &'a str)], f64)>,
    ) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "# HELP muster_load_{name} {help}");
        let _ = writeln!(self.text, "# TYPE muster_load_{name} {kind}");
        for (labels, value) in samples {
            let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
            let labels: Vec<_> = labels.iter().map(label).collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(self.text, "muster_load_{name}{labels} {value}");
        }
    }
}

/// Escapes the value of a label. The names of scenarios and phases may contain any characters.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::member::State;
    use crate::report::live::{LiveLoad, MemberCounts};

    fn state() -> LiveState {
        let mut members = MemberCounts::default();
        members.add(State::Stable, 40);
        let load = |name: &str| LiveLoad { name: name.into(), per_second: 8.0, p50: 1.5, p99: 9.0 };
        LiveState {
            scenario: "a \"b\"\n".into(),
            elapsed: Duration::from_millis(1_500),
            members,
            groups: 2,
            loads: vec![load("commit"), load("heartbeat")],
            waiting: 3,
            waiting_longest: Duration::from_secs(12),
            ..LiveState::default()
        }
    }

    #[test]
    fn a_line_is_one_object() {
        let line = json_line(&state());
        assert!(!line.contains('\n'), "{line}");
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&read["at"], &read["members"]["stable"]), (&json!(1.5), &json!(40)));
        assert_eq!(read["requests"]["commit"]["p99"], json!(9.0));
        assert_eq!(read["unanswered_longest_seconds"], json!(12.0));
    }

    /// Each line is a comment or `name{labels} value`, and each metric has its type before it.
    #[test]
    fn prometheus_can_read_each_line() {
        let text = prometheus(&state());
        let mut typed = "";
        for line in text.lines() {
            if let Some(of) = line.strip_prefix("# TYPE ") {
                typed = of.split(' ').next().unwrap();
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert_eq!(name.split('{').next().unwrap(), typed);
                assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            }
        }
        for line in [
            "muster_load_members{state=\"stable\"} 40",
            "muster_load_request_seconds{request=\"commit\",quantile=\"0.99\"} 0.009",
            "muster_load_phase_info{scenario=\"a \\\"b\\\"\\n\",phase=\"\"} 1",
            "muster_load_unanswered_seconds 12",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
    }
}
