//! The words on muster-load's own part in the figures.

use super::model::{Latency, LoadCore, Pace, Report};
use super::text::{millis, number};

/// Stands before a figure of which a tenth or more can be this machine's own lateness.
pub(super) const BLURRED: &str = "~";

/// Mean, p50, p90, p99, p99.9 and maximum, with marks.
pub(super) fn marked(latency: &Latency, pace: &Pace) -> [String; 6] {
    FIGURES.map(|figure| marked_one(latency, figure, pace))
}

/// One figure of a latency, with its mark.
pub(super) fn marked_one(latency: &Latency, figure: Figure, pace: &Pace) -> String {
    let value = figure(latency);
    let mark = if pace.blurs(value, figure) { BLURRED } else { "" };
    format!("{mark}{}", millis(value))
}

pub(super) type Figure = fn(&Latency) -> f64;

const FIGURES: [Figure; 6] = [|l| l.mean, |l| l.p50, |l| l.p90, |l| l.p99, |l| l.p999, |l| l.max];

/// A sentence for each core that generated load.
pub(super) fn pace(report: &Report) -> Vec<String> {
    let cores = &report.pace.cores;
    let several = cores.len() > 1;
    let seconds = report.run.duration_seconds;
    let of_core = |(number, core)| {
        let name = if several { format!("core {number}: ") } else { String::new() };
        name + &of_core(core, seconds)
    };
    cores.iter().enumerate().map(of_core).collect()
}

fn of_core(core: &LoadCore, seconds: f64) -> String {
    let times = |latency: &Latency| {
        let [p50, p99, max] = [latency.p50, latency.p99, latency.max].map(millis);
        format!("p50 {p50}, p99 {p99}, max {max}")
    };
    let waited = core.waited_seconds.map_or(String::new(), |waited| {
        let share = if seconds > 0.0 { waited / seconds * 100.0 } else { 0.0 };
        format!("; {} % of the time others had its CPU", number(share))
    });
    format!("timers late by {}; turns of {}{waited}", times(&core.late), times(&core.turns))
}

/// Why the figures are not the cluster's.
pub(super) fn could_not_keep_up(report: &Report) -> String {
    let bound = report.pace.bound.unwrap_or_default();
    format!(
        "this machine could not keep up: its timers were late by {} (p99, at most {} allowed), \
         so the figures are its own",
        millis(report.pace.late.p99),
        millis(bound),
    )
}
