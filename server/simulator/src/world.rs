//! A run: everything there is in it, and the loop that lets happen what is next.

use crate::client::{
    Admin, Committer, Founder, Hostile, MemberSeat, Producer, Raw, RawSeat, Reader, TopicPlan,
    seat_members,
};
use crate::coverage::{Coverage, Seen};
use crate::disk::Disk;
use crate::event::{Crash, TimedEvent};
use crate::judge::Judge;
use crate::net::Network;
use crate::plant::Plant;
use crate::process::{Images, Process};
use crate::profile::{DiskProfile, MS, Profile, SECOND};
use crate::queue::Queue;
use crate::random::{Random, Salt};
use crate::run::Options;
use crate::trace::Trace;
use kafka_protocol::protocol::StrBytes;
use loadgen::member::Nodes;
use loadgen::topics::{Topic, Topics};
use muster::config::Config;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

pub(crate) struct World {
    pub(crate) profile: Profile,
    pub(crate) config: Arc<Config>,
    pub(crate) queue: Queue,
    pub(crate) trace: Trace,
    pub(crate) disk: Disk,
    pub(crate) disk_random: Random,
    /// Of the device, as the server is told.
    pub(crate) block_bytes: u32,
    pub(crate) network: Network,
    pub(crate) process: Process,
    /// How many shards the data directory is for.
    pub(crate) process_shards: u32,
    pub(crate) process_ends: bool,
    pub(crate) members: Vec<MemberSeat>,
    pub(crate) clients: Vec<RawSeat>,
    pub(crate) client_random: Random,
    pub(crate) members_random: Random,
    pub(crate) topics: Topics,
    pub(crate) nodes: Nodes,
    pub(crate) faults: Random,
    pub(crate) ids: Random,
    pub(crate) judge: Judge,
    pub(crate) coverage: Coverage,
    pub(crate) plant: Option<Plant>,
    pub(crate) violation: Option<String>,
    /// A start was refused, as it had to be.
    pub(crate) refused: bool,
    pub(crate) calm_since: Option<u64>,
    pub(crate) images: Images,
    phase: Phase,
    steps: u64,
    steps_max: u64,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The topics are created.
    Founding,
    /// Things go wrong until this time.
    Chaos(u64),
    /// All goes well, and all has to settle until this time.
    Calm(u64),
    /// So it has to after a change of the groups whose rebalance nobody ended.
    Changed(u64),
    /// Raw clients end; when the last is answered, the machine loses power once more.
    Resting,
    /// It starts for the last time.
    Last,
    Over,
}

/// What a device writes whole, whatever block size the server is told.
const TORN_BLOCK_BYTES: usize = 512;

/// How long a server is away at the most that crashed.
const START_MAX: u64 = 5 * SECOND;

/// Raw clients do little more once all goes well.
const CALM_PAUSE_MAX: u64 = 2 * SECOND;

/// So many members at rest in their groups are a crowd.
const CROWD_MEMBERS: usize = 1_000;

const CHECK_EVERY: u64 = 200 * MS;

