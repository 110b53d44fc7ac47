//! The page of several runs. It first says how they differ, and then has a screen for each
//! question. Each run has one colour, and all charts have equal axes.

use std::fmt::Write;

use super::charts::{self, run_class};
use super::markup::{Table, card, escape};
use super::over_time::bands;
use super::page;
use super::plot::{Band, Plot};
use super::scale::{Scale, Unit};
use crate::driver::command::RoundTrip;
use crate::report::compare::{Figure, Phases, Question, Runs};
use crate::report::model::{Latency, Report};
use crate::report::rebalances::distribution;
use crate::report::text::{counted, number};

/// A ratio between this and its inverse may be noise, and gets no colour.
const TELLING: f64 = 1.1;

const REBALANCES: &str = "From the trigger of a rebalance until the group was stable again; those \
                          that never were are left out. Lower is better.";
const PAUSES: &str = "How long members that should have had partitions had none. Lower is better.";

pub(super) fn render(runs: &Runs) -> String {
    let mut body = header(runs);
    let figures = runs.figures();
    let drawn = Drawn::of(runs);
    for (question, asked) in QUESTIONS {
        let figures = figures.iter().filter(|figure| figure.question == question);
        body += &screen(asked, &Vec::from_iter(figures), &charts_of(question, runs, &drawn), runs);
    }
    body += &others(runs, &drawn);
    let names: Vec<_> = runs.each().iter().map(|(name, _)| name.as_str()).collect();
    page(&names.join(" and "), &body)
}

const QUESTIONS: [(Question, &str); 9] = [
    (Question::Rebalances, "How long do rebalances take?"),
    (Question::Pauses, "How long do members and partitions go without each other?"),
    (Question::Heartbeats, "How fast are heartbeats answered?"),
    (Question::Commits, "How fast are offsets committed and read?"),
    (Question::Transactions, "How fast are records and transactions written?"),
    (Question::Records, "How fast are the records of share groups delivered?"),
    (Question::Cost, "What does it cost?"),
    (Question::Faults, "What went wrong?"),
    (Question::Phases, "What took how long in which phase?"),
];

/// The differences of the runs. They come first, because they may explain all that follows.
fn header(runs: &Runs) -> String {
    let names: Vec<_> = runs.each().iter().map(|(name, _)| escape(name)).collect();
    let mut html = format!("<header><h1>{}</h1>", names.join(" · "));
    html += "<p>Runs side by side: one colour for each run, the same axes for all, ratios to the \
             first.</p></header>";
    for difference in runs.differences() {
        let _ = write!(html, "<p class=\"warm\">Note that {}.</p>", escape(&difference));
    }
    html += &card("The runs", "The others are compared with the first.", &list(runs));
    html + &format!("<p class=\"dim\">{}</p>", escape(LEGEND))
}

const LEGEND: &str = "Charts over time have the phases of all runs aligned; a run that is over \
                      with one waits as it is. Times, counts and \
                      sizes: less is better; rates: more is better. × is the ratio to the first \
                      run. Of runs with repetitions (--repeat) the median is \
                      shown, and the range; green is better by more than a tenth, red is worse, \
                      and no colour is what can be chance: ranges that overlap, and less than a \
                      factor of 2 between single runs. Nor has what a config \
                      explains in which the runs differ.";

fn list(runs: &Runs) -> String {
    let mut table = Table::new(&["run", "verdict", "scenario", "members", "against", "started"], 6);
    for (index, (name, report)) in runs.each().iter().enumerate() {
        let run = &report.run;
        let repetitions = match runs.repetitions(index) {
            1 => String::new(),
            several => format!(" ({several} times)"),
        };
        let name = format!("{}{}{repetitions}", swatch(index), escape(name));
        let [scenario, against, started] =
            [&run.scenario, &run.bootstrap, &run.started_at].map(|text| escape(text));
        table.row([name, verdict(report), scenario, run.members.to_string(), against, started]);
    }
    table.end()
}

fn swatch(run: usize) -> String {
    format!("<i class=\"swatch {}\"></i>", run_class(run))
}

fn verdict(report: &Report) -> String {
    let counts = [
        (report.violation_count(), "violation"),
        (report.broken_thresholds(), "broken threshold"),
        (report.problem_count(), "problem"),
    ];
    match counts.into_iter().find(|(count, _)| *count > 0) {
        None => "<span class=\"good\">✓ passed</span>".into(),
        Some((count, what)) => format!("<span class=\"bad\">✗ {}</span>", counted(count, what)),
    }
}

