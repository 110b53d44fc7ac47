//! Worlds whose machines are simulated: one node, or a cluster of them.

use super::{Machine, World};
use crate::node::{Fact, Node};

/// A machine that consists of simulated nodes.
pub(crate) trait Simulated: Machine<Fact = Fact> {
    /// The node of a shard, and the number that the shard has there.
    fn at(&self, shard: u32) -> (&Node, u32);
    /// Like [`Self::at`], to be changed.
    fn at_mut(&mut self, shard: u32) -> (&mut Node, u32);

    /// Judges a shard after its turn.
    fn judge_shard(world: &mut World<Self>, shard: u32);
    /// Whether answers wait for the disks of other nodes.
    fn waits_for_others(&self) -> bool;
    /// Called when a shard has found its state wrong.
    fn shard_failed(world: &mut World<Self>, shard: u32);
    /// Called when a turn of a failed shard is due.
    fn leave_shard(world: &mut World<Self>, shard: u32);
    /// Called when a shard has stopped cleanly.
    fn stopped(world: &mut World<Self>, shard: u32);
    /// Ends the process of a shard, because one of its writes has failed.
    fn end_by_itself(world: &mut World<Self>, shard: u32);
}
