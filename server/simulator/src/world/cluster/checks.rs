//! The checks of a cluster.

use super::Cluster;
use crate::coverage::Seen;
use crate::node::SHARDS_OF_NODE;
use crate::node::{Fact, FileFact};
use crate::profile::SECOND;
use crate::records::{RecordBytes, bytes_of};
use crate::world::{Machine, Phase, World};
use muster_server::cluster::ClusterImage;
use muster_storage::layout::BLOCK_MAGIC;
use muster_storage::{LogSlot, Writes};
use std::sync::Arc;

/// The time in which each slot has a leader that serves, once all nodes run and nothing fails.
const LEADERS_WITHIN: u64 = 3 * SECOND;

impl World<Cluster> {
    /// Judges a fact about a shard.
    pub(super) fn judge_fact(&mut self, shard: u32, fact: Fact) {
        match self.judge_turn_fact(shard, fact) {
            Some(FileFact::Writes(write)) => {
                let is_block = write.data.starts_with(&BLOCK_MAGIC.to_be_bytes());
                if is_block && write.mode.writes == Writes::Durable {
                    let len = write.data.len();
                    self.sim.note(format_args!("shard {shard} writes {len} bytes"));
                    self.judge.note_replicated_write(shard, &write.data);
                }
            }
            Some(FileFact::Opened { path, .. }) => {
                self.sim.note(format_args!("shard {shard} opens {}", path.display()));
            }
            Some(FileFact::Missed { path }) => {
                self.sim.violate(format_args!("shard {shard} misses {}", path.display()));
            }
            Some(FileFact::WriteFailed { path, .. }) => {
                self.sim.saw(Seen::FailedWrite);
                self.sim.note(format_args!("a write to {} fails", path.display()));
            }
            Some(FileFact::ReadShort { path, .. }) => {
                self.sim.violate(format_args!("{} is shorter than a part of it", path.display()));
            }
            None => {}
        }
    }

    /// Judges a shard after its turn.
    pub(super) fn judge_shard(&mut self, shard: u32) {
        let (number, local) = (shard / SHARDS_OF_NODE, shard % SHARDS_OF_NODE);
        let led = self.node.nodes[number as usize].shard(local).inspect().led_slots();
        let led: Vec<(LogSlot, u32)> = led.collect();
        for (slot, term) in led {
            match self.judge.note_leader(slot.group(), term, number) {
                Ok(true) => {
                    self.sim.note(format_args!("node {number} leads {slot:?} in term {term}"));
                    self.sim.saw(Seen::Led);
                    self.node.led_at.insert(shard, self.sim.now());
                    self.judge_restarted();
                }
                Ok(false) => {}
                Err(what) => self.sim.violate(format_args!("{what}")),
            }
        }
        self.judge.count_turn();
        self.judge_memory(shard);
    }

    /// Checks that there are leaders soon after the faults have ended.
    pub(super) fn judge_leaders(&mut self) {
        let now = self.sim.now();
        if !self.node.is_up() {
            self.inside.together_since = None;
            return;
        }
        let since = *self.inside.together_since.get_or_insert(now);
        if now <= since + LEADERS_WITHIN {
            return;
        }
        if let Some(slot) = self.slots().find(|slot| self.node.leader_of(*slot).is_none()) {
            self.sim.violate(format_args!("{slot:?} has no leader although all nodes run"));
        }
    }

    /// All slots, and that of the image.
    fn slots(&self) -> impl Iterator<Item = LogSlot> + use<> {
        let slots = (0..self.profile.offsets_partitions).map(LogSlot::at);
        std::iter::once(LogSlot::UNPARTITIONED).chain(slots)
    }

    /// Compares the state of the leaders with everything that was acknowledged, once each slot has
    /// a leader after the last start. Returns whether it has.
    pub(super) fn judge_leaders_state(&mut self) -> bool {
        let has_leader = |slot: LogSlot| self.node.leader_of(slot).is_some();
        if self.phase != Phase::Last || !self.slots().all(has_leader) {
            return false;
        }
        let placement = self.node.placement;
        let mut records: Vec<RecordBytes> = Vec::new();
        for (number, shard) in self.node.shards() {
            let mut of_shard = shard.inspect().durable_records();
            of_shard.retain(|record| {
                let slot = placement.group_slot(record.group_id());
                self.node.leader_of(LogSlot::at(slot.0)) == Some(number)
            });
            records.extend(bytes_of(&of_shard));
        }
        let controller = self.node.leader_of(LogSlot::UNPARTITIONED);
        let of_controller = self.node.shards().find(|(number, _)| Some(*number) == controller);
        let images: Vec<Arc<ClusterImage>> =
            of_controller.iter().map(|(_, shard)| shard.inspect().image().clone()).collect();
        self.judge_rest(&records, &images);
        true
    }
}
