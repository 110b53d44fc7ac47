//! Several runs side by side: all figures, and their ratios to those of the first run.

mod aligned;
mod explained;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use comfy_table::{CellAlignment, ContentArrangement, Table, TableComponent, presets};

pub(super) use self::aligned::Phases;
use super::files::FileError;
use super::json;
use super::model::{GroupConfigs, Latency, Report};
use super::rebalances::by_kind;
use super::text::{Paint, bytes, millis, number, plain, shortened};
use super::thresholds::rate;
use crate::driver::command::RoundTrip;

const WIDTH: u16 = 100;

/// Named runs, each of which may have several repetitions. All are compared with the first.
pub struct Runs {
    /// The name and the first repetition of each run.
    runs: Vec<(String, Report)>,
    repetitions: Vec<Vec<Report>>,
}

impl Runs {
    /// Reads result files. The name of a run is its label, or else its file. Repetitions with the
    /// same label belong to one run.
    ///
    /// # Errors
    ///
    /// The errors of [`json::load`], for the first file that fails.
    pub fn load(paths: &[impl AsRef<Path>]) -> Result<Self, FileError> {
        let load = |path: &Path| {
            let report = json::load(path)?;
            let file = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
            Ok((report.run.label.clone().unwrap_or(file.into_owned()), report))
        };
        paths.iter().map(|path| load(path.as_ref())).collect::<Result<_, _>>().map(Self::of)
    }

    /// Results with the same name are repetitions of one run, if the user repeated the run.
    /// Otherwise they are different runs, and all but the first get a number after the name.
    pub fn of(named: Vec<(String, Report)>) -> Self {
        let mut all = Self { runs: Vec::new(), repetitions: Vec::new() };
        for (name, report) in named {
            all.add(name, report);
        }
        all
    }

    fn add(&mut self, name: String, report: Report) {
        let repeats = |(other, first): &(String, Report)| {
            *other == name && first.run.repetition.is_some() && report.run.repetition.is_some()
        };
        if let Some(at) = self.runs.iter().position(repeats) {
            return self.repetitions[at].push(report);
        }
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let taken = |name: &String| self.runs.iter().any(|(other, _)| other == name);
        let free = [name.clone()].into_iter().chain(numbered).find(|name| !taken(name));
        self.runs.push((free.unwrap_or(name), report.clone()));
        self.repetitions.push(vec![report]);
    }

    /// The number of repetitions of a run.
    pub(super) fn repetitions(&self, run: usize) -> usize {
        self.repetitions.get(run).map_or(0, Vec::len)
    }

    /// Reads a figure from all runs.
    pub(super) fn figure(
        &self,
        name: String,
        question: Question,
        kind: Kind,
        read: impl Fn(&Report) -> Option<f64>,
    ) -> Figure {
        let measured = self.repetitions.iter().map(|reports| {
            let mut values: Vec<f64> = reports.iter().filter_map(&read).collect();
            values.sort_by(f64::total_cmp);
            values
        });
        Figure { name, question, kind, measured: measured.collect(), explained: None }
    }

    pub(super) fn each(&self) -> &[(String, Report)] {
        &self.runs
    }

