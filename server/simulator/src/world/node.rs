//! A world with a simulated node: the faults that only a simulated machine has, and the checks that
//! read the internal state of its node.

use super::{Machine, Phase, Setup, Simulated, World};
use crate::client::Brokers;
use crate::coverage::{Coverage, Seen};
use crate::disk::Crash;
use crate::event::{MachineEvent, TimedEvent};
use crate::images::Images;
use crate::net::{Asked, LinkId};
use crate::node::{Effect, FIRST_PORT, Fact, Node};
use crate::options::Options;
use crate::profile::{Profile, SECOND};
use crate::random::{Random, Salt};
use crate::rot::Rot;
use loadgen::topics::Topic;
use muster_coordinator::Topics as _;
use muster_server::placement::Placement;
use std::path::PathBuf;
use std::sync::Arc;

/// The state of a world with a simulated node, which shows its internal state.
pub(crate) struct Inside {
    /// Whether the last shard has stopped cleanly in this event.
    pub(super) process_ends: bool,
    /// The writes that were requested in this turn: the shard, the file and the number of each.
    pub(super) written: Vec<(u32, PathBuf, u64)>,
    /// Whether the run ended early, because the server may refuse to start from its files.
    pub(super) refused: bool,
    pub(super) images: Images,
    pub(super) rot: Rot,
}

impl World {
    /// # Panics
    /// If the configs of the profile contradict each other.
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        Self::with_profile(seed, Profile::new(seed), options)
    }

    pub(super) fn with_profile(seed: u64, profile: Profile, options: Options) -> Self {
        let of = |salt| Random::new(seed, salt);
        let inside = Inside {
            process_ends: false,
            written: Vec::new(),
            refused: false,
            images: Images::new(options.images_every, of(Salt::Images)),
            rot: Rot::new(of(Salt::Rot), profile.is_crowd()),
        };
        let setup = Setup::new(profile, options);
        let node = Node::new(seed, &setup.profile, setup.config.clone(), options.fault);
        Self::with_machine(seed, setup, node, inside)
    }

    /// The number of crash images from which a server was started.
    pub(crate) fn images_tried(&self) -> u64 {
        self.inside.images.tried()
    }

    /// Whether the run ended early, because the server may refuse to start from its files.
    pub(crate) fn has_refused(&self) -> bool {
        self.inside.refused
    }

    /// Ends the run, because the server refuses to start. It may do so, as a write was misdirected.
    pub(super) fn refuse(&mut self, reason: &str) {
        self.sim.note(format_args!("refused, for a write went astray: {reason}"));
        self.end_refused();
    }

    /// Ends the run, because nothing more can be judged.
    pub(super) fn end_refused(&mut self) {
        self.inside.refused = true;
        self.phase = Phase::Over;
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
            self.sim.after(pause, MachineEvent::RoomAgain);
        } else if drawn < faults.disk_full + faults.clean_stop {
            if !self.inside.rot.is_outstanding() {
                self.stop_cleanly();
            }
        } else if !self.inside.rot.forbids_kill() {
            let how = self.crash_kind();
            self.crash(how);
        }
    }

    pub(crate) fn crash_kind(&mut self) -> Crash {
        let faults = &self.profile.faults;
        let (kill, all) = (faults.kill, faults.kill + faults.power_loss);
        if self.node.faults().below(all) < kill { Crash::Kill } else { Crash::PowerLoss }
    }
}

impl Brokers for Node {
    fn placement(&self) -> Placement {
        self.placement()
    }
}

impl Machine for Node {
    type Inside = Inside;
    type Fact = Fact;
    const HAS_STREAMS: bool = true;

    fn next_event(world: &mut World) -> Option<TimedEvent> {
        let event = world.sim.next_event()?;
        world.node.advance(world.sim.now());
        Some(event)
    }

    fn handle(world: &mut World, _: u32, event: MachineEvent) {
        match event {
            MachineEvent::Turn { life, shard } => world.turn(life, shard),
            MachineEvent::FileDone { life, operation } => world.file_done(life, operation),
            MachineEvent::CallDone { life, call } => world.call_done(life, call),
            MachineEvent::Fault => world.fault(),
            MachineEvent::Rot => world.rot(),
            MachineEvent::Crash { life, how } => world.crash_at(life, how),
            MachineEvent::Reload { life, shard } => world.reload(life, shard),
            MachineEvent::StopOverdue { life } => world.stop_overdue(life),
            MachineEvent::RoomAgain => world.node.set_disk_full(false),
            MachineEvent::Start | MachineEvent::Link(_) => {
                unreachable!("only a cluster plans such an event")
            }
        }
    }

    fn handled(world: &mut World) {
        world.end_cleanly();
    }

