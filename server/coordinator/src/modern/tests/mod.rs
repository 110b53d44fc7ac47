//! Tests of the steps of [`crate::modern`], with a kind that assigns tasks instead of partitions.

mod records;
mod tasks;

use super::member::MemberState;
use super::owned::Owned;
use super::{Draft, Group, Refusal, State};
use crate::allowance::Allowance;
use crate::client::Client;
use crate::config::{Config, GroupConfigs};
use crate::context::NoTopics;
use crate::counters::Events;
use crate::noted::Noted;
use crate::output::Output;
use crate::pending::PendingOffsets;
use crate::timers::{TimerKey, Timers};
use crate::topic_hashes::TopicHashes;
use crate::turn::Turn;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use muster_codec::{ErrorCode, Wall};
use tasks::{Answer, Beat, Role, Task, Tasks};

/// A group of tasks with everything that a coordinator has for it.
struct World {
    group: Group<Tasks>,
    config: Config,
    group_configs: GroupConfigs,
    hashes: TopicHashes,
    timers: Timers,
    pending: PendingOffsets,
    events: Events,
    now: i64,
}

impl World {
    fn new() -> Self {
        Self {
            group: Group::new("g".into()),
            config: Config::default(),
            group_configs: GroupConfigs::default(),
            hashes: TopicHashes::default(),
            timers: Timers::default(),
            pending: PendingOffsets::default(),
            events: Events::default(),
            now: 0,
        }
    }

