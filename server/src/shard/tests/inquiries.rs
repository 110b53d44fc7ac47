//! The answers to the admin side. Their pages contain each group exactly once, and nothing that is
//! not durable.

use super::world::{FLUSH_MS, GROUPS, PARTITIONS, World, commit};
use crate::inquiry::{About, Finding, Inquiry, SurveyPlace};
use crate::partitions::PartitionId;
use crate::shard::{Event, Message};
use crossbeam_channel::{Receiver, bounded};
use muster_codec::records::{GroupMetadataKey, GroupRecord};
use muster_coordinator::{GroupAsked, GroupView};
use std::collections::BTreeMap;

/// The offsets of each group, by partition.
type Found = BTreeMap<String, BTreeMap<i32, i64>>;

impl World {
    fn ask(&mut self, about: About) -> Receiver<Finding> {
        let (to, receiver) = bounded(1);
        self.step(Event::Mail(Message::Inquiry(Inquiry { about, to })));
        receiver
    }

    fn survey_page(&mut self, from: Option<SurveyPlace>) -> (Found, Option<SurveyPlace>) {
        let receiver = self.ask(About::Groups(from));
        self.pass(FLUSH_MS);
        let Ok(Finding::Groups(page, next)) = receiver.try_recv() else { panic!("no answer") };
        let found = page.iter().map(|group| {
            assert!(group.has_offsets);
            let mut offsets = BTreeMap::new();
            for (topic, of_topic) in group.topics() {
                assert_eq!(topic, "t");
                offsets.extend(of_topic.iter().copied());
            }
            (group.id.to_owned(), offsets)
        });
        (found.collect(), next)
    }

    /// All groups, and the number of pages.
    fn survey(&mut self) -> (Found, usize) {
        let (mut all, mut pages, mut from) = (Found::new(), 0, None);
        loop {
            let (page, next) = self.survey_page(from);
            pages += 1;
            for (id, offsets) in page {
                assert_eq!(all.insert(id.clone(), offsets), None, "{id} is there twice");
            }
            match next {
                Some(place) => from = Some(place),
                None => return (all, pages),
            }
        }
    }

    fn view(&mut self, group: &str) -> Option<GroupView> {
        let (group_id, members_from) = (group.into(), 0);
        let asked = GroupAsked { group_id, members_from, commits_after: None };
        let receiver = self.ask(About::Group(asked));
        self.pass(FLUSH_MS);
        let Ok(Finding::Group(found)) = receiver.try_recv() else { panic!("no answer") };
        found.view
    }
}

fn filled() -> Found {
    let offsets =
        |group: u64| (0..PARTITIONS).map(move |at| (at as i32, (group * 100 + at) as i64));
    (0..GROUPS).map(|group| (format!("g{group}"), offsets(group).collect())).collect()
}

#[test]
fn a_survey_has_each_group_once_loaded_or_not() {
    let mut world = World::new(&[]);
    assert_eq!(world.survey(), (Found::new(), 1));
    world.fill();
    let (found, pages) = world.survey();
    assert_eq!(found, filled());
    // Waits until a snapshot has the groups.
    while world.unloaded == 0 {
        world.pass(10_000);
        world.restart();
    }
    let before = world.shard.inspect().counts();
    let (found, pages_unloaded) = world.survey();
    assert_eq!(found, filled());
    assert!(pages_unloaded > pages, "reading in place takes longer: {pages_unloaded} pages");
    assert_eq!(world.shard.inspect().counts(), before, "nothing was loaded");

    let view = world.view("g7").unwrap();
    assert_eq!(world.shard.inspect().counts(), before, "nothing was loaded");
    let commits: BTreeMap<i32, i64> =
        view.commits.iter().map(|it| (it.partition, it.offset)).collect();
    assert_eq!((&commits, view.offsets), (&filled()["g7"], PARTITIONS as usize));
    assert!(world.view("none").is_none());
}

