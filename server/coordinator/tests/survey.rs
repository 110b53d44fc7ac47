//! Groups as operators see them: in pages of limited size, even if a group is large.

#![allow(clippy::unwrap_used)]

use muster_codec::records::{GroupMetadataKey, GroupRecord, OffsetCommitKey, OffsetCommitValue};
use muster_coordinator::limits::SURVEYED_OFFSETS_MAX;
use muster_coordinator::{Config, Coordinator, GroupAsked, GroupView, GroupsPage};

fn commit(coordinator: &mut Coordinator, group: &str, topic: &str, partition: i32) {
    let (group, topic) = (group.to_owned().into(), topic.to_owned().into());
    let value = OffsetCommitValue { offset: i64::from(partition) * 10, ..Default::default() };
    let key = OffsetCommitKey { group, topic, partition };
    coordinator.replay(&GroupRecord::OffsetCommit(key, Some(value)), 1);
}

fn view(coordinator: &Coordinator, commits_after: Option<(&str, i32)>) -> GroupView {
    let commits_after = commits_after.map(|(topic, partition)| (topic.into(), partition));
    let asked = GroupAsked { group_id: "g".into(), members_from: 0, commits_after };
    coordinator.view(&asked, 0).unwrap()
}

#[test]
fn a_page_ends_when_its_room_is_used_up_and_continues_there() {
    let mut coordinator = Coordinator::new(Config::default());
    for group in ["", "a", "b", "c"] {
        (0..8).for_each(|partition| commit(&mut coordinator, group, "t", partition));
        commit(&mut coordinator, group, "t2", 5);
    }
    let (mut ids, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        // A group with nine offsets weighs as much as three groups.
        let (mut page, mut room) = (GroupsPage::default(), 4);
        after = coordinator.survey(after.as_deref(), &mut room, &mut page);
        for group in page.iter() {
            let mut topics: Vec<_> =
                group.topics().map(|(topic, offsets)| (topic, offsets.len())).collect();
            topics.sort_unstable();
            assert_eq!(topics, [("t", 8), ("t2", 1)]);
            ids.push(group.id.to_owned());
        }
        pages += 1;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((ids, pages), (["", "a", "b", "c"].map(str::to_owned).to_vec(), 2));
}

#[test]
fn too_many_offsets_are_left_out_and_cost_no_more() {
    let mut coordinator = Coordinator::new(Config::default());
    (0..SURVEYED_OFFSETS_MAX as i32).for_each(|it| commit(&mut coordinator, "g", "t", it));
    let survey = |coordinator: &Coordinator| {
        let (mut page, mut room) = (GroupsPage::default(), usize::MAX);
        coordinator.survey(None, &mut room, &mut page);
        let offsets = |page: &GroupsPage| {
            let group = page.iter().next().unwrap();
            (group.has_offsets, group.topics().map(|(_, offsets)| offsets.len()).sum::<usize>())
        };
        offsets(&page)
    };
    assert_eq!(survey(&coordinator), (true, SURVEYED_OFFSETS_MAX));
    assert!(!view(&coordinator, None).hides_commits);
    commit(&mut coordinator, "g", "t", -1);
    assert_eq!(survey(&coordinator), (false, 0));
    let view = view(&coordinator, None);
    assert_eq!((view.hides_commits, view.commits.len()), (true, 0));
    assert_eq!(view.offsets, SURVEYED_OFFSETS_MAX + 1);
}

#[test]
fn a_page_of_commits_ends_after_the_bytes_of_their_metadata() {
    let mut coordinator = Coordinator::new(Config::default());
    for partition in 0..10 {
        let key = OffsetCommitKey { group: "g".into(), topic: "t".into(), partition };
        let metadata = "m".repeat(32 << 10).into();
        let value = OffsetCommitValue { metadata, ..Default::default() };
        coordinator.replay(&GroupRecord::OffsetCommit(key, Some(value)), 1);
    }
    let first = view(&coordinator, None);
    assert_eq!((first.commits.len(), first.has_more_commits), (4, true));
    let last = view(&coordinator, Some(("t", 7)));
    assert_eq!((last.commits.len(), last.has_more_commits), (2, false));
}

#[test]
fn commits_come_in_pages() {
    let mut coordinator = Coordinator::new(Config::default());
    (0..1_500).for_each(|partition| commit(&mut coordinator, "g", "t", partition));
    commit(&mut coordinator, "g", "a", 7);
    let first = view(&coordinator, None);
    assert_eq!((first.commits.len(), first.has_more_commits, first.offsets), (1_000, true, 1_501));
    assert_eq!((&*first.commits[0].topic, first.commits[0].offset), ("a", 70));
    let last = first.commits.last().unwrap();
    let rest = view(&coordinator, Some((&last.topic, last.partition)));
    assert_eq!((rest.commits.len(), rest.has_more_commits), (501, false));
    assert_eq!(rest.commits[0].partition, last.partition + 1);
}

#[test]
fn changes_have_each_group_once_and_those_that_are_gone() {
    let mut coordinator = Coordinator::new(Config::default());
    let changes = |coordinator: &mut Coordinator| {
        assert!(coordinator.make_changes_due());
        let (mut page, mut room) = (GroupsPage::default(), usize::MAX);
        assert!(!coordinator.survey_changes(&mut room, &mut page));
        let mut found: Vec<_> =
            page.iter().map(|it| (it.id.to_owned(), it.exists.then_some(it.state))).collect();
        found.sort_unstable();
        found
    };
    commit(&mut coordinator, "a", "t", 0);
    assert!(!coordinator.make_changes_due(), "before all were surveyed");
    coordinator.begin_changes();
    assert_eq!(changes(&mut coordinator), []);
    (0..3).for_each(|partition| commit(&mut coordinator, "a", "t", partition));
    commit(&mut coordinator, "b", "t", 0);
    let key = OffsetCommitKey { group: "b".into(), topic: "t".into(), partition: 0 };
    coordinator.replay(&GroupRecord::OffsetCommit(key, None), 2);
    let key = GroupMetadataKey { group: "b".into() };
    coordinator.replay(&GroupRecord::GroupMetadata(key, None), 3);
    let found = changes(&mut coordinator);
    assert_eq!(found[0], ("a".to_owned(), Some("Empty")));
    assert!(found[1..].iter().all(|it| *it == ("b".to_owned(), None)) && found.len() > 1);
    assert_eq!(changes(&mut coordinator), []);
    commit(&mut coordinator, "a", "t", 0);
    assert_eq!(changes(&mut coordinator).len(), 1, "again");
}

#[test]
fn more_changes_than_are_kept_are_not_known() {
    let mut coordinator = Coordinator::new(Config::default());
    coordinator.begin_changes();
    (0..8_192).for_each(|group| commit(&mut coordinator, &format!("g{group}"), "t", 0));
    assert!(coordinator.make_changes_due());
    coordinator.begin_changes();
    (0..8_193).for_each(|group| commit(&mut coordinator, &format!("g{group}"), "t", 0));
    assert!(!coordinator.make_changes_due());
    coordinator.begin_changes();
    commit(&mut coordinator, "g1", "t", 0);
    assert!(coordinator.make_changes_due());
    assert!(coordinator.survey_changes(&mut 0, &mut GroupsPage::default()));
}
