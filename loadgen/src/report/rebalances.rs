//! Many rebalances told in few lines: by what set them off.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Latency, Rebalance};

/// All rebalances that the same kind of thing set off.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Kind {
    /// The trigger without its number: `crashed` for `500 crashed`.
    pub(super) name: String,
    pub(super) count: u64,
    pub(super) groups: u64,
    pub(super) took: Latency,
    pub(super) unsettled: u64,
    pub(super) moved: u64,
}

/// In the order in which the kinds first began.
pub(super) fn by_kind(rebalances: &[Rebalance]) -> Vec<Kind> {
    let mut kinds: BTreeMap<&str, Vec<&Rebalance>> = BTreeMap::new();
    for rebalance in rebalances {
        kinds.entry(kind(&rebalance.trigger)).or_default().push(rebalance);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by(|(_, a), (_, b)| first(a).total_cmp(&first(b)));
    kinds.into_iter().map(|(name, of)| told(name, &of)).collect()
}

/// Of those that settled.
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

/// The trigger without its number.
pub(super) fn kind(trigger: &str) -> &str {
    let words = trigger.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
    let words = words.trim_start();
    if words.is_empty() { trigger } else { words }
}

fn first(rebalances: &[&Rebalance]) -> f64 {
    rebalances.iter().map(|r| r.began).fold(f64::INFINITY, f64::min)
}

fn told(name: &str, rebalances: &[&Rebalance]) -> Kind {
    let groups: BTreeSet<_> = rebalances.iter().map(|r| &r.group).collect();
    Kind {
        name: name.into(),
        count: rebalances.len() as u64,
        groups: groups.len() as u64,
        took: distribution(rebalances.iter().copied()),
        unsettled: rebalances.iter().filter(|r| r.took.is_none()).count() as u64,
        moved: rebalances.iter().map(|r| u64::from(r.moved)).sum(),
    }
}
