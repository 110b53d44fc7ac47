//! The event loop. The parts of the world do not know one another: [`Sim`] has the clock and the
//! trace, [`Node`] the server, [`Network`] the bytes on their way, [`Clients`] the clients, and
//! [`Judge`] the rules. The world passes the effects of one part on to the others: `effects` passes
//! on those of a node, `clients` those of clients, and `checks` passes facts to the judge.

mod checks;
mod clients;
mod cluster;
mod damage;
mod effects;
mod files;
mod images;
mod lifecycle;
mod loopback;
mod node;
mod pauses;
mod reload;
mod rot;
mod simulated;
#[cfg(test)]
mod tests;
mod turns;

use crate::client::{Brokers, Raw, TopicCreator};
use crate::coverage::{Coverage, Seen};
use crate::event::{MachineEvent, TimedEvent};
use crate::judge::Judge;
use crate::net::{Asked, LinkId, NetEvent, Network};
use crate::node::{Effect, Node};
use crate::options::Options;
use crate::profile::{MS, Profile, SECOND};
use crate::random::{Random, Salt};
use crate::sim::Sim;
use clients::Clients;
use loadgen::topics::Topic;
use muster_server::config::Config;
use std::sync::Arc;

pub(crate) use cluster::Cluster;
pub(crate) use loopback::Loopback;
pub use loopback::Target;
pub(crate) use simulated::Simulated;

/// The parts of which a run is made.
struct Setup {
    profile: Profile,
    config: Arc<Config>,
    options: Options,
}

impl Setup {
    /// # Panics
    /// If the configs of the profile contradict each other.
    fn new(profile: Profile, options: Options) -> Self {
        match Config::load("", &profile.configs) {
            Ok(config) => Self { profile, config: Arc::new(config), options },
            Err(error) => panic!("the profile's configs: {error}"),
        }
    }
}

/// The state of a run.
pub(crate) struct World<M: Machine = Node> {
    profile: Profile,
    config: Arc<Config>,
    sim: Sim,
    network: Network,
    node: M,
    inside: M::Inside,
    clients: Clients,
    judge: Judge,
    /// A time at which the last faults have no effect any longer; None before their end. Requests
    /// that are sent later must be answered. The run looks only after this time whether groups have
    /// settled.
    calm_since: Option<u64>,
    phase: Phase,
}

/// The machine that the server runs on: simulated, or the real one. It does everything that depends
/// on this difference. Its functions with a `world` argument may change the whole world.
pub(crate) trait Machine: Brokers + Sized {
    /// The state that only a world with this kind of machine has.
    type Inside;
    /// A fact about a shard that the judge sees.
    type Fact;
    /// Whether there may be streams groups.
    const HAS_STREAMS: bool;

    /// The next event, at its time. None ends the run with a violation.
    fn next_event(world: &mut World<Self>) -> Option<TimedEvent>;
    /// Handles an event of the machine.
    fn handle(world: &mut World<Self>, node: u32, event: MachineEvent);
    /// Called after each event.
    fn handled(world: &mut World<Self>);
    /// Called when the machine has acted and its effects are carried out.
    fn acted(world: &mut World<Self>);

    /// Starts the process, unless it runs.
    fn start(world: &mut World<Self>);
    /// Ends the process in the hardest way. It starts again a little later.
    fn crash(world: &mut World<Self>);
    /// Plans the first faults.
    fn plan_faults(world: &mut World<Self>);
    /// Ends all faults. Requests that are sent after `calm_since` must be answered.
    fn calm(world: &mut World<Self>, calm_since: u64);

    /// Called when all groups have settled. Delivers messages that a fault still delays.
    fn rests(world: &mut World<Self>);

    /// Shows the judge a fact.
    fn judge_fact(world: &mut World<Self>, shard: u32, fact: Self::Fact);
    /// Judges an answer that leaves a shard.
    fn judge_answer(world: &mut World<Self>, shard: u32, link: LinkId, asked: &Asked, frame: &[u8]);
    /// Runs the periodic checks.
    fn judge_now(world: &mut World<Self>);
    /// Runs the periodic checks that apply once all faults have ended.
    fn judge_calm(world: &mut World<Self>);
    /// Judges the state that the last startup finds. Returns false if the server does not run.
    fn judge_last_start(world: &mut World<Self>) -> bool;
    /// Whether all effects of faults are over.
    fn has_recovered(world: &World<Self>) -> bool;
    /// The states of share groups, as text for a violation.
    fn share_states(world: &World<Self>) -> String;

