//! Thresholds of a run, such as `commit.p99 < 5ms`. They are parsed before the run and checked
//! against its report.
//!
//! A rule is a metric, one of `<` `<=` `>` `>=` `==` `!=`, and a number with a unit. The units are
//! `us`, `ms`, `s` or `min` for durations, and `B`, `KiB`, `MiB` or `GiB` for sizes. All other
//! numbers have no unit. If nothing was measured for a rule, the rule counts as broken: otherwise a
//! run without any requests would pass.

mod units;

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use self::units::{COMPARISONS, Comparison, Quantity, UNITS, Unit};
use super::model::{Latency, Phase, Rebalance, Report, Threshold};
use super::text::number;
use crate::driver::command::RoundTrip;

/// A parsed threshold.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Rule {
    text: String,
    metric: Metric,
    comparison: Comparison,
    bound: f64,
    unit: Unit,
}

/// One sentence that says what is wrong with a rule, and which rules can be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

impl Rule {
    pub fn judge(&self, report: &Report) -> Threshold {
        let measured = self.metric.measure(report).map(|value| value / self.unit.factor());
        Threshold {
            rule: self.text.clone(),
            measured: measured.map(|value| self.shown(value)),
            held: measured.is_some_and(|value| self.comparison.holds(value, self.bound)),
        }
    }

    /// The measured value, in milliseconds or bytes or as a count.
    pub fn measure(&self, report: &Report) -> Option<f64> {
        self.metric.measure(report)
    }

    pub fn is_duration(&self) -> bool {
        self.metric.quantity() == Quantity::Duration
    }

    /// Whether the rule can be checked for a single phase: its metric is also measured by phase.
    pub fn is_of_phases(&self) -> bool {
        match &self.metric {
            Metric::RoundTrip(..)
            | Metric::Rebalance(_)
            | Metric::Disruption(_)
            | Metric::Pause(_)
            | Metric::Rate(_) => true,
            Metric::Figure(at) => OF_PHASES.contains(&FIGURES[*at].0),
            Metric::Lateness(_) | Metric::Errors(_) => false,
        }
    }

    /// Whether the rule is about requests. In a phase without rebalances, it still has something to
    /// measure, because members also send requests then.
    pub fn is_of_requests(&self) -> bool {
        matches!(self.metric, Metric::RoundTrip(..) | Metric::Rate(_))
    }

    /// Whether the figures so far break the rule. Only rules on the times of requests and
    /// rebalances, and on violations, are judged before the end.
    pub fn is_broken_early(&self, so_far: &Report) -> bool {
        let is_early = match &self.metric {
            Metric::RoundTrip(_, statistic)
            | Metric::Rebalance(statistic)
            | Metric::Disruption(statistic) => *statistic != Statistic::Count,
            Metric::Figure(at) => FIGURES[*at].0 == "violations",
            Metric::Pause(_) | Metric::Lateness(_) | Metric::Rate(_) | Metric::Errors(_) => false,
        };
        let judged = self.judge(so_far);
        is_early && judged.measured.is_some() && !judged.held
    }

    fn shown(&self, value: f64) -> String {
        if value.is_infinite() {
            return "never".into();
        }
        format!("{} {}", number(value), self.unit.name()).trim_end().into()
    }
}

/// Checks all rules, in order.
pub fn judge(rules: &[Rule], report: &Report) -> Vec<Threshold> {
    rules.iter().map(|rule| rule.judge(report)).collect()
}

/// Checks the rules of a phase. If the phase is repeated, each of its rounds is checked.
pub fn judge_phase(name: &str, rules: &[Rule], report: &Report) -> Vec<Threshold> {
    let is_round = |phase: &&Phase| {
        let rest = phase.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
    };
    let judged = |phase: &Phase| {
        let of_phase = report.of_phase(phase);
        let mut judged = judge(rules, &of_phase);
        judged.iter_mut().for_each(|one| one.rule = format!("{}: {}", phase.name, one.rule));
        judged
    };
    report.phases.iter().filter(is_round).flat_map(judged).collect()
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = |why: String| RuleError(format!("threshold '{}': {why}", text.trim()));
        let (metric, comparison, value) = split(text).ok_or_else(|| {
            wrong("write a metric, one of < <= > >= == !=, and a value: commit.p99 < 5ms".into())
        })?;
        let metric = Metric::parse(metric).map_err(wrong)?;
        let (bound, unit) = parse_value(value).map_err(wrong)?;
        if !(unit.quantity() == metric.quantity() || bound == 0.0 && unit == Unit::One) {
            let units = metric.quantity().units();
            return Err(wrong(format!("{} is compared with {units}", metric.name())));
        }
        Ok(Self { text: text.trim().into(), metric, comparison, bound, unit })
    }
}

