//! The result as comma-separated values, for spreadsheets and scripts. Long form: one figure per
//! row.
//!
//! The columns are `section,at_seconds,name,metric,value,unit`:
//!
//! | section | at | name | metric |
//! |---|---|---|---|
//! | `run` | | | facts of the run: `scenario`, `seed`, `members`, ... |
//! | `phase` | begin | phase | `ended`, `pause max`, `unowned`, `problem`, ... |
//! | `time` | | `commit`, ..., `pause` | `count`, `mean`, `min`, `p50`, ..., `p99.9`, `max` |
//! | `total` | | `members`, `commits`, `bytes`, `load`, `server`, ... | counts and sums |
//! | `error` | | name of the error | name of the API; the value is a count |
//! | `rebalance` | begin | group | `trigger`, `took`, `moved`, ... |
//! | `disruption` | begin | group | as for `rebalance`, but overlapping rebalances count as one |
//! | `threshold` | | rule | `measured`, `held` |
//! | `violation` | time | group | rule; the value is the sentence |
//! | `series` | end of the step | state, round trip, ... | `members`, `rate`, `p99`, ... |
//!
//! Fields are quoted as in RFC 4180. Group names are foreign text, so a field that a spreadsheet
//! would interpret as a formula gets a leading `'`.

use std::fmt::{Display, Write};
use std::path::Path;

use super::files::{self, FileError};
use super::model::{Latency, Point, Rebalance, Report, Usage};

/// Writes the file of `--csv`.
///
/// # Errors
///
/// [`FileError::Write`].
pub fn save(report: &Report, path: &Path) -> Result<(), FileError> {
    files::write(path, &render(report))
}

pub(super) fn render(report: &Report) -> String {
    let mut rows = Rows { text: "section,at_seconds,name,metric,value,unit\n".into() };
    run(&mut rows, report);
    times(&mut rows, report);
    totals(&mut rows, report);
    for error in &report.errors {
        rows.add("error", None, &error.name, &error.api, error.count, "");
    }
    for rebalance in &report.rebalances {
        one_rebalance(&mut rows, "rebalance", rebalance);
    }
    for disruption in &report.disruptions {
        one_rebalance(&mut rows, "disruption", disruption);
    }
    for threshold in &report.thresholds {
        let measured = threshold.measured.as_deref().unwrap_or("");
        rows.add("threshold", None, &threshold.rule, "measured", measured, "");
        rows.add("threshold", None, &threshold.rule, "held", threshold.held, "");
    }
    for violation in &report.violations {
        let (at, rule) = (Some(violation.at), violation.rule.as_str());
        rows.add("violation", at, &violation.group, rule, &violation.what, "");
    }
    for point in &report.series.points {
        one_point(&mut rows, point);
    }
    rows.text
}

struct Rows {
    text: String,
}

impl Rows {
    fn add(
        &mut self,
        section: &str,
        at: Option<f64>,
        name: &str,
        metric: &str,
        value: impl Display,
        unit: &str,
    ) {
        let at = at.map_or(String::new(), |at| at.to_string());
        let fields = [section, &at, name, metric, &value.to_string(), unit].map(field);
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{}", fields.join(","));
    }

    fn numbers<const N: usize>(&mut self, section: &str, name: &str, of: [(&str, f64, &str); N]) {
        for (metric, value, unit) in of {
            self.add(section, None, name, metric, value, unit);
        }
    }
}

fn field(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let guard = if formula { "'" } else { "" };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}