    /// Called when the node has acted. Judges the crash images during each write that the shards
    /// have requested; all these writes are noted first.
    fn acted(world: &mut World) {
        for (shard, path, number) in std::mem::take(&mut world.inside.written) {
            world.judge_images(shard, &path, Seen::ImageInWrite, Some(number));
        }
    }

    fn start(world: &mut World) {
        world.start();
    }

    fn crash(world: &mut World) {
        world.crash(Crash::PowerLoss);
    }

    fn plan_faults(world: &mut World) {
        world.plan_fault();
        world.plan_rot();
    }

    fn calm(world: &mut World, calm_since: u64) {
        world.node.calm_disk();
        world.node.end_failures();
        world.node.end_late_verdicts(calm_since);
    }

    fn rests(world: &mut World) {
        world.on_node(Self::release_verdicts);
    }

    fn judge_fact(world: &mut World, shard: u32, fact: Fact) {
        world.judge_fact(shard, fact);
    }

    fn judge_answer(world: &mut World, shard: u32, link: LinkId, asked: &Asked, frame: &[u8]) {
        world.judge_answer(shard, asked, frame);
        world.judge_access(shard, link, asked, frame);
        world.judge_throttling(shard, link, asked, frame);
    }

    fn judge_now(world: &mut World) {
        world.judge_damaged_batches();
        world.judge_lost_names();
    }

    fn judge_calm(world: &mut World) {
        world.judge_open_transactions();
    }

    fn judge_last_start(world: &mut World) -> bool {
        if world.node.is_up() {
            world.judge_found();
        }
        world.node.is_up()
    }

    fn has_recovered(world: &World) -> bool {
        world.inside.rot.is_over()
    }

    fn share_states(world: &World) -> String {
        world.share_states()
    }

    fn is_up(&self) -> bool {
        self.is_up()
    }

    fn starts(&self) -> u32 {
        self.life()
    }

    fn life(&self, _: u32) -> u32 {
        self.life()
    }

    fn listens(&self, shard: u32) -> bool {
        self.listens(shard)
    }

    fn first_port(&self) -> u16 {
        FIRST_PORT
    }

    fn runs_since(&self) -> Option<u64> {
        self.runs_since()
    }

    fn stands_until(&self) -> u64 {
        self.stands_until()
    }

    fn loaded_at(&self, shard: u32) -> u64 {
        self.loaded_at(shard)
    }

    fn topics(&self) -> Option<Vec<Topic>> {
        let mut images = self.shards().iter().map(|shard| shard.inspect().image());
        let first = images.next()?;
        let topic = |topic: &muster_server::cluster::Topic| Topic {
            name: Arc::from(topic.name.to_string()),
            id: topic.id,
            partitions: topic.partitions.unsigned_abs(),
        };
        let are_same = images.all(|image| image.version() == first.version());
        are_same.then(|| first.topics().map(topic).collect())
    }

    fn partitions(&self) -> Option<impl Fn(&str) -> Option<i32>> {
        let image = self.shards().first()?.inspect().image();
        Some(|name: &str| image.partitions(name))
    }

    fn faults(&mut self) -> &mut Random {
        self.faults()
    }

    fn coverage(&self) -> Coverage {
        self.coverage().clone()
    }

    fn accept(&mut self, link: LinkId, shard: u32, principal: Option<Arc<str>>) {
        self.accept(link, shard, principal);
    }

    fn receive(&mut self, link: LinkId, bytes: Vec<u8>) {
        self.receive(link, bytes);
    }

    fn taken(&mut self, link: LinkId, bytes: usize) {
        self.taken(link, bytes);
    }

    fn input_ended(&mut self, link: LinkId) {
        self.input_ended(link);
    }

    fn ended(&mut self, link: LinkId) {
        self.ended(link);
    }

    fn next_effect(&mut self) -> Option<Effect> {
        self.next_effect()
    }
}

impl Simulated for Node {
    fn at(&self, shard: u32) -> (&Node, u32) {
        (self, shard)
    }

    fn at_mut(&mut self, shard: u32) -> (&mut Node, u32) {
        (self, shard)
    }

    fn waits_for_others(&self) -> bool {
        false
    }

    fn judge_shard(world: &mut World, shard: u32) {
        world.judge_shard(shard);
    }

    fn shard_failed(world: &mut World, shard: u32) {
        world.shard_failed(shard);
    }

    fn leave_shard(world: &mut World, shard: u32) {
        world.leave_shard(shard);
    }

    fn stopped(world: &mut World, shard: u32) {
        world.stopped(shard);
    }

    fn end_by_itself(world: &mut World, _: u32) {
        world.crash(Crash::Kill);
    }
}
