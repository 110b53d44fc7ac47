//! The page of several runs: one colour for each, the same axes for all.

use std::fmt::Write;

use super::charts::{self, run_class};
use super::markup::{Table, card, escape};
use super::page;
use super::plot::Plot;
use super::scale::{Scale, Unit};
use crate::driver::command::RoundTrip;
use crate::report::compare::{Figure, Runs};
use crate::report::model::{Latency, Report};
use crate::report::rebalances::distribution;
use crate::report::text::{counted, number};

/// Ratios closer to 1 than this may be noise, and get no colour.
const TELLING: f64 = 1.1;

const REBALANCES: &str = "From the trigger of a rebalance until the group was stable again; those \
                          that never were are left out. Lower is better.";
const PAUSES: &str = "How long members that should have had partitions had none. Lower is better.";

pub(super) fn render(runs: &Runs) -> String {
    let mut body = header(runs);
    body += &figures(runs);
    body += &timelines(runs);
    body += &latencies(runs);
    body += &over_time(runs);
    let names: Vec<_> = runs.each().iter().map(|(name, _)| name.as_str()).collect();
    page(&names.join(" and "), &body)
}

fn header(runs: &Runs) -> String {
    let names: Vec<_> = runs.each().iter().map(|(name, _)| escape(name)).collect();
    let mut html = format!("<header><h1>{}</h1>", names.join(" · "));
    html += "<p>Runs side by side: one colour for each run, the same axes for all, ratios to the \
             first.</p></header>";
    for difference in runs.differences() {
        let _ = write!(html, "<p class=\"warm\">Note that {}.</p>", escape(&difference));
    }
    let mut table = Table::new(&["run", "scenario", "against", "started", "members", "verdict"], 6);
    for (index, (name, report)) in runs.each().iter().enumerate() {
        let run = &report.run;
        let swatch = format!("<i class=\"swatch {}\"></i>{}", run_class(index), escape(name));
        let cells = [&run.scenario, &run.bootstrap, &run.started_at].map(|text| escape(text));
        let repetitions = match runs.repetitions(index) {
            1 => String::new(),
            several => format!(" ({several} times)"),
        };
        let swatch = swatch + &repetitions;
        let rest = [run.members.to_string(), verdict(report)];
        table.row([swatch].into_iter().chain(cells).chain(rest));
    }
    html + &card("The runs", "The others are compared with the first.", &table.end())
}

fn verdict(report: &Report) -> String {
    let counts = [
        (report.violation_count(), "violation"),
        (report.broken_thresholds(), "broken threshold"),
        (report.problem_count(), "problem"),
    ];
    match counts.into_iter().find(|(count, _)| *count > 0) {
        None => "<span class=\"good\">✓ kept its word</span>".into(),
        Some((count, what)) => format!("<span class=\"bad\">✗ {}</span>", counted(count, what)),
    }
}

fn figures(runs: &Runs) -> String {
    let names = runs.each().iter().map(|(name, _)| name.as_str());
    let head: Vec<_> = [""].into_iter().chain(names).collect();
    let mut table = Table::new(&head, 1);
    for figure in runs.figures() {
        let cells = (0..runs.each().len()).map(|run| cell(&figure, run));
        table.row([escape(&figure.name)].into_iter().chain(cells));
    }
    card(
        "Figures",
        "Times, counts and sizes: less is better; rates: more is better. × is the ratio to the \
         first run. Of runs with repetitions (--repeat) the median is shown, and the range; green \
         is better by more than a tenth, red is worse, and no colour is what can be chance: \
         ranges that overlap, and less than a factor of 2 between single runs.",
        &table.end(),
    )
}

fn cell(figure: &Figure, run: usize) -> String {
    let value = figure.shown(run).unwrap_or("–".into());
    let class = match figure.better(run, TELLING) {
        Some(true) => "good",
        Some(false) => "bad",
        None => "dim",
    };
    match figure.ratio(run) {
        Some(ratio) => format!("{value}<span class=\"ratio {class}\">{}×</span>", number(ratio)),
        None if run > 0 => format!("{value}<span class=\"ratio\"></span>"),
        None => value,
    }
}

fn timelines(runs: &Runs) -> String {
    let reports = || runs.each().iter().map(|(_, report)| report);
    let end = reports().map(|report| report.run.duration_seconds).fold(0.0, f64::max);
    let members = reports().map(|report| f64::from(report.run.members)).fold(0.0, f64::max);
    let plots = runs.each().iter().map(|(name, report)| {
        charts::states(report, end, members, &format!("Members by state: {name}")).render()
    });
    format!("<div class=\"pair\">{}</div>", plots.collect::<String>())
}

fn latencies(runs: &Runs) -> String {
    let rebalances: Vec<_> =
        runs.each().iter().map(|(_, report)| distribution(&report.rebalances)).collect();
    let many = |i: usize, _| rebalances.get(i).filter(|took| took.count >= 10);
    let mut html = percentiles("Rebalances by percentile", REBALANCES, runs, many);
    html += &percentiles("Pauses by percentile", PAUSES, runs, |_, report| Some(&report.pauses));
    for round_trip in RoundTrip::ALL {
        let title = format!("{}: time by percentile", round_trip.name());
        html += &percentiles(&title, charts::ROUND_TRIPS, runs, |_, report| {
            report.latencies.get(round_trip.name())
        });
    }
    format!("<div class=\"pair\">{html}</div>")
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

fn over_time(runs: &Runs) -> String {
    let named: Vec<_> = runs.each().iter().map(|(name, report)| (name.clone(), report)).collect();
    let mut html = charts::unowned(&named).render();
    for round_trip in RoundTrip::ALL {
        let name = round_trip.name();
        let plot = Plot {
            title: format!("{name}: answers a second"),
            explanation: "The cluster's answers in each step. Higher is better if the load was \
                          only limited by answers."
                .into(),
            y_name: "answers a second".into(),
            ..charts::lines_over_time(&named, |point| point.rates.get(name).copied())
        };
        if plot.series.iter().any(|s| s.values.iter().flatten().any(|rate| *rate > 0.0)) {
            html += &plot.render();
        }
    }
    html += &server(&named);
    format!("<div class=\"pair\">{html}</div>")
}

fn server(runs: &[(String, &Report)]) -> String {
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
    cpu.render() + &memory.render()
}
