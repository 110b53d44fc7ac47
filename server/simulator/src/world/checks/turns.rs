//! The facts that turns show, and the time of groups.

use crate::coverage::Seen;
use crate::node::{Fact, FileFact};
use crate::world::{Simulated, World};
use muster_storage::OpenMode;
use muster_storage::snapshot::SNAPSHOT_ASIDE_FILE_NAME;
use std::path::Path;

impl<M: Simulated> World<M> {
    /// Judges a fact about a turn of a shard. Returns a fact about a file, which is not judged.
    pub(in crate::world) fn judge_turn_fact(&mut self, shard: u32, fact: Fact) -> Option<FileFact> {
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
            Fact::File(fact) => return Some(fact),
        };
        if let Err(what) = checked {
            self.sim.violate(format_args!("shard {shard}: {what}"));
        }
        None
    }

    /// Checks the time of groups at the end of a turn.
    pub(crate) fn judge_time(&mut self, number: u32) {
        let (node, local) = self.node.at(number);
        let shard = node.shard(local).inspect();
        let turns = self.judge.turns(number);
        let sessions = turns.check_sessions(shard);
        let group_time = turns.check_group_time(shard);
        if let Err(what) = sessions.and(group_time) {
            self.sim.violate(format_args!("shard {number}: {what}"));
        }
    }
}

impl World {
    /// Judges a fact about a shard.
    pub(crate) fn judge_fact(&mut self, shard: u32, fact: Fact) {
        let Some(fact) = self.judge_turn_fact(shard, fact) else { return };
        if let Err(what) = self.judge_file_fact(shard, fact) {
            self.sim.violate(format_args!("shard {shard}: {what}"));
        }
    }

    fn judge_file_fact(&mut self, shard: u32, fact: FileFact) -> Result<(), String> {
        match fact {
            FileFact::Opened { path, is_new } => {
                self.sim.note(format_args!("shard {shard} opens {}", path.display()));
                self.inside.rot.opened(shard, &path);
                if is_new {
                    self.judge_new_file(&path);
                    self.judge_images(shard, &path, Seen::ImageOfNames, None);
                }
            }
            FileFact::Missed { path } => {
                self.sim.note(format_args!("shard {shard} misses {}", path.display()));
                self.sim.saw(Seen::FileMissed);
            }
            FileFact::Writes(write) => self.judge_write(shard, &write),
            FileFact::WriteFailed { path, mode, is_full } => {
                self.note_failed_write(&path, mode, is_full)
            }
            FileFact::ReadShort { path, offset, len, has } => {
                let part =
                    format!("{len} bytes at {offset} of {}, which has {has}", path.display());
                return Err(format!("a file is shorter than a part of it: {part}"));
            }
        }
        Ok(())
    }

    /// Notes that a write or sync has failed.
    fn note_failed_write(&mut self, path: &Path, mode: OpenMode, is_full: bool) {
        if is_full && mode.is_aside() {
            if !path.ends_with(SNAPSHOT_ASIDE_FILE_NAME) {
                return self.sim.saw(Seen::NoSpaceCompaction);
            }
            self.inside.rot.no_space_for_snapshot();
            return self.sim.saw(Seen::NoSpaceSnapshot);
        }
        self.sim.saw(if is_full { Seen::NoSpaceWrite } else { Seen::FailedWrite });
        self.sim.note(format_args!("a write to {} fails", path.display()));
    }
}