    /// All figures that at least one run has.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = self.rebalances();
        let pauses = self.latency("pause", Question::Pauses, |report| Some(&report.pauses), &PAUSE);
        figures.extend(pauses);
        for (round_trip, question, statistics) in ROUND_TRIPS {
            let name = round_trip.name();
            let times =
                self.latency(name, question, |report| report.latencies.get(name), statistics);
            figures.extend(times);
        }
        let single = |(name, question, kind, read): Single| {
            self.figure(name.to_owned(), question, kind, read)
        };
        figures.extend(SINGLE.map(single));
        figures.extend(Phases::of(self).figures(self));
        self.explain(&mut figures);
        figures.retain(|figure| figure.measured.iter().flatten().any(|value| *value != 0.0));
        figures
    }

    fn rebalances(&self) -> Vec<Figure> {
        let reports = self.repetitions.iter().flatten();
        let kinds: Vec<_> = reports.map(|report| by_kind(&report.disruptions)).collect();
        let mut names: Vec<&str> = Vec::new();
        for kind in kinds.iter().flatten() {
            if !names.contains(&kind.name.as_str()) {
                names.push(&kind.name);
            }
        }
        let several = |name: &str| kinds.iter().flatten().any(|k| k.name == name && k.count > 1);
        let figure = |name: &str, statistic: &str, read: fn(&Latency) -> f64| {
            let of = |report: &Report| {
                let kinds = by_kind(&report.disruptions);
                let kind = kinds.iter().find(|kind| kind.name == name)?;
                present(Some(&kind.took)).map(read)
            };
            let name = format!("rebalance, {name}{statistic}");
            self.figure(name, Question::Rebalances, Kind::Duration, of)
        };
        let figures = names.into_iter().flat_map(|name| {
            if several(name) {
                vec![figure(name, " p50", |took| took.p50), figure(name, " max", |took| took.max)]
            } else {
                vec![figure(name, "", |took| took.max)]
            }
        });
        figures.collect()
    }

    fn latency(
        &self,
        name: &str,
        question: Question,
        of: impl Fn(&Report) -> Option<&Latency>,
        statistics: &[Statistic],
    ) -> Vec<Figure> {
        let figure = |(statistic, read): &Statistic| {
            let read = |report: &Report| present(of(report)).map(*read);
            self.figure(format!("{name} {statistic}"), question, Kind::Duration, read)
        };
        statistics.iter().map(figure).collect()
    }

    /// Differences that make a comparison doubtful.
    pub(super) fn differences(&self) -> Vec<String> {
        let mut differences = self.config_differences();
        let mut differ = |what: &str, of: fn(&Report) -> String| {
            differences.extend(self.difference(what, of));
        };
        differ("groups' configuration", |report| {
            let groups = report.run.group_configs.iter().map(group_in_words);
            Vec::from_iter(groups).join(", ")
        });
        differ("scenario", |report| report.run.scenario.clone());
        differ("members", |report| report.run.members.to_string());
        differ("producers", |report| report.run.producers.to_string());
        differ("groups", |report| report.run.groups.to_string());
        differ("partitions", |report| report.run.partitions.to_string());
        differ("host", |report| report.run.host.clone());
        differences.extend(Phases::of(self).missing(self));
        differences
    }

    /// The broker configs that differ between the runs. A config that is missing in a run is left
    /// out.
    fn config_differences(&self) -> Vec<String> {
        let first = self.runs.first().map(|(_, report)| &report.run.configs);
        let keys = first.into_iter().flatten().map(|(key, _)| key);
        let known = |key: &&String| self.runs.iter().all(|(_, r)| r.run.configs.contains_key(*key));
        let differences = keys.filter(known).filter_map(|key| {
            self.difference(key, |report| report.run.configs.get(key).cloned().unwrap_or_default())
        });
        differences.collect()
    }

    fn difference(&self, what: &str, of: impl Fn(&Report) -> String) -> Option<String> {
        let values: Vec<_> = self.runs.iter().map(|(name, report)| (name, of(report))).collect();
        let distinct: BTreeSet<_> = values.iter().map(|(_, value)| value).collect();
        let shown = values.iter().map(|(name, value)| format!("{value} ({name})"));
        let shown = || Vec::from_iter(shown).join(", ");
        (distinct.len() > 1).then(|| format!("the runs differ in {what}: {}", shown()))
    }
}

fn group_in_words(group: &GroupConfigs) -> String {
    let GroupConfigs { name, protocol, assignors, session_timeout, heartbeat_interval } = group;
    if *session_timeout == 0.0 {
        return format!("{name} {protocol}");
    }
    let assignors = assignors.join(" and ");
    let [session, heartbeat] = [*session_timeout, *heartbeat_interval].map(millis);
    format!("{name} {protocol} {assignors}, session {session}, heartbeat {heartbeat}")
}

/// One figure of all runs.
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) question: Question,
    pub(super) kind: Kind,
    /// For each run, the values of its repetitions, ascending.
    measured: Vec<Vec<f64>>,
    /// A config that influences this figure, and has another value in another run. If there is one,
    /// the ratio of the figures says nothing about the clusters.
    pub(super) explained: Option<String>,
}

/// The question that a figure answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Question {
    Rebalances,
    Pauses,
    Heartbeats,
    Commits,
    Transactions,
    /// How fast are records delivered, delivered again and acknowledged?
    Records,
    Cost,
    Faults,
    Phases,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A duration in milliseconds. Less is better.
    Duration,
    Bytes,
    /// A number. Less is better.
    Number,
    /// A rate. More is better.
    Rate,
}

/// A run without repetitions proves little. So if one of the two runs has none, their figures only
/// get a colour if they differ by more than this factor.
const SINGLE_RUNS: f64 = 2.0;

impl Figure {
    /// The median of the repetitions, with their range if there are several.
    pub(super) fn shown(&self, run: usize) -> Option<String> {
        let median = self.shown_median(run)?;
        Some(match self.range(run) {
            Some(range) => format!("{median} ({range})"),
            None => median,
        })
    }

    pub(super) fn shown_median(&self, run: usize) -> Option<String> {
        self.median(run).map(|value| self.shown_value(value))
    }

