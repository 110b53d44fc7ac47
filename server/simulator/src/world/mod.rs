//! The event loop. The parts of the world do not know one another: [`Sim`] has the clock and the
//! trace, [`Node`] the server, [`Network`] the bytes on their way, [`Clients`] the clients, and
//! [`Judge`] the rules. The world passes the deeds of one part on to the others: `effects` those of
//! a node, `clients` those of clients, and `checks` all that the judge has to know.

mod checks;
mod clients;
mod damage;
mod effects;
mod files;
mod images;
mod lifecycle;
mod pauses;
mod reload;
mod rot;
#[cfg(test)]
mod tests;
mod turns;

use crate::client::{Raw, TopicCreator};
use crate::coverage::Seen;
use crate::disk::Crash;
use crate::event::TimedEvent;
use crate::images::Images;
use crate::judge::Judge;
use crate::net::{NetEvent, Network};
use crate::node::Node;
use crate::options::Options;
use crate::profile::{MS, Profile, SECOND};
use crate::random::{Random, Salt};
use crate::rot::Rot;
use crate::sim::Sim;
use clients::Clients;
use muster::config::Config;
use std::path::PathBuf;
use std::sync::Arc;

/// The state of a run.
pub(crate) struct World {
    profile: Profile,
    config: Arc<Config>,
    sim: Sim,
    network: Network,
    node: Node,
    /// The last shard has stopped cleanly in this event.
    process_ends: bool,
    clients: Clients,
    judge: Judge,
    /// The writes that were requested in this turn: the shard, the file and the number of each.
    written: Vec<(u32, PathBuf, u64)>,
    /// The server refused to start, as it had to.
    refused: bool,
    /// Once faults have ended: the time after which requests that are sent must be answered, and
    /// groups may be found settled.
    calm_since: Option<u64>,
    images: Images,
    rot: Rot,
    phase: Phase,
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The topics are created.
    CreatingTopics,
    /// Things go wrong until this time.
    Chaos(u64),
    /// All goes well, and all has to settle until this time.
    Calm(u64),
    /// Groups were changed whose rebalance no member ended: all has to settle until this time.
    Changed(u64),
    /// Raw clients end, but for consumers of share groups: they have until this time to do all.
    Resting(u64),
    /// All clients are answered; at this time the machine loses power once more.
    Answered(u64),
    /// The server starts for the last time.
    Last,
    Over,
}

/// The longest time from a crash to the next start.
const START_MAX: u64 = 5 * SECOND;

/// Raw clients do little more once all goes well.
const CALM_PAUSE_MAX: u64 = 2 * SECOND;

/// This number of members at rest in their groups is a crowd.
const CROWD_MEMBERS: usize = 1_000;

const CHECK_EVERY: u64 = 200 * MS;
/// The time for share groups to do all: records are delivered up to ten times, each with its lock.
const DRAIN_MAX: u64 = 300 * SECOND;
/// The time for the consequences of the last answer: after the deletion of a topic, all shards
/// report that its offsets are gone, and the topic is noted as deleted no longer.
const AFTERMATH: u64 = SECOND;