fn run(rows: &mut Rows, report: &Report) {
    let run = &report.run;
    let mut add = |metric: &str, value: &dyn Display, unit| {
        rows.add("run", None, "", metric, value, unit);
    };
    add("tool", &run.tool, "");
    add("label", &run.label.as_deref().unwrap_or(""), "");
    add("scenario", &run.scenario, "");
    add("bootstrap", &run.bootstrap, "");
    add("started_at", &run.started_at, "");
    add("duration", &run.duration_seconds, "s");
    add("interrupted", &run.interrupted, "");
    add("seed", &run.seed, "");
    add("host", &run.host, "");
    add("cores", &run.cores, "");
    add("groups", &run.groups, "");
    if run.producers > 0 {
        add("producers", &run.producers, "");
    }
    add("members", &run.members, "");
    add("partitions", &run.partitions, "");
    for phase in &report.phases {
        rows.add("phase", Some(phase.began), &phase.name, "ended", phase.ended, "s");
        let mut figure = |metric: &str, value: f64, unit| {
            rows.add("phase", Some(phase.began), &phase.name, metric, value, unit);
        };
        if phase.pauses.count > 0 {
            figure("pauses", phase.pauses.count as f64, "");
            figure("pause p50", phase.pauses.p50, "ms");
            figure("pause p99", phase.pauses.p99, "ms");
            figure("pause max", phase.pauses.max, "ms");
        }
        if phase.delivered > 0 {
            figure("delivered", phase.delivered as f64, "");
            figure("redelivered", phase.redelivered as f64, "");
        }
        figure("unowned", phase.unowned_partition_seconds, "partition-seconds");
        if let Some(problem) = &phase.problem {
            rows.add("phase", Some(phase.began), &phase.name, "problem", problem, "");
        }
        for warning in &phase.warnings {
            rows.add("phase", Some(phase.began), &phase.name, "warning", warning, "");
        }
    }
}

fn times(rows: &mut Rows, report: &Report) {
    let own = [("pause", &report.pauses), ("lateness", &report.pace.late)];
    let waits = [("writing", &report.pace.writing), ("reading", &report.pace.reading)];
    let own = own.into_iter().chain([("turn", &report.pace.turns)]).chain(waits);
    let round_trips = report.latencies.iter().map(|(name, latency)| (name.as_str(), latency));
    let sent =
        report.uncorrected.iter().map(|(name, latency)| (format!("{name} as sent"), latency));
    let sent: Vec<_> = sent.collect();
    let sent = sent.iter().map(|(name, latency)| (name.as_str(), *latency));
    for (name, latency) in own.chain(round_trips).chain(sent) {
        let Latency { count, mean, min, p50, p90, p99, p999, max, .. } = *latency;
        rows.add("time", None, name, "count", count, "");
        rows.numbers(
            "time",
            name,
            [
                ("mean", mean, "ms"),
                ("min", min, "ms"),
                ("p50", p50, "ms"),
                ("p90", p90, "ms"),
                ("p99", p99, "ms"),
                ("p99.9", p999, "ms"),
                ("max", max, "ms"),
            ],
        );
    }
}

fn totals(rows: &mut Rows, report: &Report) {
    let (members, commits) = (&report.members, &report.commits);
    let mut add = |name: &str, metric: &str, value: u64, unit: &str| {
        rows.add("total", None, name, metric, value, unit);
    };
    add("violations", "count", report.violation_count(), "");
    add("members", "started", members.started, "");
    add("members", "stopped", members.stopped, "");
    add("members", "crashed", members.crashed, "");
    add("members", "fenced", members.fenced, "");
    add("members", "rejoined", members.rejoined, "");
    add("members", "disconnected", members.disconnected, "");
    add("members", "failed", members.failed_count, "");
    add("members", "revocations", members.revocations, "");
    add("members", "revocations_per_member_max", members.revocations_per_member_max, "");
    add("members", "memory_each", members.memory_bytes_each, "B");
    add("commits", "accepted", commits.accepted, "");
    add("commits", "refused", commits.refused, "");
    add("commits", "unknown", commits.unknown, "");
    add("commits", "read_back", commits.read_back, "");
    if !report.transactions.are_none() {
        add("transactions", "committed", report.transactions.committed, "");
        add("transactions", "aborted", report.transactions.aborted, "");
    }
    let shares = &report.shares;
    if !shares.are_none() {
        add("records", "delivered", shares.delivered, "");
        add("records", "redelivered", shares.redelivered, "");
        add("records", "accepted", shares.accepted, "");
        add("records", "released", shares.released, "");
        add("records", "rejected", shares.rejected, "");
        add("records", "refused", shares.refused, "");
        add("records", "unknown", shares.unknown, "");
    }
    if !report.consumed.are_none() {
        add("records", "consumed", report.consumed.delivered, "");
        add("records", "consumed_twice", report.consumed.redelivered, "");
    }
    for (name, count) in &report.unanswered {
        add(name, "unanswered", *count, "");
    }
    add("bytes", "sent", report.bytes_sent, "B");
    add("bytes", "received", report.bytes_received, "B");
    let unowned = report.unowned_partition_seconds;
    rows.numbers("total", "partitions", [("unowned", unowned, "partition-seconds")]);
    usage(rows, "load", &report.load_generator);
    report.server.iter().for_each(|server| usage(rows, "server", server));
}

