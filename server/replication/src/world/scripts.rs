//! Single stories.

use super::defects::Defect;
use super::moves::place;
use super::{E, World, groups, replica};
use crate::{Change, Group, Lie, NodeId, Role};

#[test]
fn each_group_gets_a_leader_within_two_election_timeouts() {
    let mut world = World::new(1);
    world.run(2 * E);
    for group in groups() {
        assert!(world.leader(group).is_some(), "{group:?}");
    }
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
    assert_eq!(world.lies, []);
}

/// The leader's own disk hangs, and the two others commit what it has sent.
#[test]
fn a_leader_whose_disk_hangs_commits_one_entry() {
    let mut world = World::new(2);
    world.run(2 * E);
    let group = Group(1);
    let leader = world.leader(group).unwrap();
    world.machines.get_mut(&leader).unwrap().hangs = u64::MAX;
    let before = world.judge.top(group);
    for _ in 0..10 {
        world.propose(leader, group, b"records");
        world.run(10);
    }
    assert!(world.judge.top(group) > before);
    assert!(world.judge.early_commits > 0);
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
}

/// While the disk hangs, no block takes the open entry. The hand-over would wait for it, so the
/// leader gives it up.
#[test]
fn a_leader_whose_disk_hangs_hands_over() {
    let mut world = World::new(4);
    world.run(2 * E);
    let group = Group(1);
    let leader = world.leader(group).unwrap();
    world.machines.get_mut(&leader).unwrap().hangs = u64::MAX;
    for _ in 0..10 {
        world.propose(leader, group, b"records");
        world.run(10);
    }
    let to = world.others(leader)[0];
    world.with(leader, |it, judge| {
        it.groups.get_mut(&group).unwrap().give_up();
        it.call(judge, |replicas, out| replicas.transfer(group, to, out)).unwrap();
    });
    world.run(50);
    assert_eq!(world.leader(group), Some(to));
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
}

/// For a time there are two leaders. The old one steps down within two election timeouts, and
/// confirms no read.
#[test]
fn a_leader_that_is_cut_off_confirms_nothing() {
    let mut world = World::new(5);
    world.run(2 * E);
    let group = Group(1);
    let old = world.leader(group).unwrap();
    world.isolate(old, true);
    let confirmed = world.confirmed;
    let cut = world.now;
    while world.node(old).unwrap().groups[&group].role.leads().is_some() {
        world.read(old, group);
        world.run(20);
        let others = world.others(old);
        others.into_iter().for_each(|it| world.propose(it, group, b"records"));
        assert!(world.now - cut <= 2 * E + 20, "it steps down");
    }
    assert_eq!(world.confirmed, confirmed);
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
}

/// The leader counts no acknowledgement of the follower's older process, so it finds out where
/// the follower's log ends now.
#[test]
fn a_follower_that_lost_committed_entries_gets_them_again() {
    let mut world = World::new(6);
    world.run(2 * E);
    let group = Group(1);
    let leader = world.leader(group).unwrap();
    for _ in 0..20 {
        world.propose(leader, group, b"records");
        world.run(20);
    }
    let follower = world.others(leader)[0];
    world.lose_blocks(follower, 6);
    world.run(E);
    assert_eq!(world.lies, []);
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
}

/// A new process of the follower has the session of the older one. So the leader believes that the
/// follower still has all that it acknowledged. The follower notices that entries are missing, and
/// a new replica of the same node takes its place.
#[test]
fn a_follower_that_lost_committed_entries_unnoticed_is_quarantined_and_replaced() {
    let mut world = World::with_defect(8, Some(Defect::KeptSession));
    world.run(2 * E);
    let group = Group(1);
    let leader = world.leader(group).unwrap();
    let follower = world.others(leader)[0];
    for _ in 0..20 {
        world.propose(leader, group, b"records");
        world.run(20);
    }
    world.lose_blocks(follower, 6);
    world.run(E);
    let role = |world: &World| world.node(follower).unwrap().groups[&group].role;
    assert_eq!(role(&world), Role::Quarantined);
    assert!(world.lies.iter().all(|it| matches!(it, Lie::Quarantined(_))), "{:?}", world.lies);
    // The two others continue without it.
    let before = world.judge.top(group);
    world.propose(leader, group, b"records");
    world.run(20);
    assert!(world.judge.top(group) > before);
    world.crash(follower, true);
    world.start(follower);
    assert_eq!(role(&world), Role::Quarantined, "after a restart");

    let (old, new) = (replica(1, follower.0), replica(2, follower.0));
    world.placed.place(group, new);
    place(&mut world, group, new);
    for change in [Change::AddLearner(new), Change::Replace { old, new }, Change::Leave] {
        let proposed = world.with(leader, |it, judge| {
            it.call(judge, |replicas, out| replicas.change(group, change, out))
        });
        assert!(proposed.is_some_and(|it| it.is_ok()), "{change:?}: {proposed:?}");
        world.run(E);
    }
    assert_eq!(role(&world), Role::Follower { leader: Some(replica(1, leader.0)) });
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
    assert!(world.judge.members(group).voters.contains(&new));
}

