//! The costs of each phase for the members of its groups, as columns of a table.

use super::model::{Latency, Phase, Report};
use super::text::{clock, count, millis, number};
use crate::driver::command::RoundTrip;

/// The heads of the columns that a table omits if it would be too wide.
pub(super) const SPARE: &[&str] = &["pauses", "at", "took", "delivery p50"];

pub(super) struct Column {
    pub(super) head: &'static str,
    of: fn(&Report, &Phase) -> Option<String>,
}

impl Column {
    /// The phase's value in this column. Empty if it has none.
    pub(super) fn shown(&self, report: &Report, phase: &Phase) -> String {
        (self.of)(report, phase).unwrap_or_default()
    }
}

const COLUMNS: [Column; 9] = [
    Column { head: "at", of: |_, phase| Some(clock(phase.began)) },
    Column { head: "took", of: |_, phase| Some(millis((phase.ended - phase.began) * 1e3)) },
    Column { head: "disruption max", of: disruption },
    Column { head: "pauses", of: |_, phase| some(phase.pauses.count as f64, number) },
    Column { head: "pause max", of: |_, phase| some(phase.pauses.max, millis) },
    Column { head: "without owner", of: |_, phase| some(phase.unowned_partition_seconds, number) },
    Column { head: "delivery p50", of: |_, phase| delivery(phase, |it| it.p50) },
    Column { head: "delivery max", of: |_, phase| delivery(phase, |it| it.max) },
    Column {
        head: "doubled",
        of: |_, phase| (phase.delivered > 0).then(|| count(phase.redelivered)),
    },
];

/// The columns for which at least one phase has a value.
pub(super) fn columns(report: &Report) -> Vec<&'static Column> {
    let has = |column: &&Column| report.phases.iter().any(|it| (column.of)(report, it).is_some());
    COLUMNS.iter().filter(has).collect()
}

fn disruption(report: &Report, phase: &Phase) -> Option<String> {
    let begun = report.of_phase(phase).disruptions;
    let longest = begun.iter().map(|it| it.took.unwrap_or(f64::INFINITY)).reduce(f64::max)?;
    Some(if longest.is_infinite() { "not settled".into() } else { millis(longest) })
}

fn delivery(phase: &Phase, figure: fn(&Latency) -> f64) -> Option<String> {
    phase.latencies.get(RoundTrip::Delivery.name()).map(|latency| millis(figure(latency)))
}

fn some(figure: f64, shown: fn(f64) -> String) -> Option<String> {
    (figure > 0.0).then(|| shown(figure))
}
