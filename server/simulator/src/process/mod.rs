//! The server's process: its shards with their mailboxes, and a reactor that performs their
//! commands on the simulated disk and network. It is what `muster`'s `reactor.rs` and `serve.rs`
//! are to the ring; the shards, their logs, their files and their start-up are production's own.

mod damage;
mod files;
mod images;
mod lifecycle;
mod pauses;
mod reload;
mod turn;

pub(crate) use files::OpenFile;
pub(crate) use images::Images;
pub(crate) use lifecycle::{FIRST_PORT, PARTITION_FILES_MAX, StartedShard};

use crate::judge::{RecordBytes, Turns};
use crate::net::LinkId;
use crate::profile::MS;
use files::{CLOSING_MAX, Ended, Operation, ShardFiles};
use muster::data_dir::Meta;
use muster::files::Files;
use muster::host::Host;
use muster::net::ConnectionId;
use muster::shard::{Command, Message, Shard};
use muster_coordinator::Topics;
pub(crate) use reload::Failing;
use std::collections::{BTreeMap, VecDeque};
use tempfile::TempDir;

/// The simulated wall clock when a run begins, in milliseconds since the epoch.
pub(crate) const BEGINNING_MS: i64 = 1_750_000_000_000;

#[derive(Default)]
pub(crate) struct Process {
    /// Counts the starts.
    pub(crate) life: u32,
    /// The shards; none while the process is down.
    pub(crate) seats: Vec<Seat>,
    /// From when on connections are accepted.
    pub(crate) listens_at: u64,
    /// Until when it stands still.
    pub(super) paused_until: u64,
    /// What the wall clock of the machine shows more than it should.
    pub(super) wall_ahead_ms: i64,
    /// The directories that the shards were loaded from, which may be mapped while they live.
    directories: Vec<TempDir>,
    operations: BTreeMap<u64, Operation>,
    next_operation: u64,
    commands: Vec<Command>,
    /// A clean stop was asked for.
    pub(crate) stopping: bool,
    /// Writes fail that need room.
    pub(crate) disk_is_full: bool,
    /// What the data directory is stamped with, once there is one.
    pub(crate) meta: Option<Meta>,
    /// The last stop was clean, and the stamp has where the logs ended.
    pub(crate) ends_are_known: bool,
    /// All that the last start found of groups.
    pub(crate) found: Vec<RecordBytes>,
    /// A snapshot that has rotted may be among what the shards read at their start.
    pub(crate) has_rotten_snapshot: bool,
    /// A crash sent a write astray since the last start, which may be refused for that.
    wrote_astray: bool,
}

/// A shard and what is around it.
pub(crate) struct Seat {
    host: Host,
    pub(crate) shard: Shard,
    /// It is to fail, or has failed for that.
    pub(crate) fails: Option<Failing>,
    /// It has failed, and is to be loaded again.
    is_leaving: bool,
    /// It has failed, and no operation is under way any more.
    is_loading: bool,
    /// When it was loaded again: its sessions begin then, whatever waited for it.
    loaded_at: i64,
    /// The version of its image of the cluster.
    image_version: i64,
    inbox: VecDeque<Inbound>,
    mail: VecDeque<Message>,
    pub(crate) files: ShardFiles,
    /// The parts that are sent next; None if one could not be read.
    parts: Option<Vec<u8>>,
    slots: Vec<Option<(ConnectionId, LinkId)>>,
    serial: u32,
    /// When its next turn is.
    turn_at: Option<u64>,
    /// Who waits for a turn, and how it goes.
    pub(crate) turns: Turns,
    /// Turns one after the other that had nothing to do, though they were due.
    idle_turns: u32,
    stopped: bool,
}

/// What waits for a shard's next turn.
enum Inbound {
    Opened(LinkId),
    /// Bytes, and when they came.
    Received(LinkId, Vec<u8>, i64),
    Sent(LinkId, usize),
    InputEnded(LinkId),
    Streamed(LinkId, usize),
    StreamFailed(LinkId),
    Writable(LinkId),
    Ended(LinkId),
    File(Ended),
    Woken,
}

impl Process {
    pub(crate) fn is_up(&self) -> bool {
        !self.seats.is_empty()
    }

    pub(crate) fn shards(&self) -> u32 {
        self.seats.len() as u32
    }

    /// The time from which on all shards handle their input; None while the process is paused or a
    /// shard is loaded again.
    pub(crate) fn runs_since(&self, now: u64) -> Option<u64> {
        let is_waited_for = self.seats.iter().any(|seat| seat.is_leaving || seat.is_loading);
        if is_waited_for || now < self.paused_until {
            return None;
        }
        let loaded_at = self.seats.iter().map(|seat| seat.loaded_at.unsigned_abs() * MS).max();
        Some(loaded_at.unwrap_or(0).max(self.paused_until))
    }

    fn seat(&mut self, number: u32) -> Option<&mut Seat> {
        self.seats.get_mut(number as usize)
    }

    /// Whether what belongs to this life of the process still matters.
    fn lives(&self, life: u32) -> bool {
        self.is_up() && self.life == life
    }
}

impl Seat {
    fn new(host: Host, shard: Shard) -> Self {
        let image_version = shard.inspect().image().version();
        Self {
            host,
            shard,
            fails: None,
            is_leaving: false,
            is_loading: false,
            loaded_at: 0,
            image_version,
            inbox: VecDeque::new(),
            mail: VecDeque::new(),
            files: Files::new(CLOSING_MAX),
            parts: Some(Vec::new()),
            slots: Vec::new(),
            serial: 0,
            turn_at: None,
            turns: Turns::default(),
            idle_turns: 0,
            stopped: false,
        }
    }

    fn link(&self, connection: ConnectionId) -> Option<LinkId> {
        let (known, link) = (*self.slots.get(connection.slot())?)?;
        (known == connection).then_some(link)
    }

    /// The name of a new connection: its slot is the first that is free, as the ring's is.
    fn accept(&mut self, link: LinkId) -> ConnectionId {
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.serial = self.serial.wrapping_add(1);
        let connection = ConnectionId::new(slot as u32, self.serial);
        self.slots[slot] = Some((connection, link));
        connection
    }

    fn forget(&mut self, connection: ConnectionId) {
        if self.link(connection).is_some() {
            self.slots[connection.slot()] = None;
        }
        self.turns.forget(connection);
    }
}
