//! Runs side by side: all figures, with their ratios to those of the first run.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

use super::files::FileError;
use super::json;
use super::model::{Latency, Report};
use super::rebalances::by_kind;
use super::text::{Paint, bytes, millis, number, plain, shortened};
use super::thresholds::rate;
use crate::driver::command::RoundTrip;

const WIDTH: u16 = 100;

/// Named reports. The others are compared with the first.
pub struct Runs {
    runs: Vec<(String, Report)>,
}

impl Runs {
    /// Reads result files. A run is named by its label, or else by its file.
    ///
    /// # Errors
    ///
    /// Those of [`json::load`], of the first file that has one.
    pub fn load(paths: &[impl AsRef<Path>]) -> Result<Self, FileError> {
        let load = |path: &Path| {
            let report = json::load(path)?;
            let file = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
            Ok((report.run.label.clone().unwrap_or(file.into_owned()), report))
        };
        paths.iter().map(|path| load(path.as_ref())).collect::<Result<_, _>>().map(Self::of)
    }

    /// Equal names get a number.
    pub fn of(named: Vec<(String, Report)>) -> Self {
        let mut runs: Vec<(String, Report)> = Vec::with_capacity(named.len());
        for (name, report) in named {
            let numbered = (2..).map(|number| format!("{name} {number}"));
            let taken = |name: &String| runs.iter().any(|(other, _)| other == name);
            let free = [name.clone()].into_iter().chain(numbered).find(|name| !taken(name));
            runs.push((free.unwrap_or(name), report));
        }
        Self { runs }
    }

    pub(super) fn each(&self) -> &[(String, Report)] {
        &self.runs
    }

    /// All figures that at least one run has.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = self.rebalances();
        figures.extend(self.latency("pause", |report| Some(&report.pauses), &PAUSE));
        for (round_trip, statistics) in ROUND_TRIPS {
            let name = round_trip.name();
            figures.extend(self.latency(name, |report| report.latencies.get(name), statistics));
        }
        for (name, kind, read) in SINGLE {
            figures.push(Figure::new(name.into(), kind, self.runs.iter().map(|(_, r)| read(r))));
        }
        figures.retain(|figure| figure.values.iter().flatten().any(|value| *value != 0.0));
        figures
    }

    fn rebalances(&self) -> Vec<Figure> {
        let kinds: Vec<_> = self.runs.iter().map(|(_, r)| by_kind(&r.rebalances)).collect();
        let mut names: Vec<&str> = Vec::new();
        for kind in kinds.iter().flatten() {
            if !names.contains(&kind.name.as_str()) {
                names.push(&kind.name);
            }
        }
        let several = |name: &str| kinds.iter().flatten().any(|k| k.name == name && k.count > 1);
        let figure = |name: &str, statistic: &str, read: fn(&Latency) -> f64| {
            let of = kinds.iter().map(|kinds| {
                let kind = kinds.iter().find(|kind| kind.name == name)?;
                present(Some(&kind.took)).map(read)
            });
            Figure::new(format!("rebalance, {name}{statistic}"), Kind::Duration, of)
        };
        let figures = names.into_iter().flat_map(|name| match several(name) {
            false => vec![figure(name, "", |took| took.max)],
            true => {
                vec![figure(name, " p50", |took| took.p50), figure(name, " max", |took| took.max)]
            }
        });
        figures.collect()
    }

    fn latency<'a>(
        &'a self,
        name: &str,
        of: impl Fn(&'a Report) -> Option<&'a Latency>,
        statistics: &[Statistic],
    ) -> Vec<Figure> {
        let figure = |(statistic, read): &Statistic| {
            let values = self.runs.iter().map(|(_, report)| present(of(report)).map(*read));
            Figure::new(format!("{name} {statistic}"), Kind::Duration, values)
        };
        statistics.iter().map(figure).collect()
    }

    /// Differences that make a comparison doubtful.
    pub(super) fn differences(&self) -> Vec<String> {
        let mut differences = Vec::new();
        let mut differ = |what: &str, of: fn(&Report) -> String| {
            let values: BTreeSet<_> = self.runs.iter().map(|(_, report)| of(report)).collect();
            if values.len() > 1 {
                let values: Vec<_> = values.into_iter().collect();
                differences.push(format!("the runs differ in {what}: {}", values.join(", ")));
            }
        };
        differ("scenario", |report| report.run.scenario.clone());
        differ("members", |report| report.run.members.to_string());
        differ("groups", |report| report.run.groups.to_string());
        differ("partitions", |report| report.run.partitions.to_string());
        differ("host", |report| report.run.host.clone());
        differences
    }
}

/// One figure of all runs.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) values: Vec<Option<f64>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Milliseconds.
    Duration,
    Bytes,
    /// Less is better.
    Number,
    /// More is better.
    Rate,
}

impl Figure {
    fn new(name: String, kind: Kind, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self { name, kind, values: values.into_iter().collect() }
    }