/// A follower acknowledges an entry, and then loses it. Then only the leader has it, so the flush
/// of the leader's disk must not commit it.
fn acknowledged_and_lost(defect: Option<Defect>) -> World {
    let mut world = World::with_defect(7, defect);
    world.run(2 * E);
    let group = Group(1);
    let leader = world.leader(group).unwrap();
    let [lost, absent] = world.others(leader)[..] else { panic!("three nodes") };
    world.cut(leader, absent, true);
    world.cut(absent, leader, true);
    world.run(20);
    world.machines.get_mut(&leader).unwrap().hangs = world.now + 200;
    let before = world.judge.top(group);
    world.propose(leader, group, b"records");
    world.run(30);
    assert_eq!(world.judge.top(group), before, "two disks are needed");
    world.lose_blocks(lost, 1);
    world.cut(leader, lost, true);
    world.run(300);
    world
}

#[test]
fn entries_that_a_follower_lost_do_not_count() {
    let mut world = acknowledged_and_lost(None);
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
}

#[test]
fn a_session_that_is_used_again_is_found() {
    let world = acknowledged_and_lost(Some(Defect::KeptSession));
    assert!(world.judge.faults[0].contains("committed on 1 disks"), "{:?}", world.judge.faults);
}

/// A follower is killed while its block is being written. The next process reads the block from the
/// page cache, and its disk hangs. So only the leader's disk has the entry.
fn read_from_the_cache(defect: Option<Defect>) -> World {
    let mut world = World::with_defect(7, defect);
    world.run(2 * E);
    let group = Group(1);
    let leader = world.leader(group).unwrap();
    let [killed, absent] = world.others(leader)[..] else { panic!("three nodes") };
    world.isolate(absent, true);
    world.run(20);
    world.machines.get_mut(&killed).unwrap().hangs = world.now + 500;
    world.propose(leader, group, b"records");
    world.run(30);
    let last = world.node(killed).unwrap().log[&group].last();
    assert_eq!(world.node(leader).unwrap().log[&group].last(), last);
    world.crash(killed, true);
    world.start(killed);
    assert_eq!(world.node(killed).unwrap().log[&group].last(), last);
    world.run(300);
    assert_eq!(world.leader(group), Some(leader));
    world
}

#[test]
fn an_entry_in_the_page_cache_does_not_count() {
    let mut world = read_from_the_cache(None);
    let (group, before) = (Group(1), world.judge.top(Group(1)));
    world.run(300);
    assert!(world.judge.top(group) > before, "its disk has it now");
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
}

#[test]
fn a_promise_from_the_page_cache_is_found() {
    let world = read_from_the_cache(Some(Defect::EarlySync));
    assert!(world.judge.faults[0].contains("committed on 1 disks"), "{:?}", world.judge.faults);
}

/// A leader that is cut off applies records that are not committed, and undoes them.
#[test]
fn a_deposed_leader_undoes_and_leads_again() {
    let mut world = World::new(3);
    world.run(2 * E);
    let group = Group(1);
    let old = world.leader(group).unwrap();
    world.isolate(old, true);
    for number in 0..64_u8 {
        world.propose(old, group, &[number; 1_024]);
        world.run(2);
    }
    world.run(3 * E);
    let new = world.leader(group).unwrap();
    assert_ne!(new, old);
    world.propose(new, group, b"records");
    world.run(20);
    world.settle();
    let to = old;
    world.with(new, |it, judge| {
        it.call(judge, |replicas, out| replicas.transfer(group, to, out)).unwrap();
    });
    world.run(50);
    assert_eq!(world.leader(group), Some(old));
    world.propose(old, group, b"again");
    world.run(50);
    world.crash(old, true);
    world.settle();
    assert_eq!(world.judge.faults, [] as [&str; 0]);
    assert_eq!(world.node(NodeId(1)).unwrap().groups.len(), 3);
}

/// Each pattern of one-way cuts between three nodes. Two nodes that hear each other continue, and
/// no pattern makes the terms grow without end.
#[test]
fn any_two_nodes_that_hear_each_other_continue() {
    let links =
        [(1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)].map(|(a, b)| (NodeId(a), NodeId(b)));
    let mut continued = 0;
    for pattern in 0..1_u32 << links.len() {
        let is_cut = |link: usize| pattern >> link & 1 == 1;
        let mut world = World::new(u64::from(pattern));
        world.run(2 * E);
        let terms = world.terms();
        for (number, (from, to)) in links.into_iter().enumerate() {
            world.cut(from, to, is_cut(number));
        }
        world.run(3 * E);
        let before = groups().map(|it| world.judge.top(it)).collect::<Vec<_>>();
        for _ in 0..3 * E / 50 {
            for node in world.nodes() {
                groups().for_each(|group| world.propose(node, group, b"records"));
            }
            world.run(50);
        }
        let after = groups().map(|it| world.judge.top(it));
        let continues = after.zip(before).all(|(after, before)| after > before);
        let are_connected = [0, 2, 4].into_iter().any(|it| !is_cut(it) && !is_cut(it + 1));
        assert_eq!(continues, are_connected, "{pattern:06b}");
        let new_terms = world.terms().into_iter().zip(terms).map(|(after, it)| after.0 - it.0);
        assert!(new_terms.max() <= Some(1), "{pattern:06b}: {:?}", world.terms());
        assert_eq!(world.judge.faults, [] as [&str; 0]);
        continued += u32::from(continues);
    }
    assert_eq!(continued, 37);
}