    /// Calls `act`, and replays the records that it drafts.
    fn call<R>(
        &mut self,
        act: impl FnOnce(&mut Group<Tasks>, &mut Turn<'_, 'static>, &mut Draft<'static>) -> R,
    ) -> R {
        let (mut output, mut draft) = (Output::default(), Draft::new());
        let mut turn = Turn {
            now: self.now,
            wall: Wall(self.now),
            config: &self.config,
            group_configs: &self.group_configs,
            members: Allowance::of_all(),
            pending_bytes: Allowance::of_all(),
            pending: &self.pending,
            topics: &NoTopics,
            newest_topics: 0,
            loaded_topics: 0,
            hashes: &mut self.hashes,
            timers: &mut self.timers,
            output: &mut output,
            events: &mut self.events,
            noted: &mut Noted::default(),
            visible_at: 0,
            connection: None,
            describes: None,
            position: 1,
        };
        let result = act(&mut self.group, &mut turn, &mut draft);
        for record in draft.iter().chain(&output.records) {
            self.group.replay(&mut self.timers, record);
        }
        result
    }

    /// Sends a heartbeat that reports `owned`. Member `a` is in process `p-a`, all others in `p-b`.
    fn beat(
        &mut self,
        member_id: &'static str,
        epoch: i32,
        owned: Option<Owned<Task>>,
    ) -> Result<Answer, Refusal> {
        let process = if member_id == "a" { "p-a" } else { "p-b" };
        let beat = Beat { member_id, epoch, process, owned };
        let client = Client { id: "c", host: "/h" };
        self.call(|group, turn, draft| group.heartbeat(turn, draft, client, &beat))
    }

    fn state(&self, member_id: &str) -> MemberState {
        self.group.members.get(member_id).unwrap().current.state
    }

    /// Fires the timers until `now`. Returns the members that are fenced.
    fn fence_until(&mut self, now: i64) -> Vec<String> {
        self.now = now;
        let mut fenced = Vec::new();
        while let Some(key) = self.timers.pop(now) {
            let (TimerKey::Session { member_id, .. } | TimerKey::Revocation { member_id, .. }) =
                key.clone()
            else {
                unreachable!("{key:?}")
            };
            let number = self.call(|group, turn, draft| {
                let number = group.expired_member(turn, &member_id, key);
                number.into_iter().for_each(|number| group.fence(turn, draft, &[number]));
                number
            });
            fenced.extend(number.map(|_| member_id.to_string()));
        }
        fenced
    }
}

fn tasks(answer: &Answer) -> Vec<String> {
    let keys = answer.tasks.iter().flat_map(Owned::by_key);
    let name = |role| if role == Role::Active { 'a' } else { 's' };
    keys.map(|it| {
        let (role, unit) = it.key;
        let each = it.partitions.iter().map(|it| format!("{}@{}", it.partition, it.epoch));
        format!("{}{unit}:{}", name(role), each.collect::<Vec<_>>().join(","))
    })
    .collect()
}

#[test]
fn a_task_moves_once_its_process_has_given_it_up() {
    let mut world = World::new();
    let first = world.beat("a", 0, None).unwrap();
    assert_eq!((first.epoch, tasks(&first)), (2, vec!["a1:0@2,1@2".into(), "a2:0@2,1@2".into()]));
    assert_eq!(world.group.state(), State::Stable);

    // Member b gets unit 1 and the standbys of unit 2. Member a still runs unit 1.
    let second = world.beat("b", 0, None).unwrap();
    assert_eq!((second.epoch, tasks(&second)), (3, vec!["s2:0@3,1@3".into()]));
    assert_eq!(world.state("b"), MemberState::UnreleasedPartitions);
    let owned = first.tasks;
    let asked = world.beat("a", 2, owned.clone()).unwrap();
    assert_eq!((asked.epoch, tasks(&asked)), (2, vec!["a2:0@2,1@2".into()]));
    assert_eq!(world.state("a"), MemberState::UnrevokedPartitions);
    assert_eq!(world.beat("a", 2, owned).unwrap(), Answer { epoch: 2, tasks: None });

    // A standby must not be in the process that has the active task. Member a has the task until
    // the records of this heartbeat are replayed.
    let given_up = world.beat("a", 2, asked.tasks).unwrap();
    assert_eq!(given_up, Answer { epoch: 3, tasks: None });
    assert_eq!(world.state("a"), MemberState::UnreleasedPartitions);
    let moved = world.beat("b", 3, second.tasks).unwrap();
    assert_eq!(tasks(&moved), ["a1:0@3,1@3", "s2:0@3,1@3"]);
    let last = world.beat("a", 3, None).unwrap();
    assert_eq!(tasks(&last), ["a2:0@2,1@2", "s1:0@3,1@3"]);
    assert_eq!(world.group.state(), State::Stable);
}

#[test]
fn the_epoch_after_a_revocation_is_the_kinds() {
    let mut world = World::new();
    let first = world.beat("a", 0, None).unwrap();
    world.beat("b", 0, None).unwrap();
    let asked = world.beat("a", 2, first.tasks).unwrap();
    // Member c joins before member a has given up unit 1. Member b should then run unit 2, too.
    world.beat("c", 0, None).unwrap();
    world.beat("a", 2, asked.tasks).unwrap();
    let a = &world.group.members.get("a").unwrap().current;
    assert_eq!((a.epoch, a.previous_epoch), (3, 2));
    assert_eq!(a.state, MemberState::UnrevokedPartitions);
}

#[test]
fn a_member_that_does_not_revoke_is_fenced() {
    let mut world = World::new();
    let first = world.beat("a", 0, None).unwrap();
    world.beat("b", 0, None).unwrap();
    world.beat("a", 2, first.tasks).unwrap();
    assert_eq!(world.fence_until(1_000), ["a"]);
    assert_eq!(
        (world.group.len(), world.group.epoch(), world.group.state()),
        (1, 4, State::Assigning)
    );
    let alone = world.beat("b", 3, Some(Owned::default())).unwrap();
    assert_eq!(tasks(&alone), ["a1:0@4,1@4", "a2:0@4,1@4"]);
    let refusal = world.beat("a", 2, None).unwrap_err();
    assert_eq!(refusal.error, ErrorCode::UnknownMemberId);
    assert_eq!(world.fence_until(46_000), ["b"], "its session");
    assert_eq!(world.group.state(), State::Empty);
    assert_eq!(world.timers.len(), 0);
}

#[test]
fn a_group_is_what_its_records_make_and_starts_its_timers() {
    let mut world = World::new();
    let first = world.beat("a", 0, None).unwrap();
    world.beat("b", 0, None).unwrap();
    world.beat("a", 2, first.tasks).unwrap();
    let mut records = Draft::new();
    world.group.durable_records(&mut records);

    let mut again = World::new();
    for record in records.iter().rev() {
        again.group.replay(&mut again.timers, record);
    }
    let mut found = Draft::new();
    again.group.durable_records(&mut found);
    assert_eq!(found, records);
    assert_eq!(
        (&again.group.stable_at, &again.group.own.active),
        (&world.group.stable_at, &world.group.own.active)
    );
    again.call(|group, turn, _| group.loaded(turn));
    assert_eq!(again.timers.len(), 3, "two sessions and a revocation");
    again.group.removed(&mut again.timers);
    assert_eq!(again.timers.len(), 0);
}

#[test]
fn a_group_of_its_kinds_size_is_full() {
    let mut world = World::new();
    for member in ["a", "b", "c"] {
        world.beat(member, 0, None).unwrap();
    }
    let refusal = world.beat("d", 0, None).unwrap_err();
    assert_eq!(refusal.error, ErrorCode::GroupMaxSizeReached);
}