/// A question, its figures and its charts. Empty if there is no answer.
fn screen(asked: &str, figures: &[&Figure], charts: &str, runs: &Runs) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let head: Vec<_> = [""].into_iter().chain(names(runs)).collect();
    let mut table = Table::new(&head, 1);
    for figure in figures {
        let cells = (0..runs.each().len()).map(|run| cell(figure, run));
        table.row([escape(&figure.name)].into_iter().chain(cells));
    }
    format!(
        "<section class=\"screen\"><h2>{}</h2><div class=\"card\">{}</div>\
         <div class=\"pair\">{charts}</div></section>\n",
        escape(asked),
        table.end(),
    )
}

fn names(runs: &Runs) -> impl Iterator<Item = &str> {
    runs.each().iter().map(|(name, _)| name.as_str())
}

/// The runs as the charts over time show them.
struct Drawn {
    runs: Vec<(String, Report)>,
    bands: Vec<Band>,
    x_name: &'static str,
}

impl Drawn {
    /// Aligns the phases of the runs, if all have the same order of phases.
    fn of(runs: &Runs) -> Self {
        let Some(aligned) = Phases::of(runs).aligned(runs) else {
            let x_name = "seconds since the start of the run";
            return Self { runs: runs.each().to_vec(), bands: Vec::new(), x_name };
        };
        let most = aligned.iter().max_by_key(|(_, report)| report.phases.len());
        let bands = most.map_or(Vec::new(), |(_, report)| bands(report));
        Self { runs: aligned, bands, x_name: "seconds; each phase as long as in the slowest run" }
    }

    fn named(&self) -> Vec<(String, &Report)> {
        self.runs.iter().map(|(name, report)| (name.clone(), report)).collect()
    }

    fn plot(&self, plot: Plot) -> Plot {
        Plot { bands: self.bands.clone(), x_name: self.x_name.into(), ..plot }
    }
}

/// A figure of a run and its ratio to the first run's. On a narrow screen the ratio is shown below
/// the figure, so that it is not cut off.
fn cell(figure: &Figure, run: usize) -> String {
    let mut html = figure.shown_median(run).unwrap_or("–".into());
    if let Some(range) = figure.range(run) {
        let _ = write!(html, " <span class=\"range\">({range})</span>");
    }
    let class = match figure.better(run, TELLING) {
        Some(true) => " good",
        Some(false) => " bad",
        None => " dim",
    };
    let ratio = figure.ratio(run).map(|ratio| (class, format!("{}×", number(ratio))));
    let (class, ratio) = ratio.unwrap_or_default();
    if run > 0 {
        let why = figure.explained.as_ref().map_or(String::new(), |config| {
            format!(" title=\"{}\"", escape(&format!("explained by {config}")))
        });
        let _ = write!(html, "<span class=\"ratio{class}\"{why}>{ratio}</span>");
    }
    html
}

fn charts_of(question: Question, runs: &Runs, drawn: &Drawn) -> String {
    match question {
        Question::Rebalances => timelines(drawn) + &rebalances(runs),
        Question::Pauses => {
            percentiles("Pauses by percentile", PAUSES, runs, |_, report| Some(&report.pauses))
                + &drawn.plot(charts::unowned(&drawn.named())).render()
        }
        Question::Heartbeats => round_trips(&HEARTBEATS, runs, drawn),
        Question::Commits => round_trips(&COMMITS, runs, drawn),
        Question::Transactions => round_trips(&TRANSACTIONS, runs, drawn),
        Question::Records => round_trips(&RECORDS, runs, drawn),
        Question::Cost => server(drawn),
        Question::Faults | Question::Phases => String::new(),
    }
}

const HEARTBEATS: [RoundTrip; 4] = [
    RoundTrip::Heartbeat,
    RoundTrip::ConsumerHeartbeat,
    RoundTrip::ShareHeartbeat,
    RoundTrip::StreamsHeartbeat,
];
const RECORDS: [RoundTrip; 5] = [
    RoundTrip::Delivery,
    RoundTrip::ShareAcknowledge,
    RoundTrip::RedeliveryCrash,
    RoundTrip::RedeliveryRelease,
    RoundTrip::RedeliveryExpiry,
];
const COMMITS: [RoundTrip; 2] = [RoundTrip::Commit, RoundTrip::Fetch];
const TRANSACTIONS: [RoundTrip; 4] =
    [RoundTrip::Transaction, RoundTrip::Visible, RoundTrip::Produce, RoundTrip::EndTxn];

