//! The server's process: its shards, each with production's `Reactor`, on the simulated disk and
//! network. It does the work of `muster`'s `serve.rs` and of a ring; all else is production's own.

mod calls;
mod damage;
mod files;
mod images;
mod late_verdicts;
mod lifecycle;
mod pauses;
mod reload;
mod rot;
mod sockets;
mod turn;

pub(crate) use files::OpenFile;
pub(crate) use images::Images;
pub(crate) use lifecycle::{FIRST_PORT, StartedShard};

use crate::judge::RecordBytes;
use crate::net::LinkId;
use crate::node::Sockets;
use crate::world::World;
pub(crate) use files::CLOSING_MAX;
use files::{Ended, Operation};
use late_verdicts::LateVerdict;
use muster::clock::Times;
use muster::cluster::ClusterImage;
use muster::data_dir::Meta;
use muster::disk_space::DiskSpace;
use muster::files::{Call, CallDone, Files};
use muster::host::Host;
use muster::reactor::{Reactor, Share};
use muster::shard::{Inspection, Message, Shard};
use muster::volume::Volume;
use muster_counters::Totals;
pub(crate) use reload::Failing;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tempfile::TempDir;

/// The simulated wall clock when a run begins, in milliseconds since the epoch.
pub(crate) const BEGINNING_MS: i64 = 1_750_000_000_000;

#[derive(Default)]
pub(crate) struct Process {
    /// Counts the incarnations of the process.
    pub(crate) life: u32,
    /// Whether the machine has ever lost its memory: then transactions that a start finds open are
    /// aborted.
    has_lost_power: bool,
    /// The shards; none while the process is down.
    pub(crate) shards: Vec<SimShard>,
    /// When each shard was loaded last, at startup or after a failure.
    loaded_at: BTreeMap<u32, u64>,
    /// The time from which connections are accepted.
    pub(crate) listens_at: u64,
    /// The end of the pause of the process.
    pub(super) paused_until: u64,
    /// The disk ends no operation before.
    hangs_until: u64,
    /// The shards wait for the disk before their next turn: an injected fault.
    blocked_until: u64,
    /// How far the wall clock of the machine is ahead.
    pub(super) wall_ahead_ms: i64,
    /// The directories that the shards were loaded from; their files may be mapped while shards
    /// run.
    directories: Vec<TempDir>,
    /// The connections that it has accepted.
    pub(crate) sockets: Sockets,
    operations: BTreeMap<u64, Operation>,
    calls: BTreeMap<u64, Calling>,
    next_operation: u64,
    /// The shard whose turn it is, or was.
    turning: u32,
    /// The slices for which this turn has time.
    slices_left: u64,
    /// The share of a turn that was begun last.
    share: Share,
    /// A write or sync failed that must not: the process has to end.
    has_failed_write: bool,
    /// A clean stop was requested.
    pub(crate) stopping: bool,
    /// Writes that need new space fail.
    disk_is_full: bool,
    /// The look at the disk that the server has: one that is full is short, too.
    space: DiskSpace,
    /// The stamp of the data directory, once there is one.
    pub(crate) meta: Option<Meta>,
    /// The last stop was clean, and the stamp has where the logs ended.
    pub(crate) ends_are_known: bool,
    /// All records of groups that the last startup recovered.
    pub(crate) found: Vec<RecordBytes>,
    /// One of the snapshots that the shards read at startup may have flipped bits.
    pub(crate) has_rotten_snapshot: bool,
    /// A crash misdirected a write since the last start; a start that refuses the log is then
    /// correct.
    wrote_astray: bool,
}

/// A running shard, with its mailbox, its files and its connections.
pub(crate) struct SimShard {
    host: Host,
    /// None while it takes its turn.
    running: Option<Box<Running>>,
    /// The injected failure that is due or has happened.
    pub(crate) fails: Option<Failing>,
    /// It has failed, and will be loaded again.
    is_leaving: bool,
    /// It has failed, and no operation is under way any more.
    is_loading: bool,
    /// Its image of the cluster, and whether the judge has seen it.
    image: Arc<ClusterImage>,
    has_shown_image: bool,
    /// Nothing has been flushed since it was loaded, though something was recovered.
    is_recovering: bool,
    inbox: VecDeque<Inbound>,
    /// When the first of its input came.
    first_came_at: u64,
    /// The files that ended calls opened, in order.
    called: VecDeque<CallDone<OpenFile>>,
    /// Mail that is on its way, with the time when it arrives, in order.
    mailbox: VecDeque<(u64, Message)>,
    /// Verdicts that arrive after the marker of their producer.
    late: Vec<LateVerdict>,
    /// The input of this turn.
    ready: VecDeque<Inbound>,
    /// When the last received bytes came.
    came_at: i64,
    /// The parts of files that are sent next; None if one could not be read.
    parts: Option<Vec<u8>>,
    /// Their files, which are open until the slice has left.
    files_of_parts: Vec<OpenFile>,
    /// The time of its next turn.
    turn_at: Option<u64>,
    stopped: bool,
}

