//! Tests of situations that seeds rarely draw. Each test causes the only faults of its run.

use super::{Phase, World};
use crate::client::SimMember;
use crate::node::Failing;
use crate::options::Options;
use crate::profile::{ClientProfile, MS, Profile, SECOND};
use crate::random::{Random, Salt};
use loadgen::event::Stop;
use loadgen::history::Group;
use loadgen::member::State;
use loadgen::plan::{
    Backoff, ClassicAssignor, GroupIndex, GroupPlan, MemberIndex, MemberPlan, Protocol,
    Subscription, TopicIndex, Workload,
};
use std::sync::Arc;
use std::time::Duration;

const NEVER: u64 = u64::MAX / 4;
/// The group of the tests. The world has a group of its own, `group-0`, whose protocol is random.
const GROUP: &str = "group-1";
const FENCED: &str = "FENCED_INSTANCE_ID";

/// The static member of the group, and two dynamic members.
const STATIC: u32 = 0;
const FIRST: u32 = 1;
const SECOND_TO_JOIN: u32 = 2;

#[test]
fn a_static_member_whose_new_id_is_lost_is_fenced_and_begins_again() {
    let mut world = world(classic());
    settle(&mut world, &[STATIC, FIRST]);
    world.stop_member(STATIC, Stop::Crash);
    world.start_member(SECOND_TO_JOIN);
    let begun = world.sim.now();
    until(&mut world, |world| world.sim.now() > begun + 300 * MS);
    // The group rebalances. The static member gets a new id, and replaces its former one in memory.
    world.start_member(STATIC);
    until(&mut world, |world| member(world, STATIC).id.is_unwritten());
    fail_coordinator(&mut world);
    until(&mut world, |world| member(world, STATIC).member.state() == State::Failed);
    settle(&mut world, &[STATIC, FIRST, SECOND_TO_JOIN]);
}

#[test]
fn a_static_member_that_had_an_assignment_is_not_fenced_by_a_load() {
    let mut world = world(classic());
    settle(&mut world, &[STATIC, FIRST]);
    world.stop_member(STATIC, Stop::Crash);
    settle(&mut world, &[STATIC]);
    let loaded_at = fail_coordinator(&mut world);
    until(&mut world, |world| world.sim.now() > loaded_at + 20 * SECOND);
    assert!(!world.may_be_fenced(STATIC, FENCED));
    assert_eq!(member(&world, STATIC).member.state(), State::Stable);
}

#[test]
fn a_static_member_of_a_consumer_group_is_never_fenced_by_a_load() {
    let mut world = world(Protocol::Consumer { assignor: None });
    settle(&mut world, &[STATIC, FIRST]);
    world.stop_member(STATIC, Stop::Crash);
    world.start_member(STATIC);
    fail_coordinator(&mut world);
    assert!(!world.may_be_fenced(STATIC, FENCED));
    settle(&mut world, &[STATIC, FIRST]);
}

#[test]
fn what_follows_from_the_last_answer_has_time_before_the_last_power_loss() {
    let mut world = world(classic());
    assert!(world.is_answered());
    (world.phase, world.calm_since) = (Phase::Resting(u64::MAX), Some(0));
    let answered = world.sim.now();
    until(&mut world, |world| world.phase == Phase::Last);
    assert!(world.sim.now() >= answered + SECOND);
}

fn classic() -> Protocol {
    Protocol::Classic { assignors: [ClassicAssignor::Range].into() }
}

/// A server with topics, on which nothing fails, and a group that has not begun.
fn world(protocol: Protocol) -> World {
    let mut profile = Profile::new(0);
    (profile.chaos, profile.chaos_steps, profile.faults.every) = (NEVER, NEVER, NEVER);
    profile.faults.crash_in_start_chance = 0.0;
    profile.faults.crash_between_blocks_chance = 0.0;
    profile.turn_delay_max = 1;
    profile.disk.delay_max = 100;
    profile.disk.slow_chance = 0.0;
    (profile.disk.write_error_chance, profile.disk.read_error_chance) = (0.0, 0.0);
    profile.clients = ClientProfile {
        groups: 1,
        members: 0,
        committers: 0,
        several: 0,
        converters: 0,
        admins: 0,
        readers: 0,
        producers: 0,
        transactors: 0,
        users: 0,
        meddlers: 0,
        hostile: 0,
        churn_every: NEVER,
        ..profile.clients.clone()
    };
    let mut world = World::with_profile(0, profile, Options::default());
    world.network.calm();
    world.begin_run();
    until(&mut world, World::is_chaos);
    add_members(&mut world, protocol);
    world
}

fn add_members(world: &mut World, protocol: Protocol) {
    let clients = &world.profile.clients;
    let micros = Duration::from_micros;
    let group = Arc::new(GroupPlan {
        index: GroupIndex(1),
        id: Arc::from(GROUP),
        protocol,
        subscription: Subscription::Topics([TopicIndex(0)].into()),
        session_timeout: micros(clients.session_timeout),
        heartbeat_interval: micros(clients.heartbeat_interval),
        rebalance_timeout: micros(clients.rebalance_timeout),
        revocation_takes: Duration::ZERO,
        fetches_on_assignment: true,
        backoff: Backoff { initial: micros(100 * MS), max: micros(SECOND) },
    });
    world.judge.expect_groups(vec![Group::of(&group, world.clients.topics())]);
    let mut random = Random::new(0, Salt::Members);
    let plan = |index| MemberPlan {
        index: MemberIndex(index),
        client_id: Arc::from(format!("m{index}")),
        instance_id: (index == STATIC).then(|| Arc::from("i")),
        rack: None,
        process: index,
        workload: Workload::default(),
        group: group.clone(),
    };
    let members = [STATIC, FIRST, SECOND_TO_JOIN].map(plan);
    let members = members.map(|plan| SimMember::new(plan, random.fork()));
    world.clients.set_members(members.into());
}

/// Starts the members that do not run, and waits until all of them are stable.
fn settle(world: &mut World, members: &[u32]) {
    for index in members {
        world.start_member(*index);
    }
    let is_stable = |world: &World, index| member(world, index).member.state() == State::Stable;
    until(world, |world| members.iter().all(|index| is_stable(world, *index)));
}

/// Fails the coordinator of the group, which is loaded again. Returns the time of the load.
fn fail_coordinator(world: &mut World) -> u64 {
    let number = world.node.placement().group_shard(GROUP);
    let failed_at = world.sim.now();
    assert!(world.node.fail_shard(number, Failing::Soon));
    world.on_node(|node| node.wake_shard(number));
    until(world, |world| world.node.loaded_at(number) > failed_at);
    world.node.loaded_at(number)
}

fn member(world: &World, index: u32) -> &SimMember {
    &world.clients.members()[index as usize]
}

/// Runs until a condition holds. The condition must hold before a violation.
fn until(world: &mut World, is_so: impl Fn(&World) -> bool) {
    for _ in 0..100_000 {
        if is_so(world) {
            return;
        }
        world.advance();
        assert_eq!(world.sim.violation(), None, "{}", last(world));
    }
    panic!("it does not come: {}", last(world));
}

fn last(world: &World) -> String {
    world.sim.trace().last().collect::<Vec<_>>().join("\n")
}
