//! Slices, and the time of groups.

use crate::coverage::Seen;
use crate::world::World;
use muster::shard::Shard;

impl World {
    /// Checks the run queue before a slice.
    pub(crate) fn judge_waiting(&mut self, shard: &Shard) {
        let number = self.process.turning();
        let waiting = self.process.shards[number as usize].turns.before_slice(shard.inspect());
        match waiting {
            Ok(waiting) => self.sim.add(Seen::WaitedForTurn, waiting as u64),
            Err(what) => self.sim.violate(format_args!("shard {number}: {what}")),
        }
    }

    /// Checks a slice that was to do this number of things.
    pub(crate) fn judge_slice(&mut self, shard: &Shard, things: u64) {
        let (shard, number) = (shard.inspect(), self.process.turning());
        self.sim.add(Seen::LongRequest, u64::from(shard.has_long_request()));
        let turns = &mut self.process.shards[number as usize].turns;
        if let Err(what) = turns.after_slice(shard, things) {
            self.sim.violate(format_args!("shard {number}: {what}"));
        }
    }

    /// Checks the time of groups at the end of a turn.
    pub(crate) fn judge_time(&mut self, number: u32) {
        let shard = &mut self.process.shards[number as usize];
        let mut turns = std::mem::take(&mut shard.turns);
        let sessions = turns.check_sessions(shard.inspect());
        let group_time = turns.check_group_time(shard.inspect());
        shard.turns = turns;
        if let Err(what) = sessions.and(group_time) {
            self.sim.violate(format_args!("shard {number}: {what}"));
        }
    }
}
