//! Aligns the phases of several runs for charts: there, a phase begins at the same time in all runs
//! and is equally long, even if it took longer in some.

use super::{Figure, Kind, Question, Runs};
use std::collections::BTreeMap;

use crate::driver::command::RoundTrip;
use crate::report::model::{Latency, Phase, Point, Report};

/// The maximum number of phases that get figures. Charts show all.
const PHASES: usize = 20;
/// The name of a phase that a report contains only if something went wrong in it.
const WIND_DOWN: &str = "wind-down";
/// A time in seconds that is shorter than the distance between any two times of a run.
const INSTANT: f64 = 1e-7;
/// The requests that show how a phase affects a working group.
const STEADY: [RoundTrip; 4] =
    [RoundTrip::Heartbeat, RoundTrip::ConsumerHeartbeat, RoundTrip::Commit, RoundTrip::Fetch];

/// The phases of all runs, in order.
pub(in crate::report) struct Phases {
    names: Vec<String>,
    /// Whether each run has its phases in this order. If not, they have no common order.
    in_order: bool,
}

impl Phases {
    pub(in crate::report) fn of(runs: &Runs) -> Self {
        let mut phases = Self { names: Vec::new(), in_order: true };
        for (_, report) in runs.each() {
            phases.add(report);
        }
        phases
    }

    /// Adds the phases of a run. A phase whose name is new is inserted after the run's previous
    /// phase.
    fn add(&mut self, report: &Report) {
        let mut next = 0;
        for Phase { name, .. } in &report.phases {
            match self.names.iter().position(|known| known == name) {
                Some(at) => {
                    self.in_order &= at >= next;
                    next = at + 1;
                }
                None => {
                    self.names.insert(next, name.clone());
                    next += 1;
                }
            }
        }
    }

    /// A sentence on each phase that some runs lack.
    pub(super) fn missing(&self, runs: &Runs) -> Vec<String> {
        let expected = self.names.iter().filter(|name| *name != WIND_DOWN);
        let sentences = expected.filter_map(|name| {
            let lacks = |(_, report): &&(String, Report)| phase(report, name).is_none();
            let without = runs.each().iter().filter(lacks).map(|(run, _)| run.as_str());
            let without = Vec::from_iter(without).join(", ");
            (!without.is_empty()).then(|| format!("phase {name} is missing in {without}"))
        });
        sentences.collect()
    }

    /// The length of each of the first [`PHASES`] phases, and the p99 of its [`STEADY`] requests.
    pub(super) fn figures(&self, runs: &Runs) -> Vec<Figure> {
        let figures = self.names.iter().take(PHASES).flat_map(|name| {
            let duration = |report: &Report| phase(report, name).map(|p| (p.ended - p.began) * 1e3);
            let took =
                runs.figure(format!("phase {name}"), Question::Phases, Kind::Duration, duration);
            let p99 = STEADY.iter().map(move |of| {
                let read = |report: &Report| Some(latency(phase(report, name)?, *of)?.p99);
                let title = format!("phase {name}: {} p99", of.name());
                runs.figure(title, Question::Phases, Kind::Duration, read)
            });
            [took].into_iter().chain(p99)
        });
        figures.collect()
    }

    /// Copies of the runs for charts. In all of them, each phase begins at the same time, and is as
    /// long as in the slowest run. `None` if the runs do not have their phases in the same order.
    pub(in crate::report) fn aligned(&self, runs: &Runs) -> Option<Vec<(String, Report)>> {
        if !self.in_order || self.names.is_empty() {
            return None;
        }
        let slots = self.slots(runs);
        let aligned =
            runs.each().iter().map(|(name, report)| (name.clone(), moved(report, &slots)));
        Some(aligned.collect())
    }

    fn slots(&self, runs: &Runs) -> Vec<Slot> {
        let reports = || runs.each().iter().map(|(_, report)| report);
        let first = |report: &Report| report.phases.first().map_or(0.0, |phase| phase.began);
        let mut from = reports().map(first).fold(0.0, f64::max);
        let slot = |name: &String| {
            let took = |report| phase(report, name).map_or(0.0, |phase| phase.ended - phase.began);
            let slot = Slot {
                name: name.clone(),
                from,
                to: from + reports().map(took).fold(0.0, f64::max),
            };
            from = slot.to;
            slot
        };
        self.names.iter().map(slot).collect()
    }
}

struct Slot {
    name: String,
    from: f64,
    to: f64,
}

fn phase<'a>(report: &'a Report, name: &str) -> Option<&'a Phase> {
    report.phases.iter().find(|phase| phase.name == name)
}

fn latency(phase: &Phase, of: RoundTrip) -> Option<&Latency> {
    phase.latencies.get(of.name()).filter(|latency| latency.count > 0)
}

