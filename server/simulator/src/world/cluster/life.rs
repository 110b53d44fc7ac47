//! Starts and ends of the processes of nodes.

use super::{Cluster, NODES};
use crate::coverage::Seen;
use crate::disk::{Crash, scratch};
use crate::event::{LinkEvent, MachineEvent, TimedEvent};
use crate::node::SHARDS_OF_NODE;
use crate::node::{OpenFile, StartedShard};
use crate::profile::SECOND;
use crate::world::World;
use muster_coordinator::Topics as _;
use muster_storage::Writes;
use muster_storage::layout::BLOCK_MAGIC;
use tempfile::TempDir;

impl World<Cluster> {
    /// Starts the process of a node, unless it runs.
    pub(super) fn start_node(&mut self, number: u32) {
        let node = &mut self.node.nodes[number as usize];
        if node.is_up() {
            return;
        }
        node.begin_start();
        let (life, disk) = (node.life(), node.disk().hash());
        self.sim.note(format_args!("node {number} starts, life {life}, disk {disk:016x}"));
        match self.load_node(number) {
            Ok((started, directory)) => self.begin_life(number, started, directory),
            Err(reason) => {
                self.sim.violate(format_args!("node {number} does not start: {reason}"));
            }
        }
    }

    fn load_node(&mut self, number: u32) -> Result<(Vec<StartedShard>, TempDir), String> {
        let directory = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
        let node = &mut self.node.nodes[number as usize];
        let shards = node.shards_on_disk();
        let path = directory.path();
        let loaded = node.open_directory(path).and_then(|()| node.load_all(path, shards));
        // The name of the directory is different in each run of the same seed.
        let started = loaded.map_err(|reason| reason.replace(&*path.to_string_lossy(), ""))?;
        node.disk_mut().take_names(path);
        Ok((started, directory))
    }

    fn begin_life(&mut self, number: u32, started: Vec<StartedShard>, directory: TempDir) {
        let first = number * SHARDS_OF_NODE;
        self.sim.saw(Seen::StartCompared);
        for (shard, started) in (first..).zip(&started) {
            self.judge.watch_again(shard, started.shard.inspect().image().version());
            if let Err(what) = self.judge.check_replicated_start(shard, started.position) {
                let position = started.position;
                self.sim.violate(format_args!("shard {shard}, found {position}: {what}"));
            }
        }
        let boot = self.node.nodes[number as usize].faults().skewed(1_000, 2 * SECOND);
        let refused = self.on_node(|cluster| {
            let refused = cluster.nodes[number as usize].begin_life(started, directory, boot);
            cluster.dial_all(number, boot);
            refused
        });
        for (shard, error) in refused {
            self.sim.violate(format_args!("shard {} does not begin: {error}", first + shard));
        }
    }

    /// Ends the process of a node, which starts again a little later.
    pub(super) fn end_node(&mut self, number: u32, how: Crash) {
        let node = &mut self.node.nodes[number as usize];
        if !node.is_up() {
            return;
        }
        self.sim.note(format_args!("node {number} crashes: {how:?}"));
        self.sim.saw(if how == Crash::Kill { Seen::Kill } else { Seen::PowerLoss });
        self.judge_restarted();
        let node = &mut self.node.nodes[number as usize];
        if how == Crash::PowerLoss {
            node.lose_power();
        }
        let accepted = node.end_process(how);
        let pause = node.faults().skewed(1_000, 3 * SECOND);
        self.sim.after(pause, TimedEvent::Machine { node: number, event: MachineEvent::Start });
        for pair in self.node.links.end_all(number) {
            let [one, other] = pair.nodes;
            let at = if one == number { other } else { one };
            let event = MachineEvent::Link(LinkEvent::Broken { pair, at });
            let delay = self.node.links.delay();
            self.sim.after(delay, event);
        }
        self.lose_all(&accepted, how, |shard| shard / SHARDS_OF_NODE == number);
    }

    /// Kills a node. Mostly it leaves a quorum.
    pub(super) fn fault(&mut self) {
        if !self.is_chaos() {
            return;
        }
        self.plan_fault();
        let number = self.node.faults.below(u64::from(NODES)) as u32;
        let leaves_quorum = self.node.nodes.iter().filter(|node| !node.is_up()).count() == 0;
        if leaves_quorum || self.node.faults.chance(0.2) {
            self.end_node(number, Crash::Kill);
        }
    }

    /// Ends an operation of a node, which takes effect. Then its shard is notified.
    pub(super) fn file_done(&mut self, number: u32, life: u32, operation: u64) {
        let index = number as usize;
        let ended = self.on_node(|cluster| cluster.nodes[index].end_operation(life, operation));
        let Some(operation) = ended else { return };
        let (shard, file) = (number * SHARDS_OF_NODE + operation.shard, operation.file());
        if let Some(written) = operation.written() {
            self.judge_written(shard, file, written.offset, &written.data);
        } else if operation.is_sync() && self.is_in_log(number, file) {
            let synced = self.judge.note_replicated_synced(shard, self.sim.now());
            self.report(shard, synced);
        }
        self.on_node(|cluster| cluster.nodes[index].notify(operation));
    }

    /// Ends a call of a node, which takes effect. Then its shard is notified.
    pub(super) fn call_done(&mut self, number: u32, life: u32, call: u64) {
        self.on_node(|cluster| {
            let node = &mut cluster.nodes[number as usize];
            let Some((shard, call)) = node.take_call(life, call) else { return };
            let done = node.make(shard, call);
            node.called(shard, done);
        });
    }

    fn is_in_log(&self, number: u32, file: &OpenFile) -> bool {
        let name = self.node.nodes[number as usize].disk().name(file.inode);
        name.to_string_lossy().starts_with("shards-")
    }

    /// Called when a write of a node is durable: reads the block back from the disk.
    fn judge_written(&mut self, shard: u32, file: &OpenFile, offset: u64, data: &[u8]) {
        let number = shard / SHARDS_OF_NODE;
        let is_block = data.starts_with(&BLOCK_MAGIC.to_be_bytes());
        if !is_block || file.mode.writes != Writes::Durable || !self.is_in_log(number, file) {
            return;
        }
        let disk = self.node.nodes[number as usize].disk();
        let durable = disk.durable(file.inode, offset).get(..data.len()).unwrap_or_default();
        let noted = self.judge.note_replicated(shard, durable, self.sim.now());
        self.report(shard, noted);
        self.judge_ended_groups();
    }

    pub(super) fn report(&mut self, shard: u32, checked: Result<(), String>) {
        if let Err(what) = checked {
            self.sim.violate(format_args!("shard {shard}: {what}"));
        }
    }
}