    /// Whether the process runs and serves.
    fn is_up(&self) -> bool;
    /// The number of processes so far.
    fn starts(&self) -> u32;
    /// The number of the last process that a shard belongs to.
    fn life(&self, shard: u32) -> u32;
    /// Whether a shard may accept connections.
    fn listens(&self, shard: u32) -> bool;
    /// The port of the first shard; the others follow.
    fn first_port(&self) -> u16;
    /// The time since which all shards run and handle their input; None while they do not.
    fn runs_since(&self) -> Option<u64>;
    /// The end of the last pause; may be in the past.
    fn stands_until(&self) -> u64;
    /// When a shard was last loaded; zero if it never was.
    fn loaded_at(&self, shard: u32) -> u64;
    /// The topics that all shards know; None if they differ.
    fn topics(&self) -> Option<Vec<Topic>>;
    /// A function that returns a topic's number of partitions, or None if the topic does not exist.
    /// None if no shard runs.
    fn partitions(&self) -> Option<impl Fn(&str) -> Option<i32>>;
    /// The random numbers for faults.
    fn faults(&mut self) -> &mut Random;
    /// The marks that the machine reached.
    fn coverage(&self) -> Coverage;

    /// Accepts a client's connection to a shard. The client shows this principal.
    fn accept(&mut self, link: LinkId, shard: u32, principal: Option<Arc<str>>);
    /// Delivers bytes that a client has sent.
    fn receive(&mut self, link: LinkId, bytes: Vec<u8>);
    /// Notes that the client has read this number of bytes of the output.
    fn taken(&mut self, link: LinkId, bytes: usize);
    /// Notes that a client sends nothing more.
    fn input_ended(&mut self, link: LinkId);
    /// Notes that a client has closed its connection.
    fn ended(&mut self, link: LinkId);
    /// The oldest effect that was not taken yet.
    fn next_effect(&mut self) -> Option<Effect<Self::Fact>>;
}

/// The phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The topics are created.
    CreatingTopics,
    /// Faults occur until this time.
    Chaos(u64),
    /// There are no faults, and everything must have settled by this time.
    Calm(u64),
    /// Some groups did not settle, because no member had ended their rebalance: so members were
    /// stopped. Everything must have settled by this time.
    Changed(u64),
    /// Raw clients end, except consumers of share groups. These must have finished all records by
    /// this time.
    Resting(u64),
    /// All clients are answered; at this time the machine loses power once more.
    Answered(u64),
    /// The server starts for the last time.
    Last,
    Over,
}

/// The longest time from a crash to the next start.
const START_MAX: u64 = 5 * SECOND;

/// Once there are no faults, raw clients should send few requests: so the longest pause between
/// their requests becomes this long, if it is shorter.
const CALM_PAUSE_MAX: u64 = 2 * SECOND;

/// From this number of stable members on, a run counts as a crowd (a coverage mark).
const CROWD_MEMBERS: usize = 1_000;

const CHECK_EVERY: u64 = 200 * MS;
/// The time in which share groups must finish all records. It is long, because a record may be
/// delivered up to ten times, and each time it may stay locked.
const DRAIN_MAX: u64 = 300 * SECOND;
/// The time after the last answer in which its consequences must be complete. For a deleted topic
/// these are: all shards report that its offsets are removed, and its deletion is no longer noted.
const AFTERMATH: u64 = SECOND;

impl<M: Machine> World<M> {
    fn with_machine(seed: u64, setup: Setup, node: M, inside: M::Inside) -> Self {
        let Setup { profile, config, options } = setup;
        let of = |salt| Random::new(seed, salt);
        Self {
            sim: Sim::new(options),
            network: Network::new(profile.network.clone(), of(Salt::Network)),
            node,
            inside,
            config,
            clients: Clients::new(of(Salt::Clients), of(Salt::Members)),
            judge: Judge::default(),
            calm_since: None,
            phase: Phase::CreatingTopics,
            profile,
        }
    }