impl TryFrom<String> for Rule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

/// Splits a rule into metric, comparison and value.
fn split(text: &str) -> Option<(&str, Comparison, &str)> {
    let at = text.find(['<', '>', '=', '!'])?;
    let (metric, rest) = text.split_at(at);
    let (comparison, sign) = COMPARISONS.iter().find(|(_, sign)| rest.starts_with(sign))?;
    let value = rest[sign.len()..].trim();
    let metric = metric.trim();
    (!metric.is_empty() && !value.is_empty()).then_some((metric, *comparison, value))
}

fn parse_value(text: &str) -> Result<(f64, Unit), String> {
    let number_ends = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let (digits, unit) = text.split_at(number_ends.unwrap_or(text.len()));
    let value = digits.replace('_', "").parse().map_err(|_| format!("'{text}' is not a number"))?;
    let unit = unit.trim();
    let known = UNITS.iter().find(|(name, ..)| *name == unit);
    let (_, unit) = known.ok_or_else(|| {
        format!("unknown unit '{unit}'; known are us, ms, s, min, B, KiB, MiB, GiB")
    })?;
    Ok((value, *unit))
}

#[derive(Clone, PartialEq, Debug)]
enum Metric {
    RoundTrip(RoundTrip, Statistic),
    /// The time from the trigger of a rebalance until the group was stable. Infinite if it never
    /// became stable. A rebalance during which the next trigger came has no value.
    Rebalance(Statistic),
    /// The time from the first of several overlapping triggers until the group was stable.
    Disruption(Statistic),
    Pause(Statistic),
    /// How late muster-load's own timers fired.
    Lateness(Statistic),
    /// Answers per second.
    Rate(RoundTrip),
    /// The count of one error, by its name in Kafka.
    Errors(String),
    /// The figure at this index of [`FIGURES`].
    Figure(usize),
}

type Read = fn(&Report) -> Option<f64>;

/// The metrics that are read directly from the report, because they are single numbers there.
const FIGURES: [(&str, Quantity, Read); 34] = [
    ("unanswered", Quantity::Number, |r| Some(r.unanswered_count() as f64)),
    ("violations", Quantity::Number, |r| Some(r.violation_count() as f64)),
    ("errors", Quantity::Number, |r| Some(r.error_count() as f64)),
    ("problems", Quantity::Number, |r| Some(r.problem_count() as f64)),
    ("unowned_partition_seconds", Quantity::Number, |r| Some(r.unowned_partition_seconds)),
    ("duration", Quantity::Duration, |r| Some(r.run.duration_seconds * 1e3)),
    ("members.started", Quantity::Number, |r| Some(r.members.started as f64)),
    ("members.stopped", Quantity::Number, |r| Some(r.members.stopped as f64)),
    ("members.crashed", Quantity::Number, |r| Some(r.members.crashed as f64)),
    ("members.fenced", Quantity::Number, |r| Some(r.members.fenced as f64)),
    ("members.rejoined", Quantity::Number, |r| Some(r.members.rejoined as f64)),
    ("members.failed", Quantity::Number, |r| Some(r.members.failed_count as f64)),
    ("members.disconnected", Quantity::Number, |r| Some(r.members.disconnected as f64)),
    ("members.revocations", Quantity::Number, |r| Some(r.members.revocations as f64)),
    ("members.memory", Quantity::Size, |r| Some(r.members.memory_bytes_each as f64)),
    ("commits.accepted", Quantity::Number, |r| Some(r.commits.accepted as f64)),
    ("commits.refused", Quantity::Number, |r| Some(r.commits.refused as f64)),
    ("commits.unknown", Quantity::Number, |r| Some(r.commits.unknown as f64)),
    ("commits.read_back", Quantity::Number, |r| Some(r.commits.read_back as f64)),
    ("transactions.committed", Quantity::Number, |r| Some(r.transactions.committed as f64)),
    ("transactions.aborted", Quantity::Number, |r| Some(r.transactions.aborted as f64)),
    ("records.delivered", Quantity::Number, |r| Some(delivered(r))),
    ("records.redelivered", Quantity::Number, |r| Some(redelivered(r))),
    ("records.accepted", Quantity::Number, |r| Some(r.shares.accepted as f64)),
    ("records.released", Quantity::Number, |r| Some(r.shares.released as f64)),
    ("records.rejected", Quantity::Number, |r| Some(r.shares.rejected as f64)),
    ("records.refused", Quantity::Number, |r| Some(r.shares.refused as f64)),
    ("records.fairness", Quantity::Number, |r| Some(r.shares.least_fair()?.fairness)),
    ("server.memory", Quantity::Size, |r| Some(r.server.as_ref()?.memory_bytes_max as f64)),
    ("server.cpu", Quantity::Duration, |r| Some(r.server.as_ref()?.cpu_seconds * 1e3)),
    ("load.memory", Quantity::Size, |r| Some(r.load_generator.memory_bytes_max as f64)),
    ("load.cpu", Quantity::Duration, |r| Some(r.load_generator.cpu_seconds * 1e3)),
    ("bytes.sent", Quantity::Size, |r| Some(r.bytes_sent as f64)),
    ("bytes.received", Quantity::Size, |r| Some(r.bytes_received as f64)),
];