    pub(super) fn shown(&self, run: usize) -> Option<String> {
        let value = self.values.get(run).copied()??;
        Some(match self.kind {
            Kind::Duration => millis(value),
            Kind::Bytes => bytes(value as u64),
            Kind::Number | Kind::Rate => number(value),
        })
    }

    /// The ratio of a run to the first; `None` if one of them has no value.
    pub(super) fn ratio(&self, run: usize) -> Option<f64> {
        let (first, value) = ((*self.values.first()?)?, (*self.values.get(run)?)?);
        (run > 0 && first > 0.0).then(|| value / first)
    }

    /// Whether it is better than the first by more than `by`, or worse.
    pub(super) fn better(&self, run: usize, by: f64) -> Option<bool> {
        let ratio = self.ratio(run)?;
        let less_is_better = self.kind != Kind::Rate;
        match ratio {
            r if r > by => Some(!less_is_better),
            r if r * by < 1.0 => Some(less_is_better),
            _ => None,
        }
    }
}

fn present(latency: Option<&Latency>) -> Option<&Latency> {
    latency.filter(|latency| latency.count > 0)
}

type Statistic = (&'static str, fn(&Latency) -> f64);

const PAUSE: [Statistic; 3] = [("p50", |l| l.p50), ("p99", |l| l.p99), ("max", |l| l.max)];
const STEADY: [Statistic; 3] = [("p50", |l| l.p50), ("p99", |l| l.p99), ("p99.9", |l| l.p999)];
const REBALANCE: [Statistic; 2] = [("p50", |l| l.p50), ("p99", |l| l.p99)];

/// Without connections and lookups, which say little about a coordinator.
const ROUND_TRIPS: [(RoundTrip, &[Statistic]); 8] = [
    (RoundTrip::Heartbeat, &STEADY),
    (RoundTrip::ConsumerHeartbeat, &STEADY),
    (RoundTrip::Commit, &STEADY),
    (RoundTrip::Fetch, &STEADY),
    (RoundTrip::JoinGroup, &REBALANCE),
    (RoundTrip::SyncGroup, &REBALANCE),
    (RoundTrip::ConsumerJoin, &REBALANCE),
    (RoundTrip::LeaveGroup, &REBALANCE),
];

type Single = (&'static str, Kind, fn(&Report) -> Option<f64>);

const SINGLE: [Single; 12] = [
    ("rebalances not settled", Kind::Number, |r| {
        Some(r.rebalances.iter().filter(|rebalance| rebalance.took.is_none()).count() as f64)
    }),
    ("commits a second", Kind::Rate, |r| rate(r, "commit")),
    ("heartbeats a second", Kind::Rate, |r| rate(r, "heartbeat")),
    ("consumer heartbeats a second", Kind::Rate, |r| rate(r, "consumer-heartbeat")),
    ("unowned partition-seconds", Kind::Number, |r| Some(r.unowned_partition_seconds)),
    ("revocations", Kind::Number, |r| Some(r.members.revocations as f64)),
    ("fenced members", Kind::Number, |r| Some(r.members.fenced as f64)),
    ("errors", Kind::Number, |r| Some(r.error_count() as f64)),
    ("violations", Kind::Number, |r| Some(r.violation_count() as f64)),
    ("server CPU", Kind::Duration, |r| Some(r.server.as_ref()?.cpu_seconds * 1e3)),
    ("server memory, most", Kind::Bytes, |r| Some(r.server.as_ref()?.memory_bytes_max as f64)),
    ("load generator CPU", Kind::Duration, |r| Some(r.load_generator.cpu_seconds * 1e3)),
];

/// Writes the comparison to standard output.
///
/// # Errors
///
/// Those of standard output.
pub fn print(runs: &Runs) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(render(runs, Paint::of(&output)).as_bytes())
}

pub(super) fn render(runs: &Runs, paint: Paint) -> String {
    let mut lines: Vec<_> = runs.differences().iter().map(|d| paint.warm(&plain(d))).collect();
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_style(TableComponent::HeaderLines, '─')
        .set_style(TableComponent::MiddleHeaderIntersections, '─')
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH.max(30 * runs.runs.len() as u16));
    let names = runs.runs.iter().map(|(name, _)| shortened(&plain(name), 24));
    table.set_header([String::new()].into_iter().chain(names));
    for figure in runs.figures() {
        let cells = (0..runs.runs.len()).map(|run| cell(&figure, run));
        table.add_row([figure.name.clone()].into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    lines.extend(table.lines().map(|line| line.trim_end().to_owned()));
    lines.join("\n") + "\n"
}

fn cell(figure: &Figure, run: usize) -> String {
    let value = figure.shown(run).unwrap_or("–".into());
    match figure.ratio(run) {
        Some(ratio) => format!("{value}  {:>6}×", number(ratio)),
        None if run > 0 => format!("{value}  {:>7}", ""),
        None => value,
    }
}
