//! The sentences about muster-load's own part in the figures.

use super::model::{Latency, LoadCore, Pace, Report};
use super::text::{millis, number};

/// The mark before a figure of which more than a tenth can be the load machine's own delay.
pub(super) const BLURRED: &str = "~";

/// The figures of a distribution, with their marks.
pub(super) struct Marked<'r> {
    latency: &'r Latency,
    undelayed: Option<&'r Latency>,
    pace: &'r Pace,
}

impl<'r> Marked<'r> {
    pub(super) fn new(report: &'r Report, name: &str, latency: &'r Latency) -> Self {
        Self { latency, undelayed: report.undelayed.get(name), pace: &report.pace }
    }

    /// The figures that count from when a request was written, not from when it was due.
    pub(super) fn as_sent(report: &'r Report, name: &str) -> Option<Self> {
        let latency = report.uncorrected.get(name)?;
        Some(Self { latency, undelayed: Some(latency), pace: &report.pace })
    }

    /// Mean, p50, p90, p99, p99.9 and maximum.
    pub(super) fn all(&self) -> [String; 6] {
        FIGURES.map(|figure| self.one(figure))
    }

    pub(super) fn one(&self, figure: Figure) -> String {
        let blurs = self.pace.blurs(self.latency, figure, self.undelayed);
        format!("{}{}", if blurs { BLURRED } else { "" }, millis(figure(self.latency)))
    }
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
    let [late, turns, writing] = [&core.late, &core.turns, &core.writing].map(times);
    let reading = match core.reading.count {
        0 => "not known".to_owned(),
        _ => times(&core.reading),
    };
    format!(
        "timers late by {late}; requests written after {writing}; answers read after {reading}; \
         turns of {turns}{waited}"
    )
}

/// Why the figures do not describe the cluster.
pub(super) fn could_not_keep_up(report: &Report) -> String {
    let bound = report.pace.bound.unwrap_or_default();
    format!(
        "this machine could not keep up: its timers were late by {} (p99, at most {} allowed), \
         so the figures are its own",
        millis(report.pace.late.p99),
        millis(bound),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// A report in which commits have the median `p50`, or `undelayed` without the delays.
    fn report(p50: f64, undelayed: f64) -> Report {
        let of = |p50| [("commit".to_owned(), Latency { count: 9, p50, ..Latency::default() })];
        Report {
            latencies: of(p50).into(),
            undelayed: of(undelayed).into(),
            uncorrected: of(undelayed).into(),
            ..sample::report()
        }
    }

    fn shown(report: &Report) -> [String; 2] {
        let as_due = Marked::new(report, "commit", &report.latencies["commit"]);
        let as_sent = Marked::as_sent(report, "commit").unwrap();
        [as_due, as_sent].map(|row| row.one(|latency| latency.p50))
    }

    #[test]
    fn a_figure_has_a_mark_from_a_tenth_of_own_delay_on() {
        assert_eq!(shown(&report(10.0, 8.9)), ["~10.0 ms", "8.90 ms"]);
        assert_eq!(shown(&report(10.0, 9.2)), ["10.0 ms", "9.20 ms"]);
    }

    /// At a median of 10 ms, turns of 0.01 ms are too short to matter, but turns of 2 ms are not.
    #[test]
    fn where_arrivals_are_not_known_answers_may_have_waited_for_a_turn() {
        let mut report = report(10.0, 10.0);
        report.pace.reading = Latency::default();
        assert_eq!(shown(&report), ["10.0 ms", "10.0 ms"]);
        report.pace.turns.p50 = 2.0;
        assert_eq!(shown(&report), ["~10.0 ms", "~10.0 ms"]);
    }

    #[test]
    fn what_is_no_round_trip_is_as_late_as_timers() {
        let mut report = report(10.0, 10.0);
        let pause = Latency { p50: 10.0, ..Latency::default() };
        let p50 = |report: &_| Marked::new(report, "pause", &pause).one(|latency| latency.p50);
        assert_eq!(p50(&report), "10.0 ms");
        report.pace.late.p50 = 1.5;
        assert_eq!(p50(&report), "~10.0 ms");
    }
}
