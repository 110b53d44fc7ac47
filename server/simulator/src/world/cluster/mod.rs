//! A cluster of three simulated nodes: each has a disk, a process and clocks of its own. A shard of
//! the cluster has the number of its broker: 1,000 times the number of its node, plus the number
//! that it has there.
//!
//! `links` has the connections between the nodes, `life` starts and kills their processes, `checks`
//! calls the judge.

mod checks;
mod life;
mod links;
mod machine;

use super::{Setup, World};
use crate::client::Brokers;
use crate::event::{LinkEvent, MachineEvent, Pair};
use crate::node::{Effect, FromPeer, Node, Place, SHARDS_OF_NODE, Said, SimShard, id_of};
use crate::options::Options;
use crate::profile::{MS, Profile};
use crate::random::{Random, Salt};
use links::Links;
use muster_counters::Totals;
use muster_server::placement::{CONTROLLER, Placement};
use muster_server::shard::Session;
use muster_storage::LogSlot;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The number of nodes.
const NODES: u32 = 3;

/// The longest delay of a message between nodes. Longer ones would only elect leaders.
const LINK_DELAY_MAX: u64 = 20 * MS;

pub(crate) struct Cluster {
    nodes: Vec<Node>,
    links: Links,
    /// The time, in microseconds since the run began.
    now: u64,
    faults: Random,
    planned: VecDeque<Effect>,
    /// When each shard was last elected for one of its slots.
    led_at: BTreeMap<u32, u64>,
    placement: Placement,
}

/// The state that only a world with a cluster has.
#[derive(Default)]
pub(crate) struct Inside {
    /// The time since which all nodes run, after the end of faults.
    together_since: Option<u64>,
}

impl World<Cluster> {
    /// # Panics
    /// If the configs of the profile contradict each other.
    pub(crate) fn of_cluster(seed: u64, options: Options) -> Self {
        let setup = Setup::new(Profile::for_cluster(seed), options);
        let cluster = Cluster::new(seed, &setup);
        Self::with_machine(seed, setup, cluster, Inside::default())
    }
}

impl Cluster {
    fn new(seed: u64, setup: &Setup) -> Self {
        let Setup { profile, config, options } = setup;
        let node = |number: u32| {
            let place = Place::of(number, NODES, profile.shards);
            let seed = seed ^ u64::from(number + 1) << 40;
            let node = Node::new(seed, profile, Arc::clone(config), options.fault);
            node.in_cluster(place)
        };
        let nodes: Vec<Node> = (0..NODES).map(node).collect();
        let delay = (profile.network.delay_min, profile.network.delay_max.min(LINK_DELAY_MAX));
        Self {
            placement: config.placement(profile.shards),
            nodes,
            links: Links::new(delay, Random::new(seed, Salt::Links)),
            now: 0,
            faults: Random::new(seed, Salt::Faults),
            planned: VecDeque::new(),
            led_at: BTreeMap::new(),
        }
    }

    /// The shards that run, with their numbers.
    fn shards(&self) -> impl Iterator<Item = (u32, &SimShard)> {
        (0..).zip(&self.nodes).flat_map(|(number, node)| {
            let first = number * SHARDS_OF_NODE;
            (first..).zip(node.shards())
        })
    }

    /// The shard that leads and serves a slot, by the newest term.
    fn leader_of(&self, slot: LogSlot) -> Option<u32> {
        let led = self.shards().filter_map(|(number, shard)| {
            let mut led = shard.inspect().led_slots();
            led.find(|(it, _)| *it == slot).map(|(_, term)| (term, number))
        });
        led.max().map(|(_, number)| number)
    }

    /// The counters of shards that have ended.
    pub(crate) fn counters(&self) -> Totals {
        let mut totals = Totals::default();
        self.nodes.iter().for_each(|node| totals.add(node.counters()));
        totals
    }

    /// Takes an effect of a node that was not taken yet. Messages to other nodes go to their links.
    fn next_of_nodes(&mut self) -> Option<Effect> {
        for number in 0..NODES {
            let node = &mut self.nodes[number as usize];
            if let Some(effect) = node.next_effect() {
                return Some(of_node(number, effect));
            }
            while let Some(Said { shard, to, letter }) = self.nodes[number as usize].next_said() {
                let to = u32::from(to.0);
                if let Some((connection, at)) =
                    self.links.send(self.now, (number, to, shard), letter)
                {
                    let arrives = LinkEvent::Arrives { from: number, to, shard, connection };
                    self.plan(at, MachineEvent::Link(arrives));
                }
            }
        }
        self.planned.pop_front()
    }