/// A shard with its reactor.
pub(crate) struct Running {
    shard: Shard,
    reactor: Reactor<World>,
}

/// A call of the file system that is under way.
struct Calling {
    shard: u32,
    call: Call<OpenFile>,
    /// The time when it takes effect and ends.
    at: u64,
}

/// Input that waits for a shard's next turn.
enum Inbound {
    Opened(LinkId),
    /// Bytes, and the time when they arrived.
    Received(LinkId, Vec<u8>, i64),
    Sent(LinkId, usize),
    InputEnded(LinkId),
    /// The slice has left, of these files.
    Streamed(LinkId, usize, Vec<OpenFile>),
    StreamFailed(LinkId, Vec<OpenFile>),
    Writable(LinkId),
    Ended(LinkId),
    File(Ended),
    /// A call of the file system has ended.
    Called,
    Mail(Message),
}

impl Process {
    /// Fills the disk, or makes room on it. The server looks at it at once.
    pub(crate) fn set_disk_full(&mut self, is_full: bool) {
        self.disk_is_full = is_full;
        let usable = if is_full { 0 } else { 1 << 39 };
        self.space.set(Volume { total: 1 << 40, usable }, is_full);
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.shards.is_empty()
    }

    pub(crate) fn shard_count(&self) -> u32 {
        self.shards.len() as u32
    }

    /// The time from which on all shards handle their input and their disk works; None while the
    /// process is paused, its disk hangs, or a shard is loaded again.
    pub(crate) fn runs_since(&self, now: u64) -> Option<u64> {
        let is_waited_for = self.shards.iter().any(|shard| shard.is_leaving || shard.is_loading);
        let stands_until = self.paused_until.max(self.hangs_until);
        if is_waited_for || now < stands_until {
            return None;
        }
        let loaded_at = self.loaded_at.values().copied().max().unwrap_or(0);
        Some(loaded_at.max(stands_until))
    }

    /// When a shard was loaded last, in microseconds; zero if it never was.
    pub(crate) fn loaded_at(&self, number: u32) -> u64 {
        self.loaded_at.get(&number).copied().unwrap_or(0)
    }

    fn shard(&mut self, number: u32) -> Option<&mut SimShard> {
        self.shards.get_mut(number as usize)
    }

    /// The end of a pause; it may be over.
    pub(crate) fn paused_until(&self) -> u64 {
        self.paused_until
    }

    /// The end of a hang of the disk; it may be over.
    pub(crate) fn hangs_until(&self) -> u64 {
        self.hangs_until
    }

    /// Whether this incarnation of the process still runs.
    fn lives(&self, life: u32) -> bool {
        self.is_up() && self.life == life
    }
}

impl SimShard {
    fn new(host: Host, running: Box<Running>) -> Self {
        let shard = running.shard.inspect();
        let image = shard.image().clone();
        let is_recovering = is_recovering(shard);
        Self {
            host,
            running: Some(running),
            fails: None,
            is_leaving: false,
            is_loading: false,
            image,
            has_shown_image: false,
            is_recovering,
            inbox: VecDeque::new(),
            called: VecDeque::new(),
            mailbox: VecDeque::new(),
            late: Vec::new(),
            ready: VecDeque::new(),
            came_at: 0,
            parts: Some(Vec::new()),
            files_of_parts: Vec::new(),
            turn_at: None,
            first_came_at: 0,
            stopped: false,
        }
    }

    /// Takes the mail that has arrived.
    fn take_mail(&mut self, now: u64) {
        while let Some((_, message)) = self.mailbox.pop_front_if(|(at, _)| *at <= now) {
            self.inbox.push_back(Inbound::Mail(message));
        }
    }

    pub(crate) fn inspect(&self) -> Inspection<'_> {
        self.running().shard.inspect()
    }

    /// Adds all its numbers.
    pub(crate) fn add_counters(&self, totals: &mut Totals) {
        totals.count(&self.inspect().numbers());
        totals.count(&self.running().reactor.files().counters());
    }

    /// The descriptors of its files.
    pub(crate) fn descriptors(&self) -> usize {
        self.running().reactor.files().descriptors()
    }

    fn running(&self) -> &Running {
        match &self.running {
            Some(running) => running,
            None => panic!("the shard takes its turn"),
        }
    }

    fn take(&mut self) -> Box<Running> {
        match self.running.take() {
            Some(running) => running,
            None => panic!("the shard takes its turn already"),
        }
    }
}

impl Running {
    fn new(shard: Shard, times: Times) -> Box<Self> {
        Box::new(Self { shard, reactor: Reactor::new(Files::new(CLOSING_MAX, times.now), times) })
    }
}

fn is_recovering(shard: Inspection<'_>) -> bool {
    let progress = shard.progress();
    progress.flushed() == 0 && progress.accepted() > 0
}