/// A copy of a run in which each phase begins at the time of its slot. If the run's phase was
/// shorter than the slot, the numbers of members and partitions stay the same until the next phase.
/// All other figures have no values in this gap.
fn moved(report: &Report, slots: &[Slot]) -> Report {
    let mut moved = report.clone();
    let slot_of = |phase: &Phase| slots.iter().find(|slot| slot.name == phase.name);
    let places = report.phases.iter().filter_map(|phase| Some((phase, slot_of(phase)?)));
    let places: Vec<(&Phase, &Slot)> = places.collect();
    // A time before a phase moves with that phase. A time after the last phase moves with the last
    // phase.
    let place = |at: f64| {
        let within = places.iter().find(|(phase, _)| at <= phase.ended);
        within.or(places.last()).map_or(at, |(phase, slot)| at - phase.began + slot.from)
    };
    moved.series.points.iter_mut().for_each(|point| point.at = place(point.at));
    // At the time at which a phase begins, a rebalance belongs to this phase, but the last step of
    // the series to the phase before it.
    let after = |at: f64| place(at + INSTANT) - INSTANT;
    let begun = moved.rebalances.iter_mut().chain(&mut moved.disruptions);
    begun.for_each(|rebalance| rebalance.began = after(rebalance.began));
    moved.run.duration_seconds = place(report.run.duration_seconds);
    for (phase, (_, slot)) in moved.phases.iter_mut().zip(&places) {
        (phase.began, phase.ended) = (slot.from, slot.to);
    }
    let step = report.series.step_seconds;
    for (phase, slot) in &places {
        let over = slot.from + phase.ended - phase.began + step;
        let last = report.series.points.iter().rfind(|point| point.at <= phase.ended);
        let held = |at| Point {
            at,
            members: last.map_or(BTreeMap::new(), |last| last.members.clone()),
            unowned_partitions: last.map_or(0, |last| last.unowned_partitions),
            ..Point::default()
        };
        let gap = [over, slot.to].into_iter().filter(|at| *at >= over && *at <= slot.to);
        moved.series.points.extend(gap.map(held));
    }
    moved.series.points.sort_by(|one, other| one.at.total_cmp(&other.at));
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::Rebalance;

    /// A run of phases with these lengths. The first begins at one second, and each second has a
    /// point.
    fn run(label: &str, phases: &[(&str, f64)]) -> (String, Report) {
        let mut report = Report::default();
        let mut began = 1.0;
        report.rebalances.push(Rebalance {
            group: "g".into(),
            trigger: "1 crashed".into(),
            began: began + phases[0].1,
            took: None,
            took_since_detected: None,
            superseded: false,
            members: 1,
            partitions: 1,
            moved: 0,
            revoked: 0,
        });
        for (name, length) in phases {
            let (name, ended) = ((*name).to_owned(), began + length);
            report.phases.push(Phase { name, began, ended, ..Phase::default() });
            began = ended;
        }
        report.run.duration_seconds = began + 0.5;
        report.series.step_seconds = 1.0;
        let members = || [("stable".to_owned(), 1)].into();
        let rates = || [("commit".to_owned(), 1.0)].into();
        let point = |at| Point {
            at: f64::from(at),
            members: members(),
            rates: rates(),
            ..Point::default()
        };
        report.series.points = (1..=began as u32).map(point).collect();
        (label.to_owned(), report)
    }

    fn bounds(report: &Report) -> Vec<(&str, f64, f64)> {
        report.phases.iter().map(|phase| (phase.name.as_str(), phase.began, phase.ended)).collect()
    }

    /// The times at which members exist, and the times at which the run waits for other runs.
    fn moments(report: &Report) -> (Vec<f64>, Vec<f64>) {
        let points = &report.series.points;
        assert!(points.iter().all(|point| !point.members.is_empty()), "a gap looks like an outage");
        let (waits, runs): (Vec<_>, Vec<_>) =
            points.iter().partition(|point| point.rates.is_empty());
        let at = |points: Vec<&Point>| points.iter().map(|point| point.at).collect();
        (at(runs), at(waits))
    }

    #[test]
    fn a_phase_has_the_same_place_in_all_runs() {
        let fast = run("fast", &[("form", 2.0), ("crash", 3.0)]);
        let slow = run("slow", &[("form", 6.0), ("crash", 4.0)]);
        let runs = Runs::of(vec![fast, slow]);
        let aligned = Phases::of(&runs).aligned(&runs).unwrap();
        for (_, report) in &aligned {
            assert_eq!(bounds(report), [("form", 1.0, 7.0), ("crash", 7.0, 11.0)]);
        }
        let trigger = aligned.iter().map(|(_, report)| report.rebalances[0].began.round());
        assert_eq!(Vec::from_iter(trigger), [7.0, 7.0], "with the phase that it begins");
        let (runs, waits) = moments(&aligned[0].1);
        assert_eq!(runs, [1.0, 2.0, 3.0, 8.0, 9.0, 10.0]);
        assert_eq!(waits, [4.0, 7.0, 11.0, 11.0]);
        assert!(moments(&aligned[1].1).1.is_empty());
    }

    #[test]
    fn a_phase_that_is_missing_is_named_and_keeps_its_place() {
        let one = run("one", &[("form", 2.0), ("crash", 3.0), ("end", 1.0)]);
        let other = run("other", &[("form", 2.0), ("grow", 5.0), ("end", 1.0)]);
        let runs = Runs::of(vec![one, other]);
        let phases = Phases::of(&runs);
        assert_eq!(phases.names, ["form", "grow", "crash", "end"]);
        let missing = ["phase grow is missing in one", "phase crash is missing in other"];
        assert_eq!(phases.missing(&runs), missing);
        let aligned = phases.aligned(&runs).unwrap();
        let last = aligned.iter().map(|(_, report)| report.phases[2].began);
        assert_eq!(Vec::from_iter(last), [11.0, 11.0]);
    }

    #[test]
    fn phases_in_another_order_are_not_aligned() {
        let runs = [run("a", &[("x", 1.0), ("y", 1.0)]), run("b", &[("y", 1.0), ("x", 1.0)])];
        let runs = Runs::of(runs.into());
        assert!(Phases::of(&runs).aligned(&runs).is_none());
    }

    #[test]
    fn each_phase_has_figures() {
        let runs = Runs::of(vec![run("a", &[("form", 2.0)]), run("b", &[("form", 3.0)])]);
        let figures = Phases::of(&runs).figures(&runs);
        assert_eq!(figures[0].name, "phase form");
        assert_eq!(figures[0].shown(1).unwrap(), "3.00 s");
    }
}
