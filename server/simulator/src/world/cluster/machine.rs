//! The functions of a cluster that a world needs of its machine.

use super::{Cluster, Inside, NODES};
use crate::coverage::Coverage;
use crate::disk::Crash;
use crate::event::{LinkEvent, MachineEvent, TimedEvent};
use crate::net::{Asked, LinkId};
use crate::node::SHARDS_OF_NODE;
use crate::node::{Effect, FIRST_PORT, Fact, Node};
use crate::random::Random;
use crate::world::{Machine, Phase, Simulated, World};
use loadgen::topics::Topic;
use muster_coordinator::Topics as _;
use std::sync::Arc;

impl Machine for Cluster {
    type Inside = Inside;
    type Fact = Fact;
    const HAS_STREAMS: bool = false;

    fn next_event(world: &mut World<Self>) -> Option<TimedEvent> {
        let event = world.sim.next_event()?;
        let now = world.sim.now();
        world.node.now = now;
        world.node.nodes.iter_mut().for_each(|node| node.advance(now));
        Some(event)
    }

    fn handle(world: &mut World<Self>, node: u32, event: MachineEvent) {
        match event {
            MachineEvent::Turn { life, shard } => {
                world.turn(life, node * SHARDS_OF_NODE + shard);
            }
            MachineEvent::FileDone { life, operation } => world.file_done(node, life, operation),
            MachineEvent::CallDone { life, call } => world.call_done(node, life, call),
            MachineEvent::Fault => world.fault(),
            MachineEvent::Start => world.start_node(node),
            MachineEvent::Link(LinkEvent::Dials(pair)) => {
                world.on_node(|cluster| cluster.dial(pair));
            }
            MachineEvent::Link(LinkEvent::Arrives { from, to, shard, connection }) => {
                world.on_node(|cluster| cluster.arrive(from, to, shard, connection));
            }
            MachineEvent::Link(LinkEvent::Broken { pair, at }) => {
                world.on_node(|cluster| cluster.broken(pair, at));
            }
            MachineEvent::Rot
            | MachineEvent::Crash { .. }
            | MachineEvent::Reload { .. }
            | MachineEvent::StopOverdue { .. }
            | MachineEvent::RoomAgain => unreachable!("a cluster plans no such event"),
        }
    }

    fn handled(_: &mut World<Self>) {}

    fn acted(_: &mut World<Self>) {}

    fn start(world: &mut World<Self>) {
        (0..NODES).for_each(|node| world.start_node(node));
    }

    fn crash(world: &mut World<Self>) {
        (0..NODES).for_each(|node| world.end_node(node, Crash::PowerLoss));
    }

    fn plan_faults(world: &mut World<Self>) {
        world.plan_fault();
    }

    fn calm(world: &mut World<Self>, _: u64) {
        world.node.nodes.iter_mut().for_each(Node::calm_disk);
        world.node.links.calm();
    }

    fn rests(_: &mut World<Self>) {}

    fn judge_fact(world: &mut World<Self>, shard: u32, fact: Fact) {
        world.judge_fact(shard, fact);
    }

    fn judge_answer(world: &mut World<Self>, shard: u32, _: LinkId, asked: &Asked, frame: &[u8]) {
        let checked = world.judge.check_replicated_answer(asked, frame);
        world.report(shard, checked);
    }

    fn judge_now(world: &mut World<Self>) {
        if world.phase == Phase::Last {
            world.last_start();
        }
    }

    fn judge_calm(world: &mut World<Self>) {
        world.judge_leaders();
    }

    fn judge_last_start(world: &mut World<Self>) -> bool {
        world.judge_leaders_state()
    }

    fn has_recovered(_: &World<Self>) -> bool {
        true
    }

    fn share_states(_: &World<Self>) -> String {
        "a cluster has no share groups yet".to_owned()
    }

    fn is_up(&self) -> bool {
        self.nodes.iter().all(Node::is_up)
    }

    fn starts(&self) -> u32 {
        self.nodes.iter().map(Node::life).sum()
    }

    fn life(&self, shard: u32) -> u32 {
        self.at(shard).0.life()
    }

