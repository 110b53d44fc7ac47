//! Reduces the number of points for a page, and marks times on the charts.

use std::collections::BTreeMap;

use super::plot::{Band, Mark};
use crate::report::disruptions::kind;
use crate::report::model::{Point, Rebalance, Report};
use crate::report::rebalances::distribution;
use crate::report::text::{clock, count, millis, named};

/// The maximum number of points. More would not be visible on a screen, and make the page long.
const POINTS: usize = 400;
/// The maximum number of marks that are made by time. If there are more, all rebalances of one kind
/// in a phase share a mark instead.
const MARKS: usize = 12;

/// Reduces a run to at most [`POINTS`] points. A new point stands for several, and has the worst of
/// their values: the fewest stable members, the most partitions without an owner, the highest p99.
/// Rates are the exception: it has their mean.
pub(super) fn thinned(points: &[Point]) -> Vec<Point> {
    let each = points.len().div_ceil(POINTS).max(1);
    points.chunks(each).map(worst).collect()
}

/// At each point, the mean of the figure over the last `seconds`. For figures that are read less
/// often than there are points.
pub(super) fn smoothed(
    points: &[Point],
    seconds: f64,
    figure: impl Fn(&Point) -> Option<f64>,
) -> Vec<Option<f64>> {
    let mean = |last: usize| {
        let until = figure(&points[last]).map(|_| points[last].at)?;
        let near = points[..=last].iter().rev().take_while(|point| point.at > until - seconds);
        let values: Vec<_> = near.filter_map(&figure).collect();
        Some(values.iter().sum::<f64>() / values.len().max(1) as f64)
    };
    (0..points.len()).map(mean).collect()
}

fn worst(points: &[Point]) -> Point {
    let stable = |point: &&Point| point.members.get("stable").copied().unwrap_or(0);
    let Some(calm) = points.iter().min_by_key(stable) else { return Point::default() };
    let mut worst = calm.clone();
    let count = points.len() as f64;
    for point in points {
        worst.at = worst.at.max(point.at);
        worst.unowned_partitions = worst.unowned_partitions.max(point.unowned_partitions);
        worst.client_partitions = worst.client_partitions.max(point.client_partitions);
        worst.server_memory_bytes = worst.server_memory_bytes.max(point.server_memory_bytes);
        for (name, p99) in &point.p99 {
            let highest = worst.p99.entry(name.clone()).or_default();
            *highest = highest.max(*p99);
        }
    }
    worst.rates = BTreeMap::new();
    for (name, rate) in points.iter().flat_map(|point| &point.rates) {
        *worst.rates.entry(name.clone()).or_default() += rate / count;
    }
    let cpu: f64 = points.iter().filter_map(|point| point.server_cpu).sum();
    worst.server_cpu = worst.server_cpu.map(|_| cpu / count);
    worst
}

pub(super) fn bands(report: &Report) -> Vec<Band> {
    let band = |phase: &crate::report::model::Phase| Band {
        name: phase.name.clone(),
        from: phase.began,
        to: phase.ended,
        problem: phase.problem.is_some(),
    };
    report.phases.iter().map(band).collect()
}

/// The triggers of rebalances, with their times.
pub(super) fn marks(report: &Report) -> Vec<Mark> {
    let moment = report.run.duration_seconds / 100.0;
    let at_once = grouped(report, |r| (r.began / moment.max(0.001)) as u64);
    if at_once.len() <= MARKS {
        return at_once;
    }
    let phase_of = |r: &Rebalance| {
        report.phases.iter().position(|phase| r.began < phase.ended).unwrap_or(usize::MAX) as u64
    };
    let mut by_phase = grouped(report, phase_of);
    by_phase.truncate(2 * MARKS);
    by_phase
}

/// Makes a mark for all rebalances with the same kind of trigger and the same `place`.
fn grouped(report: &Report, place: impl Fn(&Rebalance) -> u64) -> Vec<Mark> {
    let mut groups: BTreeMap<(u64, &str), Vec<&Rebalance>> = BTreeMap::new();
    for rebalance in &report.rebalances {
        groups.entry((place(rebalance), kind(&rebalance.trigger))).or_default().push(rebalance);
    }
    let mut marks: Vec<_> = groups.values().map(|of| mark(of)).collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
}

fn mark(rebalances: &[&Rebalance]) -> Mark {
    let at = rebalances.iter().map(|r| r.began).fold(f64::INFINITY, f64::min);
    let unsettled = rebalances.iter().filter(|r| r.took.is_none() && !r.superseded).count() as u64;
    let superseded = rebalances.iter().filter(|r| r.superseded).count() as u64;
    let took = distribution(rebalances.iter().copied());
    let text = match rebalances {
        [one] => {
            let took = match one.took {
                Some(took) => format!("stable after {}", millis(took)),
                None if one.superseded => "the next trigger came before it was stable".into(),
                None => "not stable again".into(),
            };
            format!("{}: {}, {}: {took}", clock(at), named(&one.group), one.trigger)
        }
        several => {
            let (name, first) = (kind(&several[0].trigger), &several[0].trigger);
            let name =
                if several.iter().all(|r| r.trigger == *first) { first.as_str() } else { name };
            let settled = match took.count {
                0 if superseded > 0 => {
                    format!("the next came before it was stable, {superseded} times")
                }
                0 => "none stable again".into(),
                _ if millis(took.min) == millis(took.max) => {
                    format!("stable after {}", millis(took.max))
                }
                _ => format!("stable after {} to {}", millis(took.min), millis(took.max)),
            };
            let open = match unsettled {
                0 => String::new(),
                n => format!(", {} not stable again", count(n)),
            };
            format!(
                "{}: {name}, {} rebalances: {settled}{open}",
                clock(at),
                count(several.len() as u64)
            )
        }
    };
    Mark { at, text }
}
