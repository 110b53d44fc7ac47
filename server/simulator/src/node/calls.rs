//! Calls that change names and lengths of files. Production makes these calls on a thread of their
//! own: they last as long as the disk needs, and the shard continues. They take effect in order.

use super::operation::{Calling, OpenFile};
use super::shard::Inbound;
use super::{Fact, FileFact, Node};
use crate::event::MachineEvent;
use muster_faults::Fault;
use muster_server::files::{Call, CallDone};
use muster_storage::OpenMode;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

/// The chance that an existing file is opened without a call, so that the shard need not wait.
const AT_ONCE_CHANCE: f64 = 0.5;

impl Node {
    pub(super) fn begin_call(&mut self, call: Call<OpenFile>) {
        let shard = self.process.turning;
        let before = self.process.calls.values().filter(|other| other.shard == shard);
        let last = before.map(|other| other.at).max().unwrap_or(0);
        let at = self.operation_takes().max(last);
        let number = self.process.next_operation;
        self.process.next_operation += 1;
        let blocks = self.setup.injected == Some(Fault::BlockingCall);
        if blocks && !matches!(call, Call::Close { .. }) {
            let hangs_until = self.process.hangs_until;
            self.process.blocked_until = self.process.blocked_until.max(at).max(hangs_until);
        }
        self.process.calls.insert(number, Calling { shard, call, at });
        let life = self.process.life;
        self.plan(at, MachineEvent::CallDone { life, call: number });
    }

    /// Returns a call, which takes effect now, with its shard. Returns None if the disk hangs,
    /// which delays the call, or if the call's process has ended.
    pub(crate) fn take_call(&mut self, life: u32, number: u64) -> Option<(u32, Call<OpenFile>)> {
        if !self.process.lives(life) {
            return None;
        }
        if let Some(until) = self.hangs_on() {
            self.plan(until, MachineEvent::CallDone { life, call: number });
            return None;
        }
        let Calling { shard, call, .. } = self.process.calls.remove(&number)?;
        Some((shard, call))
    }

    /// Makes a call, which takes effect.
    pub(crate) fn make(&mut self, shard: u32, call: Call<OpenFile>) -> CallDone<OpenFile> {
        match call {
            Call::Open { path, mode } if !self.disk.opens(&path, mode) => {
                self.show(shard, Fact::File(FileFact::Missed { path }));
                return CallDone::NotOpened(ErrorKind::NotFound.into());
            }
            Call::Open { path, mode } => return CallDone::Opened(self.open(shard, &path, mode)),
            Call::Truncate { file, len } => self.disk.truncate(file.inode, len),
            Call::Rename { from, to } => {
                if !self.disk.rename(&from, &to) {
                    let error = ErrorKind::NotFound.into();
                    return CallDone::NotRenamed { from, error };
                }
            }
            Call::RemoveFile { path } => self.disk.remove_file(&path),
            Call::RemoveDir { path } => self.disk.remove_dir(&path),
            // No check reads the trash.
            Call::MoveDir { from, .. } => self.disk.remove_dir(&from),
            Call::Keep { path, name, .. } if path.parent() == name.parent() => {
                self.disk.keep(&path, &name);
            }
            Call::Keep { .. } => {}
            Call::Look { path, file } => {
                let is_it = |inode| file.as_ref().is_none_or(|file| file.inode == inode);
                let found = self.disk.look(&path).filter(|(inode, _)| is_it(*inode));
                return CallDone::Looked(Ok(found.map(|(_, len)| len)));
            }
            Call::Link(_) => unreachable!("nothing asks for a backup"),
            Call::Close { file } => drop(file),
        }
        CallDone::Done
    }

    /// Passes the end of a call to its shard.
    pub(crate) fn called(&mut self, shard: u32, done: CallDone<OpenFile>) {
        if let Some(sim) = self.process.shard(shard) {
            sim.called.push_back(done);
        }
        self.enqueue(shard, Inbound::Called);
    }

    pub(super) fn open_existing(&mut self, path: &Path, mode: OpenMode) -> Option<OpenFile> {
        let is_there = mode.is_cached() && self.disk.has(path);
        let opens = is_there && self.disk_random.chance(AT_ONCE_CHANCE);
        opens.then(|| self.open(self.process.turning, path, mode))
    }

    fn open(&mut self, shard: u32, path: &Path, mode: OpenMode) -> OpenFile {
        let is_new = !self.disk.has(path);
        let inode = self.disk.open(path, mode);
        let fact = FileFact::Opened { path: path.to_owned(), is_new };
        self.show(shard, Fact::File(fact));
        OpenFile { inode, mode, descriptor: Rc::default() }
    }
}