/// The metrics that phases have, too.
const OF_PHASES: [&str; 3] =
    ["unowned_partition_seconds", "records.delivered", "records.redelivered"];

/// The records delivered to share groups and to other groups.
fn delivered(report: &Report) -> f64 {
    report.shares.delivered.saturating_add(report.consumed.delivered) as f64
}

fn redelivered(report: &Report) -> f64 {
    report.shares.redelivered.saturating_add(report.consumed.redelivered) as f64
}

impl Metric {
    fn parse(name: &str) -> Result<Self, String> {
        if let Some(at) = FIGURES.iter().position(|(figure, ..)| *figure == name) {
            return Ok(Self::Figure(at));
        }
        if let Some((function, argument)) = name.strip_suffix(')').and_then(|n| n.split_once('(')) {
            return match (function.trim(), round_trip(argument.trim())) {
                ("rate", Some(round_trip)) => Ok(Self::Rate(round_trip)),
                ("errors", _) => Ok(Self::Errors(argument.trim().into())),
                _ => Err(unknown(name)),
            };
        }
        let (of, statistic) = name.split_once('.').ok_or_else(|| unknown(name))?;
        let statistic = Statistic::parse(statistic).ok_or_else(|| unknown(name))?;
        match (of, round_trip(of)) {
            (_, Some(round_trip)) => Ok(Self::RoundTrip(round_trip, statistic)),
            ("rebalance", _) => Ok(Self::Rebalance(statistic)),
            ("disruption", _) => Ok(Self::Disruption(statistic)),
            ("pause", _) => Ok(Self::Pause(statistic)),
            ("lateness", _) => Ok(Self::Lateness(statistic)),
            _ => Err(unknown(name)),
        }
    }

    fn quantity(&self) -> Quantity {
        match self {
            Self::RoundTrip(_, statistic)
            | Self::Rebalance(statistic)
            | Self::Disruption(statistic)
            | Self::Pause(statistic)
            | Self::Lateness(statistic) => statistic.quantity(),
            Self::Rate(_) | Self::Errors(_) => Quantity::Number,
            Self::Figure(at) => FIGURES[*at].1,
        }
    }

    /// The name in messages.
    fn name(&self) -> &'static str {
        match self {
            Self::RoundTrip(round_trip, _) => round_trip.name(),
            Self::Rebalance(_) => "rebalance",
            Self::Disruption(_) => "disruption",
            Self::Pause(_) => "pause",
            Self::Lateness(_) => "lateness",
            Self::Rate(_) => "rate",
            Self::Errors(_) => "errors",
            Self::Figure(at) => FIGURES[*at].0,
        }
    }

    fn measure(&self, report: &Report) -> Option<f64> {
        match self {
            Self::RoundTrip(of, Statistic::Count) => Some(answers(report, of.name())? as f64),
            Self::RoundTrip(of, statistic) => statistic.of(report.latencies.get(of.name())?),
            Self::Pause(statistic) => statistic.of(&report.pauses),
            Self::Lateness(statistic) => statistic.of(&report.pace.late),
            Self::Rebalance(statistic) => {
                let counts = |it: &&Rebalance| *statistic == Statistic::Count || !it.superseded;
                statistic.of_rebalances(report.rebalances.iter().filter(counts))
            }
            Self::Disruption(statistic) => statistic.of_rebalances(report.disruptions.iter()),
            Self::Rate(of) => rate(report, of.name()),
            Self::Errors(name) => {
                let named = report.errors.iter().filter(|error| error.name == *name);
                Some(named.map(|error| error.count).sum::<u64>() as f64)
            }
            Self::Figure(at) => FIGURES[*at].2(report),
        }
    }
}

