//! The facts that turns show, and the time of groups.

use crate::coverage::Seen;
use crate::node::Fact;
use crate::world::World;

impl World {
    /// Judges a fact about a shard.
    pub(crate) fn judge_fact(&mut self, shard: u32, fact: Fact) {
        let checked = match fact {
            Fact::Image(image) => self.judge.note_image(shard, self.sim.now(), &image),
            Fact::Received { connection, bytes, came_at } => {
                self.judge.turns(shard).arrived(connection, bytes, came_at);
                Ok(())
            }
            Fact::Ended(connection) => {
                self.judge.turns(shard).forget(connection);
                Ok(())
            }
            Fact::SliceBegins(queues) => {
                let waiting = self.judge.turns(shard).before_slice(queues);
                waiting.map(|waiting| self.sim.add(Seen::WaitedForTurn, waiting as u64))
            }
            Fact::SliceEnds { queues, things, has_long_request } => {
                self.sim.add(Seen::LongRequest, u64::from(has_long_request));
                self.judge.turns(shard).after_slice(queues, things)
            }
            Fact::InputEnds(queues) => {
                self.judge.turns(shard).note_waiting(queues);
                Ok(())
            }
        };
        if let Err(what) = checked {
            self.sim.violate(format_args!("shard {shard}: {what}"));
        }
    }

    /// Checks the time of groups at the end of a turn.
    pub(crate) fn judge_time(&mut self, number: u32) {
        let shard = self.process.shards[number as usize].inspect();
        let turns = self.judge.turns(number);
        let sessions = turns.check_sessions(shard);
        let group_time = turns.check_group_time(shard);
        if let Err(what) = sessions.and(group_time) {
            self.sim.violate(format_args!("shard {number}: {what}"));
        }
    }
}
