//! The lag of groups: of those with the most, and of those that `admin.lag.groups` names.

use super::family::{Families, Labels, Type};
use crate::operator::{GroupLag, Survey};

/// The most groups that `admin.lag.groups` adds.
const CHOSEN_MAX: usize = 10_000;

/// The metrics: name, help, labels.
pub(super) const ROWS: &[(&str, &str, &str)] = &[
    (
        "muster_group_lag",
        "Records of a partition that a group has not committed: its end less the committed offset.",
        "group, topic, partition",
    ),
    ("muster_group_lag_sum", "The sum over the partitions of a group.", "group, kind"),
    ("muster_group_lag_age_seconds", "The time since the lag was computed.", ""),
    ("muster_group_lag_scan_seconds", "The time that it took, over all shards.", ""),
    (
        "muster_group_lag_unknown",
        "Groups whose lag is not known: they have too many offsets, or damaged ones.",
        "",
    ),
];

pub(super) fn add(families: &mut Families, survey: &Survey) {
    let [lag, sum, age, scan, unknown] = ROWS else { unreachable!("there are five") };
    let family = families.family(lag.0, lag.1, Type::Gauge);
    for row in &survey.partitions {
        family.add(labels_of(&row.group, &row.topic, row.partition), row.lag as f64);
    }
    let family = families.family(sum.0, sum.1, Type::Gauge);
    for group in shown(survey) {
        let labels = vec![("group", group.id.to_string()), ("kind", group.kind.to_owned())];
        group.lag.into_iter().for_each(|lag| family.add(labels.clone(), lag as f64));
    }
    let age_seconds = survey.began.elapsed().as_secs_f64();
    families.family(age.0, age.1, Type::Gauge).add(Labels::new(), age_seconds);
    let took = survey.took.as_secs_f64();
    families.family(scan.0, scan.1, Type::Gauge).add(Labels::new(), took);
    let family = families.family(unknown.0, unknown.1, Type::Gauge);
    family.add(Labels::new(), survey.left_out as f64);
}

fn labels_of(group: &str, topic: &str, partition: i32) -> Labels {
    let partition = partition.to_string();
    vec![("group", group.to_owned()), ("topic", topic.to_owned()), ("partition", partition)]
}

/// The groups with the most lag, then the others that were chosen.
fn shown(survey: &Survey) -> impl Iterator<Item = &GroupLag> {
    let ordered = || survey.by_lag.iter().map(|place| &survey.groups[*place as usize]);
    let chosen = ordered().skip(survey.top).filter(|group| group.is_chosen);
    ordered().take(survey.top).chain(chosen.take(CHOSEN_MAX))
}