/// The number of answers. Result files of earlier versions have no `uncorrected`, but in these
/// files `latencies` contains only requests with an answer.
fn answers(report: &Report, name: &str) -> Option<u64> {
    let latency = report.uncorrected.get(name).or_else(|| report.latencies.get(name))?;
    Some(latency.count)
}

/// The round trip with this name. `fetch` is the former name of `offset-fetch`.
fn round_trip(name: &str) -> Option<RoundTrip> {
    let name = if name == "fetch" { RoundTrip::Fetch.name() } else { name };
    RoundTrip::ALL.into_iter().find(|round_trip| round_trip.name() == name)
}

fn unknown(name: &str) -> String {
    let durations: Vec<_> = RoundTrip::ALL.iter().map(|r| r.name()).collect();
    let figures: Vec<_> = FIGURES.iter().map(|(name, ..)| *name).collect();
    format!(
        "unknown metric '{name}'; known are count, mean, min, max and any percentile (p50, p99.9) \
         of rebalance, disruption, pause, lateness, {} (as in commit.p99), rate(commit) and of the \
         others, errors(NAME), {}",
        durations.join(", "),
        figures.join(", ")
    )
}

/// The mean of the rates of all steps from the first with an answer to the last with one. Steps
/// without answers between them count.
pub(super) fn rate(report: &Report, name: &str) -> Option<f64> {
    let rates = report.series.points.iter().map(|p| p.rates.get(name).copied().unwrap_or(0.0));
    let rates: Vec<_> = rates.collect();
    let first = rates.iter().position(|rate| *rate > 0.0)?;
    let last = rates.iter().rposition(|rate| *rate > 0.0)?;
    let busy = &rates[first..=last];
    Some(busy.iter().sum::<f64>() / busy.len() as f64)
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Statistic {
    Count,
    Mean,
    Min,
    Max,
    Percentile(f64),
}

impl Statistic {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "count" => Some(Self::Count),
            "mean" => Some(Self::Mean),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            "p999" => Some(Self::Percentile(99.9)),
            _ => {
                let percentile = name.strip_prefix('p')?.parse().ok()?;
                (0.0..=100.0).contains(&percentile).then_some(Self::Percentile(percentile))
            }
        }
    }

    const fn quantity(self) -> Quantity {
        if let Self::Count = self { Quantity::Number } else { Quantity::Duration }
    }

    fn of(self, latency: &Latency) -> Option<f64> {
        if self == Self::Count {
            return Some(latency.count as f64);
        }
        (latency.count > 0).then(|| match self {
            Self::Count => latency.count as f64,
            Self::Mean => latency.mean,
            Self::Min => latency.min,
            Self::Max => latency.max,
            Self::Percentile(50.0) => latency.p50,
            Self::Percentile(90.0) => latency.p90,
            Self::Percentile(99.0) => latency.p99,
            Self::Percentile(99.9) => latency.p999,
            Self::Percentile(percentile) => {
                let reached = latency.percentiles.iter().find(|(p, _)| *p >= percentile);
                reached.map_or(latency.max, |(_, value)| *value)
            }
        })
    }

    fn of_rebalances<'a>(self, all: impl Iterator<Item = &'a Rebalance>) -> Option<f64> {
        let took = all.map(|r| r.took.unwrap_or(f64::INFINITY));
        let mut took: Vec<_> = took.collect();
        took.sort_by(f64::total_cmp);
        let (first, last) = (took.first().copied(), took.last().copied());
        match self {
            Self::Count => Some(took.len() as f64),
            Self::Min => first,
            Self::Max => last,
            Self::Mean => last.map(|_| took.iter().sum::<f64>() / took.len() as f64),
            Self::Percentile(percentile) => {
                let rank = (percentile / 100.0 * took.len() as f64).ceil() as usize;
                took.get(rank.max(1) - 1).copied()
            }
        }
    }
}

#[cfg(test)]
mod tests;