/// Round trips that do not belong to a question.
fn others(runs: &Runs, drawn: &Drawn) -> String {
    let asked = |of: &RoundTrip| {
        [&HEARTBEATS[..], &COMMITS, &TRANSACTIONS, &RECORDS].iter().any(|all| all.contains(of))
    };
    let others: Vec<_> = RoundTrip::ALL.into_iter().filter(|of| !asked(of)).collect();
    let charts = round_trips(&others, runs, drawn);
    format!(
        "<details class=\"others\"><summary>All other round trips</summary>\
         <div class=\"pair\">{charts}</div></details>\n"
    )
}

fn timelines(drawn: &Drawn) -> String {
    let reports = || drawn.runs.iter().map(|(_, report)| report);
    let end = reports().map(|report| report.run.duration_seconds).fold(0.0, f64::max);
    let members = reports().map(|report| f64::from(report.run.members)).fold(0.0, f64::max);
    let plots = drawn.runs.iter().map(|(name, report)| {
        let plot = charts::states(report, end, members, &format!("Members by state: {name}"));
        Plot { x_name: drawn.x_name.into(), ..plot }.render()
    });
    plots.collect()
}

fn rebalances(runs: &Runs) -> String {
    let all: Vec<_> =
        runs.each().iter().map(|(_, report)| distribution(&report.disruptions)).collect();
    let many = |i: usize, _| all.get(i).filter(|took| took.count >= 10);
    percentiles("Rebalances by percentile", REBALANCES, runs, many)
}

/// The times of each round trip, then the rates.
fn round_trips(all: &[RoundTrip], runs: &Runs, drawn: &Drawn) -> String {
    let times = all.iter().map(|of| {
        let title = format!("{}: time by percentile", of.name());
        percentiles(&title, charts::ROUND_TRIPS, runs, |_, report| report.latencies.get(of.name()))
    });
    let rates = all.iter().map(|of| rates(*of, drawn));
    times.chain(rates).collect()
}

fn percentiles<'a>(
    title: &str,
    explanation: &str,
    runs: &'a Runs,
    of: impl Fn(usize, &'a Report) -> Option<&'a Latency>,
) -> String {
    let lines = runs.each().iter().enumerate().filter_map(|(index, (name, report))| {
        let latency = of(index, report).filter(|latency| latency.count > 1)?;
        Some((name.clone(), run_class(index), latency))
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() {
        String::new()
    } else {
        charts::percentiles(title, explanation, &lines).render()
    }
}

fn rates(of: RoundTrip, drawn: &Drawn) -> String {
    let name = of.name();
    let plot = Plot {
        title: format!("{name}: answers a second"),
        explanation: "The cluster's answers in each step. Higher is better if the load was only \
                      limited by answers."
            .into(),
        y_name: "answers a second".into(),
        ..charts::lines_over_time(&drawn.named(), |point| point.rates.get(name).copied())
    };
    let plot = drawn.plot(plot);
    let occurs = plot.series.iter().any(|s| s.values.iter().flatten().any(|rate| *rate > 0.0));
    if occurs { plot.render() } else { String::new() }
}

fn server(drawn: &Drawn) -> String {
    let runs = &drawn.named();
    if runs.iter().all(|(_, report)| report.server.is_none()) {
        return String::new();
    }
    let cpu = Plot {
        title: "CPU of the server".into(),
        explanation: "Cores that it used. Lower is better.".into(),
        y_name: "cores".into(),
        ..charts::lines_over_time(runs, |point| point.server_cpu)
    };
    let memory = charts::lines_over_time(runs, |p| p.server_memory_bytes.map(|bytes| bytes as f64));
    let most = memory.series.iter().flat_map(|s| s.values.iter().flatten()).copied();
    let memory = Plot {
        title: "Memory of the server".into(),
        explanation: "Resident memory of its process. Lower is better.".into(),
        y: Scale::from_zero(Unit::Bytes, most.fold(0.0, f64::max)),
        y_name: "resident memory".into(),
        ..memory
    };
    drawn.plot(cpu).render() + &drawn.plot(memory).render()
}