#[test]
fn what_is_not_durable_is_not_shown() {
    let mut world = World::new(&[]);
    world.append(&commit(1, 0, Some(5)));
    world.pass(FLUSH_MS);
    world.hold_log(true);
    world.append(&commit(1, 0, Some(6)));
    let asked = world.ask(About::Groups(None));
    let ends = world.ask(About::Partitions(None));
    world.pass(FLUSH_MS);
    assert!(asked.is_empty() && ends.is_empty(), "the answers wait, in order");
    world.hold_log(false);
    world.pass(FLUSH_MS);
    let Ok(Finding::Groups(page, None)) = asked.try_recv() else { panic!("no answer") };
    let offsets: Vec<_> = page.iter().flat_map(|group| group.topics().next()).collect();
    assert_eq!(offsets, [("t", &[(0, 6)][..])]);
    assert!(!ends.is_empty());
}

#[test]
fn questions_beyond_a_limit_are_dropped() {
    let mut world = World::new(&[]);
    world.hold_log(true);
    world.append(&commit(1, 0, Some(5)));
    let asked: Vec<_> = (0..20).map(|_| world.ask(About::Groups(None))).collect();
    let is_dropped = |it: &Receiver<Finding>| it.try_recv().is_err_and(|it| it.is_disconnected());
    assert_eq!(asked.iter().filter(|it| is_dropped(it)).count(), 4);
    world.hold_log(false);
    world.pass(FLUSH_MS);
    assert_eq!(asked.iter().filter(|it| it.try_recv().is_ok()).count(), 16);
}

#[test]
fn partitions_come_in_pages_and_by_name() {
    let mut world = World::new(&["num.partitions=3"]);
    let topic = world.create_topic("t");
    let id = |index| PartitionId { topic, index };
    let after = |world: &mut World, last| {
        let Ok(Finding::Partitions(page, None)) = world.ask(About::Partitions(last)).try_recv()
        else {
            panic!("no answer")
        };
        page.into_iter().map(|(id, bounds)| (id, bounds.high_watermark)).collect::<Vec<_>>()
    };
    assert_eq!(after(&mut world, None), [(id(0), 0), (id(1), 0), (id(2), 0)]);
    assert_eq!(after(&mut world, Some(id(1))), [(id(2), 0)]);
    let asked = world.ask(About::Bounds(vec![id(2), id(3), id(0)]));
    let Ok(Finding::Bounds(bounds)) = asked.try_recv() else { panic!("no answer") };
    assert_eq!(bounds.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn the_groups_that_have_changed_are_known() {
    let mut world = World::new(&[]);
    let changes = |world: &mut World| {
        let (mut found, mut from) = (BTreeMap::new(), None);
        loop {
            let receiver = world.ask(About::Changes(from));
            world.pass(FLUSH_MS);
            let Ok(Finding::Changes(changes)) = receiver.try_recv() else { panic!("no answer") };
            let (page, next) = changes?;
            for group in page.iter() {
                found.insert(group.id.to_owned(), group.exists);
            }
            if next.is_none() {
                return Some(found);
            }
            from = next;
        }
    };
    assert_eq!(changes(&mut world), None, "before all were asked for");
    world.fill();
    world.survey();
    assert_eq!(changes(&mut world), Some(BTreeMap::new()));
    world.append(&commit(1, 0, Some(5)));
    world.append(&commit(GROUPS, 0, Some(5)));
    (0..PARTITIONS).for_each(|partition| world.append(&commit(2, partition, None)));
    let key = GroupMetadataKey { group: "g2".into() };
    world.append(&GroupRecord::GroupMetadata(key, None));
    let expected = [("g1".to_owned(), true), ("g2".to_owned(), false)].into_iter();
    let expected = expected.chain([(format!("g{GROUPS}"), true)]).collect();
    assert_eq!(changes(&mut world), Some(expected));
    assert_eq!(changes(&mut world), Some(BTreeMap::new()), "each once");
    world.restart();
    assert_eq!(changes(&mut world), None, "they are kept in memory alone");
}