    /// Runs to the end, or to the first violation.
    pub(crate) fn run(&mut self) {
        self.begin_run();
        while !self.sim.is_violated() && self.phase != Phase::Over {
            self.advance();
        }
    }

    pub(crate) fn sim(&self) -> &Sim {
        &self.sim
    }

    pub(crate) fn node(&self) -> &M {
        &self.node
    }

    /// Starts the server, and the client that creates the topics.
    fn begin_run(&mut self) {
        self.sim.note(format_args!("{:?}", self.profile.clone()));
        M::start(self);
        let creator = TopicCreator::new(self.topic_plans(), self.share_groups());
        let client = self.clients.add([Raw::TopicCreator(creator)].into_iter());
        self.arm_client(client);
    }

    /// Handles the next event, at its time.
    pub(crate) fn advance(&mut self) {
        let Some(event) = M::next_event(self) else { return };
        self.handle(event);
        M::handled(self);
    }

    pub(crate) fn is_chaos(&self) -> bool {
        matches!(self.phase, Phase::Chaos(_))
    }

    pub(crate) fn is_resting(&self) -> bool {
        matches!(self.phase, Phase::Resting(_) | Phase::Answered(_) | Phase::Last | Phase::Over)
    }

    fn handle(&mut self, event: TimedEvent) {
        match event {
            TimedEvent::Machine { node, event } => M::handle(self, node, event),
            TimedEvent::Net(event) => self.handle_net(event),
            TimedEvent::Lost { link } => self.lose(link),
            TimedEvent::Ended { link } => self.ended(link),
            TimedEvent::Expired { link, correlation } => self.expired(link, correlation),
            TimedEvent::Member { member, armed } => self.wake_member(member, armed),
            TimedEvent::Client { client, armed } => self.wake_client(client, armed),
            TimedEvent::Churn => self.churn(),
            TimedEvent::Start => {
                M::start(self);
                self.last_start();
            }
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

    fn plan_fault(&mut self) {
        let pause = self.node.faults().between(0, 2 * self.profile.faults.every);
        self.sim.after(pause, MachineEvent::Fault);
    }

    /// Starts the process a little later.
    fn start_later(&mut self) {
        let pause = self.node.faults().skewed(1_000, 3 * SECOND);
        self.sim.after(pause, TimedEvent::Start);
    }

    fn check(&mut self) {
        self.sim.after(CHECK_EVERY, TimedEvent::Check);
        M::judge_now(self);
        let now = self.sim.now();
        match self.phase {
            Phase::Chaos(until) if now >= until || self.sim.steps() >= self.profile.chaos_steps => {
                self.calm_down();
            }
            Phase::Calm(until) | Phase::Changed(until) => {
                M::judge_calm(self);
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
        // A pause of the process, or a hang of its disk, continues.
        let now = self.sim.now().max(self.node.stands_until());
        self.phase = Phase::Calm(now + self.profile.patience());
        self.network.calm();
        let clients = &mut self.profile.clients;
        clients.pause_max = clients.pause_max.max(CALM_PAUSE_MAX);
        // Earlier faults may still delay requests under way.
        let patience = clients.request_timeout + clients.rebalance_timeout;
        let calm_since = now + patience + 2 * self.profile.disk.slow + START_MAX;
        self.calm_since = Some(calm_since);
        M::calm(self, calm_since);
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
                M::rests(self);
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
            let groups = format!("{undrained:?}: {}", M::share_states(self));
            return self.sim.violate(format_args!("share groups have not done all: {groups}"));
        }
        if undrained.is_empty() && self.is_answered() {
            self.phase = Phase::Answered(now + AFTERMATH);
        }
    }

    /// If groups have done only half of a rebalance, stops a member of each: without a change such
    /// groups need not settle. Does this at most once in a run; returns whether it did so now.
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

    /// After the last startup, compares the state of the server with all answers.
    fn last_start(&mut self) {
        if self.phase == Phase::Last && M::judge_last_start(self) {
            self.phase = Phase::Over;
        }
    }
}
