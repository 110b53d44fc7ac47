//! The lag of the groups with the most lag, and of the groups that `admin.lag.groups` names.

use super::family::{Families, Labels, Type};
use crate::operator::{GroupLag, Survey};

/// The maximum number of groups that `admin.lag.groups` adds.
const CHOSEN_MAX: usize = 10_000;

/// The maximum length of a group id, and the maximum length of all names in the samples of a
/// metric, in bytes. These are needed because clients choose the ids, which may have 32 KiB.
const ID_BYTES_MAX: usize = 1 << 10;
const NAMES_BYTES_MAX: usize = 4 << 20;

/// The metrics: name, help, labels.
pub(super) const ROWS: &[(&str, &str, &str)] = &[
    (
        "muster_group_lag",
        "Records of a partition that a group has not committed: the end minus the committed \
         offset. For a share group: the records that are not done.",
        "group, topic, partition",
    ),
    ("muster_group_lag_sum", "The lag of a group, summed over its partitions.", "group, kind"),
    ("muster_group_lag_age_seconds", "The time since the lag was computed.", ""),
    (
        "muster_group_lag_scan_seconds",
        "How long the computation of the lag took, over all shards.",
        "",
    ),
    (
        "muster_group_lag_unknown",
        "Groups whose lag is not known: they have too many offsets, or damaged ones.",
        "",
    ),
    (
        "muster_group_lag_left_out",
        "Samples that are left out: the group id is longer than 1 KiB, or the names in the samples \
         of the metric exceed 4 MiB.",
        "",
    ),
];

/// How many bytes of names still fit in a metric, and how many samples were left out because they
/// did not fit.
struct Room {
    bytes: usize,
    left_out: usize,
}

pub(super) fn add(families: &mut Families, survey: &Survey) {
    let [_, _, age, scan, unknown, left_out] = ROWS else { unreachable!("there are six") };
    let unshown = add_partitions(families, survey) + add_groups(families, survey);
    let numbers = [
        (age, survey.began.elapsed().as_secs_f64()),
        (scan, survey.took.as_secs_f64()),
        (unknown, survey.left_out as f64),
        (left_out, unshown as f64),
    ];
    for ((name, help, _), number) in numbers {
        families.family(name, help, Type::Gauge).add(Labels::new(), number);
    }
}

/// Adds the lag in single partitions. Returns how many samples were left out.
fn add_partitions(families: &mut Families, survey: &Survey) -> usize {
    let family = families.family(ROWS[0].0, ROWS[0].1, Type::Gauge);
    let mut room = Room::new();
    for row in &survey.partitions {
        if room.takes(&row.group, row.topic.len()) {
            family.add(labels_of(&row.group, &row.topic, row.partition), row.lag as f64);
        }
    }
    room.left_out
}

/// Adds the total lag of groups. Returns how many samples were left out.
fn add_groups(families: &mut Families, survey: &Survey) -> usize {
    let family = families.family(ROWS[1].0, ROWS[1].1, Type::Gauge);
    let mut room = Room::new();
    for (group, lag) in shown(survey).filter_map(|group| Some((group, group.lag?))) {
        if room.takes(&group.id, 0) {
            let labels = vec![("group", group.id.to_string()), ("kind", group.kind.to_owned())];
            family.add(labels, lag as f64);
        }
    }
    room.left_out
}

impl Room {
    fn new() -> Self {
        Self { bytes: NAMES_BYTES_MAX, left_out: 0 }
    }

    /// Whether a sample with these names fits.
    fn takes(&mut self, group: &str, topic_bytes: usize) -> bool {
        let bytes = group.len() + topic_bytes;
        let fits = group.len() <= ID_BYTES_MAX && bytes <= self.bytes;
        if fits {
            self.bytes -= bytes;
        } else {
            self.left_out += 1;
        }
        fits
    }
}

fn labels_of(group: &str, topic: &str, partition: i32) -> Labels {
    let partition = partition.to_string();
    vec![("group", group.to_owned()), ("topic", topic.to_owned()), ("partition", partition)]
}

/// The groups with the most lag, followed by further groups that the config names.
fn shown(survey: &Survey) -> impl Iterator<Item = &GroupLag> {
    let ordered = || survey.by_lag.iter().map(|place| &survey.groups[*place as usize]);
    let chosen = ordered().skip(survey.top).filter(|group| group.is_chosen);
    ordered().take(survey.top).chain(chosen.take(CHOSEN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ids_and_too_many_names_are_left_out_and_counted() {
        let (short, long) = ("x".repeat(ID_BYTES_MAX), "x".repeat(ID_BYTES_MAX + 1));
        let mut room = Room::new();
        assert!(!room.takes(&long, 0) && room.takes(&short, 0));
        let fit = (0..2 * NAMES_BYTES_MAX / ID_BYTES_MAX).filter(|_| room.takes(&short, 0)).count();
        assert_eq!(fit, NAMES_BYTES_MAX / ID_BYTES_MAX - 1);
        assert_eq!(room.left_out, 2 + NAMES_BYTES_MAX / ID_BYTES_MAX);
    }
}
