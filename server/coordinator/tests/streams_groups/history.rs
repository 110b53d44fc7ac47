//! Random histories: members join, leave and vanish, answers are lost, topics grow, and the server
//! crashes during a write. At no time may two members run the same active task, or may a process
//! have a task twice. Epochs never decrease. In the end, each task has one member.

use crate::common::read;
use crate::shard::{Shard, Tasks, config, joining, staying};
use crate::snapshots::durable;
use muster_coordinator::{Config, Coordinator};
use std::collections::{BTreeMap, BTreeSet};

const MEMBERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const PROCESSES: [&str; 3] = ["p", "q", "r"];

/// After FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID the member joins again.
const JOIN_AGAIN: [i16; 2] = [110, 25];

#[derive(Default)]
struct Client {
    process: &'static str,
    epoch: i32,
    /// The tasks that the client runs.
    runs: Tasks,
    target: Option<Tasks>,
}

struct History {
    shard: Shard,
    clients: BTreeMap<&'static str, Client>,
    random: u64,
    steps_back: usize,
    revocations: usize,
    crashes: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let standbys = (seed % 3) as i32;
        let config = Config { group_streams_num_standby_replicas: standbys, ..config() };
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (shard, clients) = (Shard::with(config), BTreeMap::new());
        Self { shard, clients, random, steps_back: 0, revocations: 0, crashes: 0 }
    }

    fn below(&mut self, count: u64) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % count) as usize
    }

    fn step(&mut self) {
        let member = MEMBERS[self.below(6)];
        match self.below(20) {
            0 => {
                if self.clients.remove(member).is_some() {
                    self.shard.try_beat(staying(member, -1, None));
                }
            }
            // The member's session expires later. Until then it keeps its tasks.
            1 if self.clients.contains_key(member) => self.vanish(member),
            2 => self.shard.topics.grow("t"),
            19 => self.shard.crash_after = Some(self.below(4)),
            3 => self.shard.pass(500),
            choice => self.beat(member, choice < 7),
        }
        self.check();
    }

    fn vanish(&mut self, member: &'static str) {
        self.clients.remove(member);
        for _ in 0..10 {
            self.shard.pass(5_000);
            for other in MEMBERS.into_iter().filter(|it| *it != member) {
                if self.clients.contains_key(other) {
                    self.beat(other, false);
                    self.check_running();
                }
            }
        }
    }

    fn beat(&mut self, member: &'static str, is_lost: bool) {
        // A member never changes its process here. If it did, it could bring a task that the new
        // process already has. Kafka allows this, too.
        let process = PROCESSES[usize::from(member.as_bytes()[0]) % PROCESSES.len()];
        let client =
            self.clients.entry(member).or_insert_with(|| Client { process, ..Client::default() });
        let request = if client.epoch == 0 {
            client.runs = Tasks::default();
            joining(member, client.process)
        } else {
            if let Some(target) = client.target.take() {
                self.revocations += usize::from(!client.runs[0].is_subset(&target[0]));
                client.runs = target;
            }
            staying(member, client.epoch, Some(&client.runs))
        };
        let answer = self.shard.try_beat(request);
        let client = self.clients.get_mut(member).unwrap();
        self.crashes += usize::from(answer.is_none());
        let Some(answer) = answer.filter(|_| !is_lost) else { return };
        if JOIN_AGAIN.contains(&answer.error) {
            (client.epoch, client.runs, client.target) = (0, Tasks::default(), None);
            self.steps_back += 1;
            return;
        }
        assert_eq!(answer.error, 0, "{answer:?}");
        assert!(answer.epoch >= client.epoch, "{member}: {answer:?} after {}", client.epoch);
        client.epoch = answer.epoch;
        if let Some(target) = answer.tasks {
            // The client stops and starts tasks at once.
            self.revocations += usize::from(!client.runs[0].is_subset(&target[0]));
            client.runs = target;
        }
    }

    fn check(&mut self) {
        self.check_running();
        let described = self.shard.described();
        let mut active = BTreeSet::new();
        let mut of_processes = BTreeSet::new();
        for member in &described.members {
            let process = member.process_id.to_string();
            let lists = [&member.assignment.active_tasks, &member.assignment.standby_tasks];
            for (role, list) in lists.into_iter().enumerate() {
                for (id, it) in list.iter().flat_map(|of| {
                    of.partitions.iter().map(|it| (of.subtopology_id.to_string(), *it))
                }) {
                    let is_new = of_processes.insert((process.clone(), id.clone(), it));
                    assert!(is_new, "{process} has {id}_{it} twice: {described:?}");
                    let is_first = role != 0 || active.insert((id.clone(), it));
                    assert!(is_first, "{id}_{it} is active twice: {described:?}");
                }
            }
        }
    }

    /// No two clients may run the same task.
    fn check_running(&self) {
        let mut running = BTreeSet::new();
        for (member, client) in &self.clients {
            for task in &client.runs[0] {
                assert!(running.insert(task), "{member} runs {task:?}, as another does");
            }
        }
    }

    /// No more answers are lost. Each task must have a member after some rounds of heartbeats, in
    /// which the sessions of vanished members expire.
    fn settle(&mut self) {
        self.shard.crash_after = None;
        self.beat("a", false);
        for _ in 0..16 {
            for member in MEMBERS {
                if self.clients.contains_key(member) {
                    self.beat(member, false);
                }
            }
            self.shard.pass(5_000);
        }
        self.check();
        assert_eq!(self.shard.state(), "Stable", "{:?}", self.shard.described());
        let running: usize = self.clients.values().map(|it| it.runs[0].len()).sum();
        let partitions = ["t", "u"].map(|name| self.shard.topics.partitions_of(name).count());
        assert_eq!(running, partitions.iter().sum::<usize>());
    }

    /// The log must produce the same group.
    fn replay(&mut self) {
        let mut replayed = Coordinator::new(config());
        for (at, record) in self.shard.log.iter().enumerate() {
            replayed.replay(&read(record), at as u64 + 1);
        }
        assert_eq!(durable(&mut replayed), durable(&mut self.shard.coordinator));
        let (_, audited) = self.shard.coordinator.audit_after(None).unwrap();
        assert_eq!(audited, Ok(()));
    }
}

#[test]
fn tasks_have_one_owner_in_every_history() {
    let (mut steps_back, mut revocations, mut crashes) = (0, 0, 0);
    for seed in 0..100 {
        let mut history = History::new(seed);
        for _ in 0..80 {
            history.step();
        }
        history.settle();
        history.replay();
        steps_back += history.steps_back;
        revocations += history.revocations;
        crashes += history.crashes;
    }
    assert!(revocations > 50, "only {revocations} revocations");
    assert!(crashes > 20, "only {crashes} crashes");
    assert!(steps_back > 10, "only {steps_back} members had to join again");
}
