//! Lag, computed from pages of groups and the ends of partitions.

use super::*;
use crate::shard::commit;
use muster_codec::records::{ClusterRecord, TopicKey, TopicValue};
use muster_coordinator::Coordinator;

const TOPIC: Uuid = Uuid([7; 16]);

fn image() -> ClusterImage {
    let mut image = ClusterImage::default();
    let value = TopicValue { name: "t".into(), partitions: 3, ..Default::default() };
    image.apply(&ClusterRecord::Topic(TopicKey { topic_id: TOPIC }, Some(value)));
    image
}

fn page(commits: &[(u64, u64, i64)]) -> GroupsPage {
    let mut coordinator = Coordinator::new(Default::default());
    for (group, partition, offset) in commits {
        coordinator.replay(&commit(*group, *partition, Some(*offset)), 1);
    }
    let (mut page, mut room) = (GroupsPage::default(), 1_000);
    assert_eq!(coordinator.survey(None, &mut room, &mut page), None);
    page
}

fn ends(known: &[(i32, i64)]) -> Ends {
    let mut ends = Ends::default();
    for (index, end) in known {
        let bounds = Bounds { log_start: 0, high_watermark: *end, stable: 0 };
        ends.set(PartitionId { topic: TOPIC, index: *index }, bounds);
    }
    ends
}

#[test]
fn lag_is_the_end_less_the_commit_and_never_below_zero() {
    let (image, ends) = (image(), ends(&[(0, 10), (2, 10)]));
    let limits = Limits { top: 2, chosen: vec!["g2".to_owned()] };
    let mut gathered = Gathered::new(&limits, &image, &ends);
    gathered.add(1, &page(&[(1, 0, 4), (1, 1, 3), (1, 2, 99), (2, 2, 8), (3, 1, 5), (4, 0, 5)]));
    let lags: Vec<_> =
        gathered.groups.iter().map(|it| (&*it.id, it.partitions, it.lag, it.is_chosen)).collect();
    assert_eq!(gathered.groups.iter().map(|it| it.uncommitted).collect::<Vec<_>>(), [0, 2, 2, 2]);
    let expected = [
        ("g1", 2, Some(6), false),
        ("g2", 1, Some(2), true),
        ("g3", 0, None, false),
        ("g4", 1, Some(5), false),
    ];
    assert_eq!(lags, expected, "the end of partition 1 is not known");
    assert_eq!(gathered.counts.values().sum::<usize>(), 4);
    let row = |lag, group: &str, partition| PartitionLag {
        lag,
        group: group.into(),
        topic: "t".into(),
        partition,
    };
    assert_eq!(gathered.top.into_rows(), [row(6, "g1", 0), row(5, "g4", 0)]);
    assert_eq!(gathered.chosen, [row(2, "g2", 2)]);
}

#[test]
fn share_groups_have_the_lag_that_the_leaders_of_partitions_find() {
    let (image, ends) = (image(), Ends::default());
    let limits = Limits { top: 2, chosen: vec!["g2".to_owned()] };
    let mut gathered = Gathered::new(&limits, &image, &ends);
    gathered.add(0, &page(&[(1, 0, 4), (2, 0, 4)]));
    for place in [0, 1] {
        gathered.share_groups.insert(Arc::clone(&gathered.groups[place].id), place);
    }
    for (group, topic, index, lag) in [
        ("g1", TOPIC, 0, Some(3)),
        ("g1", TOPIC, 2, Some(4)),
        ("g1", TOPIC, 1, None),
        ("g2", TOPIC, 1, Some(5)),
        ("g1", Uuid([8; 16]), 0, Some(100)),
        ("gone", TOPIC, 0, Some(100)),
    ] {
        let partition = PartitionId { topic, index };
        let row = ShareStart { group: group.into(), partition, start: None, end: None, lag };
        gathered.add_share(&row);
    }
    let lags = gathered.groups.iter().map(|it| (it.partitions, it.lag));
    assert_eq!(lags.collect::<Vec<_>>(), [(2, Some(7)), (1, Some(5))]);
    let top: Vec<_> = gathered.top.into_rows().iter().map(|it| (it.lag, it.partition)).collect();
    assert_eq!((top, gathered.chosen[0].lag), (vec![(4, 2), (3, 0)], 5));
}

#[test]
fn a_star_chooses_all_ids_with_a_beginning() {
    let limits = Limits { top: 0, chosen: vec!["a".to_owned(), "b-*".to_owned()] };
    let chosen = ["a", "ab", "b", "b-", "b-c", "*"].map(|id| limits.has_chosen(id));
    assert_eq!(chosen, [true, false, false, true, true, false]);
}