    /// The range of the repetitions, if they differ.
    pub(super) fn range(&self, run: usize) -> Option<String> {
        match &self.measured.get(run)?[..] {
            [least, .., most] if least < most => {
                let [least, most] = [*least, *most].map(|value| self.shown_value(value));
                Some(format!("{least} to {most}"))
            }
            _ => None,
        }
    }

    fn shown_value(&self, value: f64) -> String {
        match self.kind {
            Kind::Duration => millis(value),
            Kind::Bytes => bytes(value as u64),
            Kind::Number | Kind::Rate => number(value),
        }
    }

    fn median(&self, run: usize) -> Option<f64> {
        let values = self.measured.get(run)?;
        values.get(values.len().checked_sub(1)? / 2).copied()
    }

    /// The ratio of a run's figure to that of the first run. `None` for the first run itself. Also
    /// `None` if one of the two runs has no value, or if the first run's value is 0.
    pub(super) fn ratio(&self, run: usize) -> Option<f64> {
        let (first, value) = (self.median(0)?, self.median(run)?);
        (run > 0 && first > 0.0).then(|| value / first)
    }

    /// Compares the figure with the first run's: `Some(true)` if it is better by more than the
    /// factor `by`, `Some(false)` if it is worse by more than this factor. If one of the two runs
    /// has no repetitions, the factor is at least [`SINGLE_RUNS`]. `None` if the figures differ
    /// less, if a config explains the difference, or if it can be chance, because the ranges of the
    /// repetitions overlap.
    pub(super) fn better(&self, run: usize, by: f64) -> Option<bool> {
        let ratio = self.ratio(run)?;
        let (first, these) = (&self.measured[0], &self.measured[run]);
        let is_single = first.len() < 2 || these.len() < 2;
        let by = if is_single { by.max(SINGLE_RUNS) } else { by };
        let overlaps = first.first() <= these.last() && these.first() <= first.last();
        let less_is_better = self.kind != Kind::Rate;
        match ratio {
            _ if overlaps || self.explained.is_some() => None,
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

/// All except connections, lookups (of coordinators, metadata and start offsets), and fetches that
/// wait for records. These say little about a coordinator.
const ROUND_TRIPS: [(RoundTrip, Question, &[Statistic]); 26] = [
    (RoundTrip::Heartbeat, Question::Heartbeats, &STEADY),
    (RoundTrip::ConsumerHeartbeat, Question::Heartbeats, &STEADY),
    (RoundTrip::Commit, Question::Commits, &STEADY),
    (RoundTrip::Fetch, Question::Commits, &STEADY),
    (RoundTrip::JoinGroup, Question::Rebalances, &REBALANCE),
    (RoundTrip::SyncGroup, Question::Rebalances, &REBALANCE),
    (RoundTrip::ConsumerJoin, Question::Rebalances, &REBALANCE),
    (RoundTrip::LeaveGroup, Question::Rebalances, &REBALANCE),
    (RoundTrip::Transaction, Question::Transactions, &STEADY),
    (RoundTrip::Visible, Question::Transactions, &STEADY),
    (RoundTrip::Produce, Question::Transactions, &STEADY),
    (RoundTrip::EndTxn, Question::Transactions, &STEADY),
    (RoundTrip::TxnOffsetCommit, Question::Transactions, &STEADY),
    (RoundTrip::AddPartitions, Question::Transactions, &STEADY),
    (RoundTrip::AddOffsets, Question::Transactions, &STEADY),
    (RoundTrip::InitProducerId, Question::Transactions, &REBALANCE),
    (RoundTrip::ShareHeartbeat, Question::Heartbeats, &STEADY),
    (RoundTrip::ShareJoin, Question::Rebalances, &REBALANCE),
    (RoundTrip::StreamsHeartbeat, Question::Heartbeats, &STEADY),
    (RoundTrip::StreamsJoin, Question::Rebalances, &REBALANCE),
    (RoundTrip::Hold, Question::Rebalances, &REBALANCE),
    (RoundTrip::Delivery, Question::Records, &STEADY),
    (RoundTrip::ShareAcknowledge, Question::Records, &STEADY),
    (RoundTrip::RedeliveryCrash, Question::Records, &REBALANCE),
    (RoundTrip::RedeliveryRelease, Question::Records, &REBALANCE),
    (RoundTrip::RedeliveryExpiry, Question::Records, &REBALANCE),
];

type Single = (&'static str, Question, Kind, fn(&Report) -> Option<f64>);

const SINGLE: [Single; 16] = [
    ("rebalances not settled", Question::Rebalances, Kind::Number, |r| {
        Some(r.disruptions.iter().filter(|rebalance| rebalance.took.is_none()).count() as f64)
    }),
    ("commits a second", Question::Commits, Kind::Rate, |r| rate(r, "commit")),
    ("heartbeats a second", Question::Heartbeats, Kind::Rate, |r| rate(r, "heartbeat")),
    ("consumer heartbeats a second", Question::Heartbeats, Kind::Rate, |r| {
        rate(r, "consumer-heartbeat")
    }),
    ("records delivered a second", Question::Records, Kind::Rate, |r| rate(r, "delivery")),
    ("records delivered again", Question::Records, Kind::Number, |r| {
        (!r.shares.are_none()).then_some(r.shares.redelivered as f64)
    }),
    ("transactions a second", Question::Transactions, Kind::Rate, |r| rate(r, "transaction")),
    ("transactions aborted", Question::Transactions, Kind::Number, |r| {
        (!r.transactions.are_none()).then_some(r.transactions.aborted as f64)
    }),
    ("unowned partition-seconds", Question::Pauses, Kind::Number, |r| {
        Some(r.unowned_partition_seconds)
    }),
    ("revocations", Question::Pauses, Kind::Number, |r| Some(r.members.revocations as f64)),
    ("fenced members", Question::Faults, Kind::Number, |r| Some(r.members.fenced as f64)),
    ("errors", Question::Faults, Kind::Number, |r| Some(r.error_count() as f64)),
    ("violations", Question::Faults, Kind::Number, |r| Some(r.violation_count() as f64)),
    ("server CPU", Question::Cost, Kind::Duration, |r| Some(r.server.as_ref()?.cpu_seconds * 1e3)),
    ("server memory, most", Question::Cost, Kind::Bytes, |r| {
        Some(r.server.as_ref()?.memory_bytes_max as f64)
    }),
    ("load generator CPU", Question::Cost, Kind::Duration, |r| {
        Some(r.load_generator.cpu_seconds * 1e3)
    }),
];

/// Writes the comparison to standard output.
///
/// # Errors
///
/// Writing to standard output fails.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Two runs of five repetitions each, slower by these factors.
    fn repeated(factors: [(&str, [f64; 5]); 2]) -> Runs {
        let runs = factors.into_iter().flat_map(|(name, factors)| {
            (1..).zip(factors).map(move |(repetition, factor)| {
                let mut report = sample::report_slower(factor, name);
                report.run.repetition = Some(repetition);
                (name.to_owned(), report)
            })
        });
        Runs::of(runs.collect())
    }

    fn coloured(runs: &Runs) -> Vec<(String, bool)> {
        let figures = runs.figures().into_iter();
        figures.filter_map(|figure| Some((figure.name.clone(), figure.better(1, 1.1)?))).collect()
    }

    #[test]
    fn repetitions_are_one_run_with_a_median_and_a_range() {
        let runs = repeated([("a", [1.0, 1.3, 0.9, 1.1, 1.2]), ("b", [2.0; 5])]);
        let names = runs.each().iter().map(|(name, _)| name.as_str());
        assert_eq!(Vec::from_iter(names), ["a", "b"]);
        assert_eq!((runs.repetitions(0), runs.repetitions(1)), (5, 5));
        let figures = runs.figures();
        let p50 = figures.iter().find(|figure| figure.name == "commit p50").unwrap();
        assert_eq!(p50.shown(0).unwrap(), "671 µs (549 µs to 793 µs)");
        assert_eq!(p50.shown(1).unwrap(), "1.22 ms");
    }

    #[test]
    fn differences_within_the_spread_have_no_colour() {
        let equal = repeated([("a", [1.0, 1.6, 0.8, 1.1, 1.2]), ("b", [1.5, 0.9, 1.4, 1.5, 1.3])]);
        assert_eq!(coloured(&equal), []);
        let slower = repeated([("a", [1.0, 1.1, 0.9, 1.0, 1.1]), ("b", [1.4, 1.3, 1.5, 1.4, 1.3])]);
        let worse = coloured(&slower);
        assert!(worse.contains(&("commit p99".into(), false)), "{worse:?}");
        let single = |factor, name| (name, sample::report_slower(factor, name));
        let singles = [single(1.0, "a"), single(1.5, "b")].map(|(n, r)| (n.to_owned(), r));
        assert_eq!(coloured(&Runs::of(singles.into())), [], "one run is no measurement");
    }

    #[test]
    fn configs_that_differ_come_first() {
        let delay = |value: &str| {
            let mut report = sample::report();
            let key = "group.initial.rebalance.delay.ms".to_owned();
            report.run.configs = [(key, value.to_owned())].into();
            report.run.scenario = value.into();
            (value.to_owned(), report)
        };
        let runs = Runs::of(vec![delay("0"), delay("3000")]);
        let first = "the runs differ in group.initial.rebalance.delay.ms: 0 (0), 3000 (3000)";
        assert_eq!(runs.differences()[0], first);
    }
}