fn usage(rows: &mut Rows, name: &str, usage: &Usage) {
    rows.add("total", None, name, "cpu", usage.cpu_seconds, "s");
    rows.add("total", None, name, "memory", usage.memory_bytes, "B");
    rows.add("total", None, name, "memory_max", usage.memory_bytes_max, "B");
}

fn one_rebalance(rows: &mut Rows, section: &str, rebalance: &Rebalance) {
    let mut add = |metric: &str, value: &dyn Display, unit| {
        rows.add(section, Some(rebalance.began), &rebalance.group, metric, value, unit);
    };
    add("trigger", &rebalance.trigger, "");
    rebalance.took.iter().for_each(|took| add("took", took, "ms"));
    rebalance.took_since_detected.iter().for_each(|took| add("took_since_detected", took, "ms"));
    add("members", &rebalance.members, "");
    add("partitions", &rebalance.partitions, "");
    add("moved", &rebalance.moved, "");
    add("revoked", &rebalance.revoked, "");
}

fn one_point(rows: &mut Rows, point: &Point) {
    let mut add = |name: &str, metric: &str, value: &dyn Display, unit| {
        rows.add("series", Some(point.at), name, metric, value, unit);
    };
    point.members.iter().for_each(|(state, n)| add(state, "members", n, ""));
    point.rates.iter().for_each(|(name, rate)| add(name, "rate", rate, "1/s"));
    point.p99.iter().for_each(|(name, p99)| add(name, "p99", p99, "ms"));
    add("partitions", "unowned", &point.unowned_partitions, "");
    point.server_cpu.iter().for_each(|cores| add("server", "cpu", cores, "cores"));
    point.server_memory_bytes.iter().for_each(|memory| add("server", "memory", memory, "B"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Parses RFC 4180 as strictly as a spreadsheet.
    fn parse(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut cell, mut quoted) = (vec![], vec![], String::new(), false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(std::mem::take(&mut cell)),
                '\n' if !quoted => {
                    row.push(std::mem::take(&mut cell));
                    rows.push(std::mem::take(&mut row));
                }
                c => cell.push(c),
            }
        }
        assert!(row.is_empty() && cell.is_empty() && !quoted, "ends with a whole row");
        rows
    }

    #[test]
    fn every_figure_is_a_row_that_is_read_back() {
        let mut report = sample::report();
        report.rebalances[0].group = "a,\"b\"\nc".into();
        report.rebalances[1].group = "=HYPERLINK()".into();
        let rows = parse(&render(&report));
        assert!(rows.iter().all(|row| row.len() == 6));
        let find = |key: [&str; 4]| {
            let row = rows.iter().find(|row| row[..4] == key).unwrap_or_else(|| panic!("{key:?}"));
            format!("{} {}", row[4], row[5])
        };
        assert_eq!(
            find(["time", "", "commit", "p99"]),
            format!("{} ms", report.latencies["commit"].p99)
        );
        assert_eq!(find(["total", "", "members", "crashed"]), "500 ");
        assert_eq!(find(["rebalance", "0", "a,\"b\"\nc", "took"]), "8412 ms");
        assert_eq!(find(["rebalance", "0", "'=HYPERLINK()", "took"]), "1830 ms");
        assert_eq!(find(["error", "", "UNKNOWN_MEMBER_ID", "Heartbeat"]), "38 ");
        let steps = rows.iter().filter(|row| row[0] == "series" && row[3] == "unowned");
        assert_eq!(steps.count(), report.series.points.len());
    }

    #[test]
    fn negative_numbers_are_no_formulas() {
        assert_eq!(field("-1.5"), "-1.5");
        assert_eq!(field("-cmd"), "'-cmd");
        assert_eq!(field("@a,b"), "\"'@a,b\"");
    }
}
