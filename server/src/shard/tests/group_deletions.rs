//! DeleteGroups for groups whose coordinators answer later, and for groups of which the log refuses
//! the tombstones.

use super::group_requests::{NOT_WRITTEN, ask, commit, connect, delete, errors, share_beat, world};
use super::world::World;
use crate::placement::Slot;
use muster_codec::Uuid;
use muster_codec::messages::ShareGroupHeartbeatRequest;
use std::collections::BTreeSet;

#[test]
fn coordinators_that_delete_state_and_many_offsets_answer_together() {
    let mut world = world(1);
    let joined = ask(&mut world, 1, share_beat("share"));
    assert_eq!(errors(&joined), BTreeSet::from([0]));
    let left = ShareGroupHeartbeatRequest { member_epoch: -1, ..share_beat("share") };
    assert_eq!(errors(&ask(&mut world, 1, left)), BTreeSet::from([0]));
    let slot_of = |name: &str| world.common.placement.group_slot(name);
    let number = (0..).find(|number| slot_of(&format!("g{number}")) != slot_of("share")).unwrap();
    world.commit_many(number);
    let names = ["share".to_owned(), format!("g{number}")];
    let mut deleted = delete(&mut world, &names);
    deleted.sort();
    assert_eq!(deleted, [(names[1].clone(), 0), (names[0].clone(), 0)]);
}

/// A group name of this length that is placed in this slot.
fn long_name(world: &World, slot: Slot, length: usize) -> String {
    let mut names = (0..).map(|number| format!("{number:0length$}"));
    let is_of_slot = |name: &String| world.common.placement.group_slot(name) == slot;
    names.find(is_of_slot).unwrap()
}

#[test]
fn groups_of_other_slots_are_served_when_the_log_refuses_those_of_one() {
    let mut world = world(1);
    let mut names: Vec<_> = (0..4).map(|slot| long_name(&world, Slot(slot), 10)).collect();
    names[2] = long_name(&world, Slot(2), 1_000);
    for name in &names {
        assert_eq!(errors(&ask(&mut world, 3, commit(name, Uuid::ZERO))), BTreeSet::from([0]));
    }
    world.common.log_sizes.operation_bytes_max = 500;
    world.restart();
    connect(&mut world);
    let with_errors = |errors: [i64; 4]| names.iter().cloned().zip(errors).collect::<Vec<_>>();
    assert_eq!(delete(&mut world, &names), with_errors([0, 0, NOT_WRITTEN, 0]));
    assert_eq!(world.shard.groups.slots().groups(), 1, "the refused one is as it was");
    assert_eq!(delete(&mut world, &names), with_errors([69, 69, NOT_WRITTEN, 69]));
}
