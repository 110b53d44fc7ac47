//! A failed shard is loaded again, in a process that continues: its connections are closed, its
//! operations end, and messages that come meanwhile wait for the next.

use super::{Inbound, Seat, StartedShard};
use crate::coverage::Seen;
use crate::event::TimedEvent;
use crate::profile::SECOND;
use crate::random::SeededIds;
use crate::world::{World, scratch};
use muster::shard::{Command, LoadError};
use muster_coordinator::Topics;
use std::path::Path;

/// How long it takes at the most to load a shard.
const LOAD_MAX: u64 = SECOND;

/// When a shard fails that nothing is wrong with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// In its next turn.
    Soon,
    /// In a turn in which it has sent a message to itself.
    WithOwnMail,
}

impl World {
    /// A shard is to fail as if a check had found something.
    pub(crate) fn fail_shard(&mut self) {
        let number = self.faults.below(u64::from(self.process.shards()).max(1)) as u32;
        let is_controller = number == 0;
        let with_mail = is_controller && self.faults.chance(0.7);
        let fails = if with_mail { Failing::WithOwnMail } else { Failing::Soon };
        if let Some(seat) = self.process.seat(number)
            && seat.fails.is_none()
        {
            seat.fails = Some(fails);
            self.wake_shard(number);
        }
    }

    /// At the end of a turn: the shard fails if it is to.
    pub(super) fn fail_if_due(&mut self, number: u32) {
        let Some(seat) = self.process.seat(number) else { return };
        let is_due = match seat.fails {
            None => false,
            Some(Failing::Soon) => true,
            Some(Failing::WithOwnMail) => !seat.mail.is_empty(),
        };
        if is_due {
            seat.shard.give_up("it was made to fail");
        }
    }

    /// A shard has found that its groups are not as they should be: there is a reason, or that is a
    /// violation.
    pub(super) fn shard_failed(&mut self, number: u32) {
        let has_reason = self.process.seats[number as usize].fails.is_some();
        if !has_reason && !self.process.has_rotten_snapshot {
            return self.violate(format_args!("shard {number} is not what its log makes"));
        }
        self.note(format_args!("shard {number} fails"));
        self.lose_shard(number);
        let seat = &mut self.process.seats[number as usize];
        seat.is_leaving = true;
        seat.inbox.retain(|inbound| matches!(inbound, Inbound::Woken | Inbound::File(_)));
        self.leave_shard(number);
    }

    /// A turn of a shard that has failed: waits until no operation is under way.
    pub(super) fn leave_shard(&mut self, number: u32) {
        let life = self.process.life;
        let Some(seat) = self.process.seat(number) else { return };
        for inbound in std::mem::take(&mut seat.inbox) {
            match inbound {
                Inbound::File(ended) => {
                    self.operation_ended(number, ended);
                    if !self.process.lives(life) {
                        return;
                    }
                    self.resume_files(number);
                }
                // They wait for the next shard: mail in the mailbox, clients in the kernel.
                other => self.process.seats[number as usize].inbox.push_back(other),
            }
        }
        let seat = &mut self.process.seats[number as usize];
        if !seat.files.is_busy() && !std::mem::replace(&mut seat.is_loading, true) {
            let pause = self.faults.skewed(0, LOAD_MAX);
            self.queue.after(pause, TimedEvent::Reload { life, shard: number });
        }
    }

    pub(crate) fn reload(&mut self, life: u32, number: u32) {
        let is_leaving = self.process.seat(number).is_some_and(|seat| seat.is_leaving);
        if !self.process.lives(life) || !is_leaving {
            return;
        }
        match self.load_again(number) {
            Ok(()) => self.wake_shard(number),
            // It may have started from a snapshot, and now reads all of its log.
            Err(reason) if self.coverage.count(Seen::MisdirectedWrite) > 0 => {
                self.note(format_args!("refused, for a write went astray: {reason}"));
                self.refused = true;
            }
            Err(reason) => {
                self.violate(format_args!("shard {number} is not loaded again: {reason}"));
            }
        }
    }

    fn load_again(&mut self, number: u32) -> Result<(), String> {
        let directory = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
        let path = directory.path().to_owned();
        let loaded = self.load_in(&path, number);
        // Its name is another one each time.
        let mut commands = loaded.map_err(|reason| reason.replace(&*path.to_string_lossy(), ""))?;
        self.disk.forget_missing(&path);
        self.process.directories.push(directory);
        self.coverage.saw(Seen::ShardReloaded);
        self.execute(number, &mut commands);
        Ok(())
    }

    fn load_in(&mut self, path: &Path, number: u32) -> Result<Vec<Command>, String> {
        let text = |error: LoadError| error.to_string();
        self.disk.write_out(path).map_err(|error| error.to_string())?;
        let seat = &mut self.process.seats[number as usize];
        path.clone_into(&mut seat.host.data);
        let (mut host, times) = (seat.host.clone(), self.times());
        let loaded = host.load(times.wall.0).map_err(text)?;
        let records = self.records_in(path, &host.common, number, &loaded)?;
        let Seat { shard, mail, inbox, serial, .. } = self.process.seats.remove(number as usize);
        self.coverage.add(Seen::MailKept, u64::from(!mail.is_empty()));
        let ids = Box::new(SeededIds(self.ids.fork()));
        let (shard, commands) = host.reload(shard.leave(), loaded, ids, times).map_err(text)?;
        let started = StartedShard { host, shard, ops: Vec::new(), records };
        let judged = self.judge_reloaded(number, &started);
        let StartedShard { host, shard, .. } = started;
        let loaded_at = times.now;
        let seat = Seat { mail, inbox, serial, loaded_at, ..Seat::new(host, shard) };
        self.process.seats.insert(number as usize, seat);
        judged.map(|()| commands)
    }

    /// An image of the cluster is never followed by an older one.
    pub(super) fn judge_image_version(&mut self, number: u32) {
        let Some(seat) = self.process.seat(number) else { return };
        let version = seat.shard.inspect().image().version();
        let before = std::mem::replace(&mut seat.image_version, version);
        if version < before {
            self.violate(format_args!(
                "shard {number}: its image of the cluster goes back from {before} to {version}"
            ));
        }
    }
}