    fn listens(&self, shard: u32) -> bool {
        let (node, number) = self.at(shard);
        node.listens(number)
    }

    fn first_port(&self) -> u16 {
        FIRST_PORT
    }

    fn runs_since(&self) -> Option<u64> {
        let each = self.nodes.iter().map(|node| node.runs_since().filter(|_| node.is_up()));
        each.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    fn stands_until(&self) -> u64 {
        self.nodes.iter().map(Node::stands_until).max().unwrap_or(0)
    }

    fn loaded_at(&self, shard: u32) -> u64 {
        let (node, number) = self.at(shard);
        let led_at = self.led_at.get(&shard).copied().unwrap_or(0);
        node.loaded_at(number).max(led_at)
    }

    fn topics(&self) -> Option<Vec<Topic>> {
        let topic = |topic: &muster_server::cluster::Topic| Topic {
            name: Arc::from(topic.name.to_string()),
            id: topic.id,
            partitions: topic.partitions.unsigned_abs(),
        };
        let of_shard = |image: &muster_server::cluster::ClusterImage| -> Vec<Topic> {
            image.topics().map(topic).collect()
        };
        let mut all = self.shards().map(|(_, shard)| of_shard(shard.inspect().image()));
        let first = all.next()?;
        let ids = |topics: &[Topic]| topics.iter().map(|topic| topic.id).collect::<Vec<_>>();
        (self.is_up() && all.all(|other| ids(&other) == ids(&first))).then_some(first)
    }

    fn partitions(&self) -> Option<impl Fn(&str) -> Option<i32>> {
        let (_, shard) = self.shards().next()?;
        let image = shard.inspect().image();
        Some(|name: &str| image.partitions(name))
    }

    fn faults(&mut self) -> &mut Random {
        &mut self.faults
    }

    fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        self.nodes.iter().for_each(|node| coverage += node.coverage());
        coverage
    }

    fn accept(&mut self, link: LinkId, shard: u32, principal: Option<Arc<str>>) {
        let (node, number) = self.at_mut(shard);
        node.accept(link, number, principal);
    }

    fn receive(&mut self, link: LinkId, bytes: Vec<u8>) {
        if let Some(node) = self.of_link(link) {
            node.receive(link, bytes);
        }
    }

    fn taken(&mut self, link: LinkId, bytes: usize) {
        self.of_link(link).into_iter().for_each(|node| node.taken(link, bytes));
    }

    fn input_ended(&mut self, link: LinkId) {
        self.of_link(link).into_iter().for_each(|node| node.input_ended(link));
    }

    fn ended(&mut self, link: LinkId) {
        self.of_link(link).into_iter().for_each(|node| node.ended(link));
    }

    fn next_effect(&mut self) -> Option<Effect> {
        self.next_of_nodes()
    }
}

impl Simulated for Cluster {
    fn at(&self, shard: u32) -> (&Node, u32) {
        (&self.nodes[(shard / SHARDS_OF_NODE) as usize], shard % SHARDS_OF_NODE)
    }

    fn at_mut(&mut self, shard: u32) -> (&mut Node, u32) {
        (&mut self.nodes[(shard / SHARDS_OF_NODE) as usize], shard % SHARDS_OF_NODE)
    }

    fn judge_shard(world: &mut World<Self>, shard: u32) {
        world.judge_shard(shard);
    }

    fn waits_for_others(&self) -> bool {
        true
    }

    fn shard_failed(world: &mut World<Self>, shard: u32) {
        world.sim.violate(format_args!("shard {shard} gives its state up"));
    }

    fn leave_shard(_: &mut World<Self>, _: u32) {
        unreachable!("no shard of a cluster is loaded again");
    }

    fn stopped(world: &mut World<Self>, shard: u32) {
        world.sim.violate(format_args!("shard {shard} stops unasked"));
    }

    fn end_by_itself(world: &mut World<Self>, shard: u32) {
        world.end_node(shard / SHARDS_OF_NODE, Crash::Kill);
    }
}

impl Cluster {
    /// The node that has accepted a client's connection.
    fn of_link(&mut self, link: LinkId) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|node| node.has(link))
    }
}
