//! Summarises many rebalances in a few lines, by trigger.

use std::collections::{BTreeMap, BTreeSet};

use super::disruptions::kind;
use super::model::{Latency, Rebalance, Report, Run};
use super::text::{millis, named};

/// Each table of groups in the scenario is summarised separately, if there are at most this many.
const ROLES: usize = 6;

/// All rebalances with the same kind of trigger. If the group tables of the scenario file are
/// summarised separately, all are of groups of one table.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Kind {
    /// The trigger without its number, such as `crashed` for `500 crashed`. If group tables are
    /// summarised separately, the name of the table follows: `crashed (orders)`.
    pub(super) name: String,
    pub(super) count: u64,
    pub(super) groups: u64,
    pub(super) took: Latency,
    pub(super) unsettled: u64,
    pub(super) moved: u64,
}

impl Kind {
    /// p50, p90, p99 and the maximum. Dashes if no rebalance of this kind ended with a stable
    /// group.
    pub(super) fn times(&self) -> [String; 4] {
        let Latency { p50, p90, p99, max, .. } = self.took;
        [p50, p90, p99, max]
            .map(|took| if self.took.count == 0 { "–".into() } else { millis(took) })
    }
}

/// The kinds, in the order of their first rebalances.
pub(super) fn by_kind(rebalances: &[Rebalance]) -> Vec<Kind> {
    let roles: BTreeSet<_> = rebalances.iter().map(|r| role(&r.group)).collect();
    let apart = (2..=ROLES).contains(&roles.len());
    let mut kinds: BTreeMap<_, Vec<&Rebalance>> = BTreeMap::new();
    for rebalance in rebalances {
        let role = if apart { role(&rebalance.group) } else { "" };
        kinds.entry((kind(&rebalance.trigger), role)).or_default().push(rebalance);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by(|(_, a), (_, b)| first(a).total_cmp(&first(b)));
    let name = |kind: &str, role| if apart { format!("{kind} ({role})") } else { kind.into() };
    kinds.into_iter().map(|((kind, role), of)| summed_up(name(kind, role), &of)).collect()
}

/// A sentence about the waits in a rebalance's time that the configuration causes.
pub(super) fn made_of(rebalance: &Rebalance, run: &Run) -> Option<String> {
    let took = rebalance.took?;
    let name = role(&rebalance.group);
    let group = run.group_configs.iter().find(|group| group.name == name)?;
    let (trigger, is_classic) = (kind(&rebalance.trigger), group.protocol == "classic");
    let delay = run.configs.get(INITIAL_DELAY).and_then(|delay| delay.parse::<f64>().ok());
    let waits = match (trigger, is_classic) {
        ("formation", true) => {
            let delay = delay.filter(|delay| *delay > 0.0 && took >= *delay)?;
            format!("{} are {INITIAL_DELAY}, again while members join", millis(delay))
        }
        ("crashed", _) => {
            let session = group.session_timeout;
            format!("the session timeout of {} had to pass first", millis(session))
        }
        (_, is_classic) => {
            let interval = group.heartbeat_interval;
            let of = if is_classic { "the rebalance" } else { "a new assignment" };
            if took * 4.0 < interval {
                return None;
            }
            format!("members learn of {of} with a heartbeat, every {}", millis(interval))
        }
    };
    Some(waits)
}

const INITIAL_DELAY: &str = "group.initial.rebalance.delay.ms";

/// The distribution of the times that the rebalances took. Rebalances after which the group did not
/// become stable have no time.
pub(super) fn distribution<'a>(rebalances: impl IntoIterator<Item = &'a Rebalance>) -> Latency {
    let mut took: Vec<_> = rebalances.into_iter().filter_map(|r| r.took).collect();
    took.sort_by(f64::total_cmp);
    let (Some(&min), Some(&max)) = (took.first(), took.last()) else { return Latency::default() };
    let at = |percentile: f64| {
        let rank = (percentile / 100.0 * took.len() as f64).ceil() as usize;
        took[rank.clamp(1, took.len()) - 1]
    };
    let percentiles =
        (0..took.len()).map(|i| (100.0 * (i + 1) as f64 / took.len() as f64, took[i]));
    Latency {
        count: took.len() as u64,
        mean: took.iter().sum::<f64>() / took.len() as f64,
        min,
        p50: at(50.0),
        p90: at(90.0),
        p99: at(99.0),
        p999: at(99.9),
        max,
        percentiles: percentiles.collect(),
    }
}

/// The times of disruptions. Empty if no rebalances overlapped: then they are the times of the
/// rebalances.
pub(super) fn disruption_times(report: &Report) -> Latency {
    let overlap = report.rebalances.iter().any(|rebalance| rebalance.superseded);
    if overlap { distribution(&report.disruptions) } else { Latency::default() }
}

/// The name of a group's table in the scenario, which is the same in all runs: `orders` for
/// `muster-load-x1y2z3-orders-17`.
fn role(group: &str) -> &str {
    let name = named(group);
    match name.rsplit_once('-') {
        Some((role, number)) if number.parse::<u32>().is_ok() => role,
        _ => name,
    }
}

fn first(rebalances: &[&Rebalance]) -> f64 {
    rebalances.iter().map(|r| r.began).fold(f64::INFINITY, f64::min)
}

fn summed_up(name: String, rebalances: &[&Rebalance]) -> Kind {
    let groups: BTreeSet<_> = rebalances.iter().map(|r| &r.group).collect();
    Kind {
        name,
        count: rebalances.len() as u64,
        groups: groups.len() as u64,
        took: distribution(rebalances.iter().copied()),
        unsettled: rebalances.iter().filter(|r| r.took.is_none()).count() as u64,
        moved: rebalances.iter().map(|r| u64::from(r.moved)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_the_same_name_in_every_run() {
        assert_eq!(role("muster-load-x1y2z3-orders-17"), "orders");
        assert_eq!(role("muster-load-x1y2z3-static-orders"), "static-orders");
        assert_eq!(role("orders"), "orders");
        assert_eq!(role("muster-load-"), "muster-load-");
        assert_eq!(kind("500 crashed"), "crashed");
        assert_eq!(kind("17"), "17");
    }
}