impl World {
    /// # Panics
    /// If the configs of the profile contradict each other.
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let Options { plant, steps_max, prints, .. } = options;
        let profile = Profile::new(seed);
        let config = match Config::load("", &profile.configs) {
            Ok(config) => Arc::new(config),
            Err(error) => panic!("the profile's configs: {error}"),
        };
        let of = |salt| Random::new(seed, salt);
        let mut disk = Disk::default();
        disk.block_bytes = TORN_BLOCK_BYTES;
        disk.skips_syncs = plant == Some(Plant::SkippedSync);
        Self {
            config,
            queue: Queue::default(),
            trace: Trace::new(prints),
            disk,
            disk_random: of(Salt::Disk),
            block_bytes: profile.block_bytes,
            network: Network::new(profile.network.clone(), of(Salt::Network)),
            process: Process::default(),
            process_shards: profile.shards,
            process_ends: false,
            members: Vec::new(),
            clients: Vec::new(),
            client_random: of(Salt::Clients),
            members_random: of(Salt::Members),
            topics: Topics::default(),
            nodes: Nodes::default(),
            faults: of(Salt::Faults),
            ids: of(Salt::Ids),
            judge: Judge::default(),
            coverage: Coverage::default(),
            plant,
            violation: None,
            refused: false,
            calm_since: None,
            images: Images::new(options.images_every, of(Salt::Images)),
            phase: Phase::Founding,
            steps: 0,
            steps_max,
            profile,
        }
    }

    /// Runs to the end, or to the first violation.
    pub(crate) fn run(&mut self) {
        self.note(format_args!("{:?}", self.profile.clone()));
        self.start();
        let topics = self.topic_plans();
        self.clients.push(RawSeat::new(Raw::Founder(Founder::new(topics))));
        self.arm_client(0);
        while self.violation.is_none() && !self.refused && self.phase != Phase::Over {
            self.advance();
        }
    }

    /// Lets time pass until the next event, and handles it.
    pub(crate) fn advance(&mut self) {
        let Some(event) = self.queue.pop() else {
            return self.violate(format_args!("nothing happens any more"));
        };
        self.steps += 1;
        let steps_max = self.steps_max;
        if self.steps > steps_max {
            return self.violate(format_args!("more than {steps_max} steps"));
        }
        self.handle(event);
        self.end_cleanly();
    }

    pub(crate) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.queue.now(), what);
    }

    pub(crate) fn is_chaos(&self) -> bool {
        matches!(self.phase, Phase::Chaos(_))
    }

    pub(crate) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting | Phase::Last | Phase::Over)
    }

    pub(crate) fn disk_profile(&self) -> &DiskProfile {
        &self.profile.disk
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    fn handle(&mut self, event: TimedEvent) {
        match event {
            TimedEvent::Turn { life, shard } => self.turn(life, shard),
            TimedEvent::FileDone { life, operation } => self.file_done(life, operation),
            TimedEvent::Connect { link } => self.accept(link),
            TimedEvent::ToServer { link } => self.arrive(link),
            TimedEvent::Taken { link } => self.taken(link),
            TimedEvent::ToClient { link } => self.came(link),
            TimedEvent::Lost { link } => self.lose(link),
            TimedEvent::Ended { link } => self.ended(link),
            TimedEvent::Expired { link, correlation } => self.expired(link, correlation),
            TimedEvent::Member { member, armed } => self.wake_member(member, armed),
            TimedEvent::Client { client, armed } => self.wake_client(client, armed),
            TimedEvent::Fault => self.fault(),
            TimedEvent::Churn => self.churn(),
            TimedEvent::Start => {
                self.start();
                self.last_start();
            }
            TimedEvent::Crash { life, how } => self.crash_at(life, how),
            TimedEvent::Reload { life, shard } => self.reload(life, shard),
            TimedEvent::StopOverdue { life } => self.stop_overdue(life),
            TimedEvent::RoomAgain => self.process.disk_is_full = false,
            TimedEvent::Check => self.check(),
        }
    }

    fn topic_plans(&mut self) -> Vec<TopicPlan> {
        let count = self.members_random.between(1, 4);
        let partitions_max = if self.profile.is_crowd() { 40 } else { 9 };
        let topic = |number| TopicPlan {
            name: format!("topic-{number}"),
            partitions: self.members_random.between(1, partitions_max) as i32,
        };
        (0..count).map(topic).collect()
    }

    /// The topics are there: everybody comes, and things begin to go wrong.
    pub(crate) fn founded(&mut self) {
        if self.phase != Phase::Founding {
            return;
        }
        let Some(seat) = self.process.seats.first() else { return self.arm_client(0) };
        let image = seat.shard.inspect().image().clone();
        for topic in image.topics() {
            self.topics.learn(Topic {
                name: StrBytes::from_string(topic.name.to_string()),
                id: Uuid::from_bytes(topic.id.0),
                partitions: topic.partitions.unsigned_abs(),
            });
        }
        self.phase = Phase::Chaos(self.queue.now() + self.profile.chaos);
        let clients = self.profile.clients.clone();
        let random = &mut self.members_random;
        let (groups, members) = seat_members(&clients, &self.topics, random);
        self.judge.expect_groups(groups);
        self.members = members;
        let topics: Vec<(String, i32)> =
            image.topics().map(|topic| (topic.name.to_string(), topic.partitions)).collect();
        let committer = |number| {
            let topics = topics.iter().take(1 + number as usize % 2).cloned().collect();
            Raw::Committer(Committer::new(number, topics))
        };
        let raws = (0..clients.committers).map(committer);
        let raws = raws.chain((0..clients.admins).map(|number| Raw::Admin(Admin::new(number))));
        let partitions = u64::from(self.profile.offsets_partitions);
        let random = &mut self.members_random;
        let readers: Vec<_> = (0..clients.readers)
            .map(|_| Raw::Reader(Reader::new(random.below(partitions) as u32)))
            .collect();
        let raws = raws.chain(readers);
        let first = topics.iter().take(1).map(|(name, _)| name.clone());
        let produced: Vec<String> = first.chain(Admin::topics_of(0)).collect();
        let producer = |_| Raw::Producer(Producer::new(produced.clone()));
        let raws = raws.chain((0..clients.producers).map(producer));
        let raws = raws.chain((0..clients.hostile).map(|_| Raw::Hostile(Hostile)));
        self.clients.extend(raws.map(RawSeat::new));
        (1..self.clients.len() as u32).for_each(|client| self.arm_client(client));
        for member in 0..clients.members {
            if self.members_random.chance(0.8) {
                self.start_member(member);
            }
        }
        self.queue.after(CHECK_EVERY, TimedEvent::Check);
        self.queue.after(clients.churn_every, TimedEvent::Churn);
        self.plan_fault();
    }

    fn plan_fault(&mut self) {
        let pause = self.faults.between(0, 2 * self.profile.faults.every);
        self.queue.after(pause, TimedEvent::Fault);
    }

    fn fault(&mut self) {
        if !self.is_chaos() {
            return;
        }
        self.plan_fault();
        let faults = self.profile.faults.clone();
        let ends = faults.kill + faults.power_loss + faults.clean_stop;
        let of_time = faults.pause + faults.clock;
        let drawn = self.faults.below(ends + faults.disk_full + of_time + faults.failed_shard);
        if let Some(drawn) = drawn.checked_sub(ends + faults.disk_full) {
            if drawn < faults.pause {
                self.pause_process();
            } else if drawn < of_time {
                self.set_clock();
            } else {
                self.fail_shard();
            }
        } else if drawn < faults.disk_full {
            self.note(format_args!("the disk is full"));
            self.coverage.saw(Seen::FullDisk);
            self.process.disk_is_full = true;
            let pause = self.faults.between(0, 10 * SECOND);
            self.queue.after(pause, TimedEvent::RoomAgain);
        } else if drawn < faults.disk_full + faults.clean_stop {
            self.stop_cleanly();
        } else {
            let how = self.crash_kind();
            self.crash(how);
        }
    }

    pub(crate) fn crash_kind(&mut self) -> Crash {
        let faults = &self.profile.faults;
        let (kill, all) = (faults.kill, faults.kill + faults.power_loss);
        if self.faults.below(all) < kill { Crash::Kill } else { Crash::PowerLoss }
    }

    fn check(&mut self) {
        self.queue.after(CHECK_EVERY, TimedEvent::Check);
        let now = self.queue.now();
        match self.phase {
            Phase::Chaos(until) if now >= until || self.steps >= self.profile.chaos_steps => {
                self.calm_down();
            }
            Phase::Calm(until) | Phase::Changed(until) => self.check_calm(until),
            Phase::Resting => {
                if self.clients.iter().all(|client| !client.waits) && self.process.is_up() {
                    self.phase = Phase::Last;
                    self.calm_since = None;
                    self.crash(Crash::PowerLoss);
                }
            }
            Phase::Founding | Phase::Chaos(_) | Phase::Last | Phase::Over => {}
        }
    }

    fn calm_down(&mut self) {
        self.note(format_args!("all goes well from now on"));
        let now = self.queue.now();
        self.phase = Phase::Calm(now + self.profile.patience());
        self.network.calm();
        let clients = &mut self.profile.clients;
        clients.pause_max = clients.pause_max.max(CALM_PAUSE_MAX);
        self.process.disk_is_full = false;
        self.process.seats.iter_mut().for_each(|seat| seat.fails = None);
        let slow = self.profile.disk.slow;
        let disk = &mut self.profile.disk;
        disk.delay_max = disk.delay_max.min(5_000);
        (disk.slow_chance, disk.write_error_chance, disk.read_error_chance) = (0.0, 0.0, 0.0);
        self.profile.disk.crash.misdirected = 0.0;
        // What was under way may still suffer from what was before.
        let clients = &self.profile.clients;
        let clients = clients.request_timeout + clients.rebalance_timeout;
        self.calm_since = Some(now + clients + 2 * slow + START_MAX);
    }

    fn check_calm(&mut self, until: u64) {
        let now = self.queue.now();
        let unrest = match self.process.is_up() {
            true => self.unrest(),
            false => Some("the server is down".to_owned()),
        };
        match unrest {
            None if self.calm_since.is_some_and(|since| now > since) => {
                self.note(format_args!("at rest"));
                self.count_crowd();
                self.phase = Phase::Resting;
            }
            Some(unrest) if now > until && !self.change_half_rebalanced() => {
                self.violate(format_args!("does not settle: {unrest}"));
            }
            _ => {}
        }
    }

    /// Once, the groups that have not settled get a change, if they need not settle without one.
    fn change_half_rebalanced(&mut self) -> bool {
        let groups = self.half_rebalanced();
        if groups.is_empty() || matches!(self.phase, Phase::Changed(_)) {
            return false;
        }
        self.phase = Phase::Changed(self.queue.now() + self.profile.patience());
        for group in groups {
            self.note(format_args!("group {} has half a rebalance: it changes", group.0));
            self.coverage.saw(Seen::HalfRebalance);
            self.shrink_group(group);
        }
        true
    }

    fn count_crowd(&mut self) {
        if self.stable_members() >= CROWD_MEMBERS {
            self.coverage.saw(Seen::Crowd);
        }
    }

    /// After the last start everything is laid against what was promised.
    fn last_start(&mut self) {
        if self.phase == Phase::Last && self.process.is_up() {
            self.judge_rest();
            self.phase = Phase::Over;
        }
    }

    /// An injected fault: durable writes are said to be done before they are.
    pub(crate) fn plants_early_ack(&self) -> bool {
        self.plant == Some(Plant::EarlyWrite)
    }
}

/// Where the files of a start are put: in memory, if the system has a place for that.
pub(crate) fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}