    fn plan(&mut self, at: u64, event: MachineEvent) {
        self.planned.push_back(Effect::Planned { at, node: 0, event });
    }

    /// A message arrives at a node, if its connection still exists.
    fn arrive(&mut self, from: u32, to: u32, shard: u32, connection: u64) {
        let session = Session(u64::from(self.nodes[from as usize].life()));
        if let Some(letter) = self.links.arrive((from, to, shard), connection) {
            let from = (id_of(from), session);
            self.nodes[to as usize].hear(shard, FromPeer::Said { from, letter });
        }
    }

    /// Has a node dial each other one that it is not connected with.
    fn dial_all(&mut self, node: u32, after: u64) {
        for other in (0..NODES).filter(|it| *it != node) {
            for shard in 0..self.placement.shards {
                self.dial_soon(Pair::new(node, other, shard), after);
            }
        }
    }

    fn dial_soon(&mut self, pair: Pair, after: u64) {
        if self.links.begins_to_dial(pair) {
            let at = self.now + after + self.links.delay();
            self.plan(at, MachineEvent::Link(LinkEvent::Dials(pair)));
        }
    }

    /// Connects a pair if both nodes listen. Otherwise one refuses, and is dialled again.
    fn dial(&mut self, pair: Pair) {
        let listens = |node: u32| self.nodes[node as usize].listens(pair.shard);
        if pair.nodes.into_iter().all(listens) {
            self.links.connect(pair);
            let [one, other] = pair.nodes;
            for (node, peer) in [(one, other), (other, one)] {
                let session = Session(u64::from(self.nodes[peer as usize].life()));
                let event = FromPeer::Connected { node: id_of(peer), session };
                self.nodes[node as usize].hear(pair.shard, event);
            }
            return;
        }
        let is_first = self.links.refused(pair);
        let [one, other] = pair.nodes;
        for (node, peer) in [(one, other), (other, one)] {
            if is_first && !self.nodes[peer as usize].listens(pair.shard) {
                let event = FromPeer::Lost { node: id_of(peer), refused: true };
                self.nodes[node as usize].hear(pair.shard, event);
            }
        }
        let at = self.now + self.links.dial_pause();
        self.plan(at, MachineEvent::Link(LinkEvent::Dials(pair)));
    }

    /// A node notices that a connection has ended, and dials.
    fn broken(&mut self, pair: Pair, at: u32) {
        let [one, other] = pair.nodes;
        let peer = if at == one { other } else { one };
        let event = FromPeer::Lost { node: id_of(peer), refused: false };
        self.nodes[at as usize].hear(pair.shard, event);
        self.dial_soon(pair, 0);
    }
}

/// An effect of a node, as one of the cluster.
fn of_node(node: u32, effect: Effect) -> Effect {
    let number = |shard: u32| node * SHARDS_OF_NODE + shard;
    match effect {
        Effect::Planned { at, event, .. } => Effect::Planned { at, node, event },
        Effect::Sent { shard, link, bytes, is_whole } => {
            Effect::Sent { shard: number(shard), link, bytes, is_whole }
        }
        Effect::Showed { shard, fact } => Effect::Showed { shard: number(shard), fact },
        effect @ (Effect::Finished { .. } | Effect::Closed { .. }) => effect,
    }
}

impl Brokers for Cluster {
    fn placement(&self) -> Placement {
        self.placement
    }

    fn group_shard(&self, group: &str) -> u32 {
        let slot = self.placement.group_slot(group);
        let anywhere = self.placement.shard_of(slot);
        self.leader_of(LogSlot::at(slot.0)).unwrap_or(anywhere)
    }

    fn controller(&self) -> u32 {
        self.leader_of(LogSlot::UNPARTITIONED).unwrap_or(CONTROLLER)
    }

    fn may_lack_topics(&self) -> bool {
        true
    }

    fn any(&self, random: &mut Random) -> u32 {
        let shard = random.below(u64::from(self.placement.shards)) as u32;
        random.below(u64::from(NODES)) as u32 * SHARDS_OF_NODE + shard
    }
}
