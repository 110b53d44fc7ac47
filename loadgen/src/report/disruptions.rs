//! Disruptions: rebalances of a group that overlap count as one. A rolling deploy triggers a
//! rebalance every few seconds, but only the whole has a time until the group is stable.

use std::collections::BTreeMap;

use super::model::Rebalance;

/// Joins each superseded rebalance of a group with the group's next rebalance. `rebalances` are in
/// the order of time. If the run is not over, a group's last disruption is left out if it may still
/// continue.
pub(crate) fn disruptions(rebalances: &[Rebalance], run_is_over: bool) -> Vec<Rebalance> {
    let mut open: BTreeMap<&str, Vec<&Rebalance>> = BTreeMap::new();
    let mut all = Vec::new();
    for rebalance in rebalances {
        let overlapping = open.entry(&rebalance.group).or_default();
        overlapping.push(rebalance);
        if !rebalance.superseded {
            all.extend(joined(&std::mem::take(overlapping)));
        }
    }
    if run_is_over {
        all.extend(open.into_values().filter_map(|overlapping| joined(&overlapping)));
    }
    all.sort_by(|one, other| one.began.total_cmp(&other.began));
    all
}

fn joined(overlapping: &[&Rebalance]) -> Option<Rebalance> {
    let (first, last) = (*overlapping.first()?, *overlapping.last()?);
    let sum = |of: fn(&Rebalance) -> u32| {
        overlapping.iter().fold(0, |sum: u32, rebalance| sum.saturating_add(of(rebalance)))
    };
    let alone = overlapping.len() == 1;
    Some(Rebalance {
        trigger: in_words(overlapping),
        began: first.began,
        took: last.took.map(|took| took + (last.began - first.began) * 1e3),
        superseded: false,
        took_since_detected: last.took_since_detected.filter(|_| alone),
        moved: sum(|rebalance| rebalance.moved),
        revoked: sum(|rebalance| rebalance.revoked),
        ..last.clone()
    })
}

/// A description such as `10 × 500 left`, or the first trigger and the number of the others.
fn in_words(overlapping: &[&Rebalance]) -> String {
    let Some((first, others)) = overlapping.split_first() else { return String::new() };
    let first = &first.trigger;
    let of = |same: fn(&str) -> &str| others.iter().all(|it| same(&it.trigger) == same(first));
    match others.len() {
        0 => first.clone(),
        more if of(|trigger| trigger) => format!("{} × {first}", more + 1),
        more if of(kind) => format!("{} × {}", more + 1, kind(first)),
        more => format!("{first} and {more} more"),
    }
}

/// The trigger without its numbers.
pub(super) fn kind(trigger: &str) -> &str {
    let words =
        trigger.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ',' | '×' | ' '));
    if words.is_empty() { trigger } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rebalance of group `g` that began at `began` seconds. Without `took`, the next rebalance
    /// superseded it.
    fn rebalance(trigger: &str, began: f64, took: Option<f64>) -> Rebalance {
        Rebalance {
            group: "g".into(),
            trigger: trigger.into(),
            began,
            took,
            superseded: took.is_none(),
            took_since_detected: took,
            members: began as u32,
            partitions: 8,
            moved: 3,
            revoked: 2,
        }
    }

    #[test]
    fn rebalances_that_overlap_are_one_row() {
        let other = Rebalance { group: "h".into(), ..rebalance("formation", 2.5, Some(1e3)) };
        let all = [
            rebalance("formation", 0.0, Some(500.0)),
            rebalance("5 left", 2.0, None),
            other.clone(),
            rebalance("5 left", 4.0, None),
            rebalance("5 left", 6.0, Some(3e3)),
        ];
        let [formation, deploy, of_other] = &disruptions(&all, true)[..] else { panic!() };
        assert_eq!((formation, of_other), (&all[0], &other));
        let expected = Rebalance {
            moved: 9,
            revoked: 6,
            members: 6,
            took_since_detected: None,
            ..rebalance("3 × 5 left", 2.0, Some(7e3))
        };
        assert_eq!(*deploy, expected);
    }

    #[test]
    fn what_is_still_open_has_no_time_before_the_end_of_the_run() {
        let all = [rebalance("5 left", 2.0, None), rebalance("4 left", 4.0, None)];
        assert_eq!(disruptions(&all, false), []);
        let [never] = &disruptions(&all, true)[..] else { panic!() };
        assert_eq!((never.trigger.as_str(), never.took), ("2 × left", None));
        let mixed = [rebalance("5 left", 2.0, None), rebalance("1 crashed", 4.0, Some(1.0))];
        assert_eq!(disruptions(&mixed, true)[0].trigger, "5 left and 1 more");
        assert_eq!(kind("3 × 5 left"), "left");
    }
}