impl World {
    /// # Panics
    /// If the configs of the profile contradict each other.
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        Self::with_profile(seed, Profile::new(seed), options)
    }

    fn with_profile(seed: u64, profile: Profile, options: Options) -> Self {
        let config = match Config::load("", &profile.configs) {
            Ok(config) => Arc::new(config),
            Err(error) => panic!("the profile's configs: {error}"),
        };
        let of = |salt| Random::new(seed, salt);
        Self {
            sim: Sim::new(options),
            network: Network::new(profile.network.clone(), of(Salt::Network)),
            node: Node::new(seed, &profile, config.clone(), options.fault),
            config,
            process_ends: false,
            clients: Clients::new(of(Salt::Clients), of(Salt::Members)),
            judge: Judge::default(),
            written: Vec::new(),
            refused: false,
            calm_since: None,
            images: Images::new(options.images_every, of(Salt::Images)),
            rot: Rot::new(of(Salt::Rot), profile.is_crowd()),
            phase: Phase::CreatingTopics,
            profile,
        }
    }

    /// Runs to the end, or to the first violation.
    pub(crate) fn run(&mut self) {
        self.begin_run();
        while !self.sim.is_violated() && !self.refused && self.phase != Phase::Over {
            self.advance();
        }
    }

    pub(crate) fn sim(&self) -> &Sim {
        &self.sim
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The number of crash images from which a server was started.
    pub(crate) fn images_tried(&self) -> u64 {
        self.images.tried()
    }

    /// Whether the server refused to start, as it had to.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// Starts the server, and the client that creates the topics.
    fn begin_run(&mut self) {
        self.sim.note(format_args!("{:?}", self.profile.clone()));
        self.start();
        let creator = TopicCreator::new(self.topic_plans(), self.share_groups());
        let client = self.clients.add([Raw::TopicCreator(creator)].into_iter());
        self.arm_client(client);
    }

    /// Handles the next event, at its time.
    pub(crate) fn advance(&mut self) {
        let Some(event) = self.sim.next_event() else { return };
        self.node.advance(self.sim.now());
        self.handle(event);
        self.end_cleanly();
    }

    pub(crate) fn is_chaos(&self) -> bool {
        matches!(self.phase, Phase::Chaos(_))
    }

    pub(crate) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting(_) | Phase::Answered(_) | Phase::Last | Phase::Over)
    }

    fn handle(&mut self, event: TimedEvent) {
        match event {
            TimedEvent::Turn { life, shard } => self.turn(life, shard),
            TimedEvent::FileDone { life, operation } => self.file_done(life, operation),
            TimedEvent::CallDone { life, call } => self.call_done(life, call),
            TimedEvent::Net(event) => self.handle_net(event),
            TimedEvent::Lost { link } => self.lose(link),
            TimedEvent::Ended { link } => self.ended(link),
            TimedEvent::Expired { link, correlation } => self.expired(link, correlation),
            TimedEvent::Member { member, armed } => self.wake_member(member, armed),
            TimedEvent::Client { client, armed } => self.wake_client(client, armed),
            TimedEvent::Fault => self.fault(),
            TimedEvent::Rot => self.rot(),
            TimedEvent::Churn => self.churn(),
            TimedEvent::Start => {
                self.start();
                self.last_start();
            }
            TimedEvent::Crash { life, how } => self.crash_at(life, how),
            TimedEvent::Reload { life, shard } => self.reload(life, shard),
            TimedEvent::StopOverdue { life } => self.stop_overdue(life),
            TimedEvent::RoomAgain => self.node.set_disk_full(false),
            TimedEvent::Check => self.check(),
        }
    }

    fn handle_net(&mut self, event: NetEvent) {
        match event {
            NetEvent::Connect { link } => self.accept(link),
            NetEvent::ToServer { link } => self.arrive(link),
            NetEvent::Taken { link } => self.taken(link),
            NetEvent::ToClient { link } => self.came(link),
        }
    }

    pub(crate) fn plan_faults(&mut self) {
        self.plan_fault();
        self.plan_rot();
    }

    fn plan_fault(&mut self) {
        let pause = self.node.faults().between(0, 2 * self.profile.faults.every);
        self.sim.after(pause, TimedEvent::Fault);
    }

    fn fault(&mut self) {
        if !self.is_chaos() {
            return;
        }
        self.plan_fault();
        let faults = self.profile.faults.clone();
        let ends = faults.kill + faults.power_loss + faults.clean_stop;
        let of_time = faults.pause + faults.clock + faults.hang;
        let drawn =
            self.node.faults().below(ends + faults.disk_full + of_time + faults.failed_shard);
        if let Some(drawn) = drawn.checked_sub(ends + faults.disk_full) {
            if drawn < faults.pause {
                self.pause_process();
            } else if drawn < faults.pause + faults.hang {
                self.hang_disk();
            } else if drawn < of_time {
                self.set_clock();
            } else {
                self.fail_shard();
            }
        } else if drawn < faults.disk_full {
            self.sim.note(format_args!("the disk is full"));
            self.sim.saw(Seen::FullDisk);
            self.node.set_disk_full(true);
            let pause = self.node.faults().between(0, 10 * SECOND);
            self.sim.after(pause, TimedEvent::RoomAgain);
        } else if drawn < faults.disk_full + faults.clean_stop {
            if !self.rot.is_outstanding() {
                self.stop_cleanly();
            }
        } else if !self.rot.forbids_kill() {
            let how = self.crash_kind();
            self.crash(how);
        }
    }

    pub(crate) fn crash_kind(&mut self) -> Crash {
        let faults = &self.profile.faults;
        let (kill, all) = (faults.kill, faults.kill + faults.power_loss);
        if self.node.faults().below(all) < kill { Crash::Kill } else { Crash::PowerLoss }
    }

    fn check(&mut self) {
        self.sim.after(CHECK_EVERY, TimedEvent::Check);
        self.judge_damaged_batches();
        self.judge_lost_names();
        let now = self.sim.now();
        match self.phase {
            Phase::Chaos(until) if now >= until || self.sim.steps() >= self.profile.chaos_steps => {
                self.calm_down();
            }
            Phase::Calm(until) | Phase::Changed(until) => {
                self.judge_open_transactions();
                self.check_calm(until);
            }
            Phase::Resting(until) => self.check_resting(until),
            Phase::Answered(until) if now >= until && self.is_at_rest() => self.crash_last(),
            Phase::CreatingTopics | Phase::Chaos(_) => {}
            Phase::Answered(_) | Phase::Last | Phase::Over => {}
        }
    }

    fn calm_down(&mut self) {
        self.sim.note(format_args!("all goes well from now on"));
        // A pause of the process, or a hang of its disk, lasts on.
        let now = self.sim.now().max(self.node.stands_until());
        self.phase = Phase::Calm(now + self.profile.patience());
        self.network.calm();
        let clients = &mut self.profile.clients;
        clients.pause_max = clients.pause_max.max(CALM_PAUSE_MAX);
        self.node.calm_disk();
        self.node.end_failures();
        // Requests under way may still suffer from earlier faults.
        let patience = clients.request_timeout + clients.rebalance_timeout;
        let calm_since = now + patience + 2 * self.profile.disk.slow + START_MAX;
        self.calm_since = Some(calm_since);
        self.node.end_late_verdicts(calm_since);
    }

    fn check_calm(&mut self, until: u64) {
        let now = self.sim.now();
        self.expect_tasks();
        let unrest = match self.node.is_up() {
            true => self.unrest(),
            false => Some("the server is down".to_owned()),
        };
        match unrest {
            None if self.calm_since.is_some_and(|since| now > since) => {
                self.sim.note(format_args!("at rest"));
                self.count_crowd();
                self.count_streams_groups();
                self.phase = Phase::Resting(now + self.profile.patience() + DRAIN_MAX);
                self.wake_sharers();
                self.on_node(Node::release_verdicts);
            }
            Some(unrest) if now > until && !self.change_half_rebalanced() => {
                self.sim.violate(format_args!("does not settle: {unrest}"));
            }
            _ => {}
        }
    }

    fn check_resting(&mut self, until: u64) {
        let (now, undrained) = (self.sim.now(), self.undrained());
        if now > until && !undrained.is_empty() {
            let groups = format!("{undrained:?}: {}", self.share_states());
            return self.sim.violate(format_args!("share groups have not done all: {groups}"));
        }
        if undrained.is_empty() && self.is_answered() {
            self.phase = Phase::Answered(now + AFTERMATH);
        }
    }

    /// Stops a member of each group that need not settle without a change, but once only; returns
    /// whether it did.
    fn change_half_rebalanced(&mut self) -> bool {
        let groups = self.half_rebalanced();
        if groups.is_empty() || matches!(self.phase, Phase::Changed(_)) {
            return false;
        }
        self.phase = Phase::Changed(self.sim.now() + self.profile.patience());
        for group in groups {
            self.sim.note(format_args!("group {} has half a rebalance: it changes", group.0));
            self.sim.saw(Seen::HalfRebalance);
            self.shrink_group(group);
        }
        true
    }

    fn count_crowd(&mut self) {
        if self.stable_members() >= CROWD_MEMBERS {
            self.sim.saw(Seen::Crowd);
        }
    }

    /// After the last start, compares the state of the server with all that was answered.
    fn last_start(&mut self) {
        if self.phase == Phase::Last && self.node.is_up() {
            self.judge_rest();
            self.phase = Phase::Over;
        }
    }
}
