//! A machine: its disk and clock, and the server's process with its shards, each with production's
//! `Reactor`. The node replaces production's `serve.rs`, which starts the shards, and the io_uring
//! that carries out their I/O. All other code is production's.
//!
//! A node knows neither clients nor the network nor the judge. Its [`Effect`]s wait until the world
//! takes them, after each call. So a turn sees only its own node.

mod calls;
mod effect;
mod fact;
mod files;
mod formation;
mod io;
mod late_verdicts;
mod letter;
mod operation;
mod peers;
mod place;
mod process;
mod reload;
mod shard;
mod sockets;
mod start;
mod turn;

pub(crate) use effect::Effect;
pub(crate) use fact::{Fact, FileFact, RunQueues, Write};
pub(crate) use letter::{FromPeer, PeerLetter, Said};
pub(crate) use operation::{CLOSING_MAX, OpenFile};
pub(crate) use place::{FIRST_PORT, Place, SHARDS_OF_NODE, id_of};
pub(crate) use reload::Reloaded;
pub(crate) use shard::{Failing, SimShard};
pub(crate) use start::StartedShard;
pub(crate) use turn::{Due, Turn};

use crate::coverage::{Coverage, Seen};
use crate::disk::{Crash, Disk};
use crate::event::MachineEvent;
use crate::net::LinkId;
use crate::profile::{DiskProfile, Profile};
use crate::random::{Random, Salt};
use crate::records::RecordBytes;
use muster_codec::Wall;
use muster_counters::Totals;
use muster_faults::Fault;
use muster_server::clock::Times;
use muster_server::config::Config;
use muster_server::placement::{NodePlace, Placement};
use muster_server::shard::{LogSizes, Message};
use process::Process;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The simulated wall clock when a run begins, in milliseconds since the epoch.
const BEGINNING_MS: i64 = 1_750_000_000_000;

/// A device writes blocks of this size atomically, whatever block size the server reads.
const TORN_BLOCK_BYTES: usize = 512;

pub(crate) struct Node {
    setup: Setup,
    /// The time, in microseconds since the run began.
    now: u64,
    disk: Disk,
    disk_profile: DiskProfile,
    disk_random: Random,
    /// The block size of the device, as the server sees it.
    block_bytes: u32,
    process: Process,
    /// The number of shards whose logs are in the data directory.
    shards_on_disk: u32,
    /// The random numbers for faults and delays.
    faults: Random,
    ids: Random,
    /// The random numbers for the time that mail between shards takes.
    mail: Random,
    /// From this time on no verdict arrives late.
    verdicts_late_until: u64,
    effects: VecDeque<Effect>,
    /// Messages to other nodes.
    said: VecDeque<Said>,
    /// The place of the node in a cluster, if it is in one.
    place: Option<Place>,
    coverage: Coverage,
    /// The counters of shards that have ended.
    counters: Totals,
}

/// The part of the profile that is the same in all phases of a run.
struct Setup {
    config: Arc<Config>,
    sizes: LogSizes,
    offsets_partitions: u32,
    transactions_partitions: u32,
    /// The number of files of partitions that a shard keeps open.
    partition_files: u32,
    turn_delay_max: u64,
    late_verdict_chance: f64,
    injected: Option<Fault>,
}

impl Setup {
    fn of(profile: &Profile, config: Arc<Config>, injected: Option<Fault>) -> Self {
        Self {
            config,
            sizes: profile.sizes,
            offsets_partitions: profile.offsets_partitions,
            transactions_partitions: profile.transactions_partitions,
            partition_files: profile.partition_files,
            turn_delay_max: profile.turn_delay_max,
            late_verdict_chance: profile.late_verdict_chance,
            injected,
        }
    }
}

impl Node {
    /// A machine with an empty disk, and no server yet.
    pub(crate) fn new(
        seed: u64,
        profile: &Profile,
        config: Arc<Config>,
        injected: Option<Fault>,
    ) -> Self {
        let of = |salt| Random::new(seed, salt);
        let mut disk = Disk::default();
        disk.block_bytes = TORN_BLOCK_BYTES;
        disk.skips_syncs = injected == Some(Fault::SkippedSync);
        Self {
            setup: Setup::of(profile, config, injected),
            now: 0,
            disk,
            disk_profile: profile.disk.clone(),
            disk_random: of(Salt::Disk),
            block_bytes: profile.block_bytes,
            process: Process::default(),
            shards_on_disk: profile.shards,
            faults: of(Salt::Faults),
            ids: of(Salt::Ids),
            mail: of(Salt::Mail),
            verdicts_late_until: u64::MAX,
            effects: VecDeque::new(),
            said: VecDeque::new(),
            place: None,
            coverage: Coverage::default(),
            counters: Totals::default(),
        }
    }

    /// Makes the machine a node of a cluster, before its first process.
    pub(crate) fn in_cluster(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Sets the time, which never decreases.
    pub(crate) fn advance(&mut self, now: u64) {
        self.now = now;
    }

    /// Takes the oldest effect that was not taken yet.
    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The times of the monotonic clock and of the wall clock.
    pub(crate) fn clocks(&self) -> Times {
        let (now, micros) = (self.now_ms(), self.now);
        Times { now, wall: Wall(now + self.process.wall_ahead_ms), micros, jumped_ms: 0 }
    }

    /// The placement of groups on this number of shards.
    pub(crate) fn placement_on(&self, shards: u32) -> Placement {
        Placement {
            shards,
            offsets_partitions: self.setup.offsets_partitions,
            transactions_partitions: self.setup.transactions_partitions,
            share_state_partitions: self.setup.offsets_partitions,
            node: NodePlace::ALONE,
        }
    }

    /// The placement of groups on the shards that the data directory is for.
    pub(crate) fn placement(&self) -> Placement {
        self.placement_on(self.shards_on_disk)
    }

    /// The number of shards that the data directory is for.
    pub(crate) fn shards_on_disk(&self) -> u32 {
        self.shards_on_disk
    }

    pub(crate) fn is_up(&self) -> bool {
        self.process.is_up()
    }

    /// The number of processes so far.
    pub(crate) fn life(&self) -> u32 {
        self.process.life
    }

    /// Whether this incarnation of the process still runs.
    pub(crate) fn lives(&self, life: u32) -> bool {
        self.process.lives(life)
    }

    /// The running shards; none while the process is down.
    pub(crate) fn shards(&self) -> &[SimShard] {
        &self.process.shards
    }

    /// A running shard.
    pub(crate) fn shard(&self, number: u32) -> &SimShard {
        &self.process.shards[number as usize]
    }

    pub(crate) fn shard_count(&self) -> u32 {
        self.process.shards.len() as u32
    }

    /// When a shard was last loaded, in microseconds; zero if it never was.
    pub(crate) fn loaded_at(&self, number: u32) -> u64 {
        self.process.loaded_at(number)
    }

    /// The time since which the process and its disk have run without interruption. None while the
    /// process is paused, the disk hangs, or a shard is loaded again.
    pub(crate) fn runs_since(&self) -> Option<u64> {
        let shards = &self.process.shards;
        let is_waited_for = shards.iter().any(|shard| shard.is_leaving || shard.is_loading);
        if is_waited_for || self.now < self.stands_until() {
            return None;
        }
        let loaded_at = self.process.loaded_at.values().copied().max().unwrap_or(0);
        Some(loaded_at.max(self.stands_until()))
    }

    /// The end of the last pause of the process, or of the last hang of its disk, whichever is
    /// later. It may be in the past.
    pub(crate) fn stands_until(&self) -> u64 {
        self.process.paused_until.max(self.process.hangs_until)
    }

    /// Whether the process is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.now < self.process.paused_until
    }

    /// Pauses the process, like SIGSTOP or a paused machine: bytes that are sent meanwhile wait in
    /// the sockets.
    pub(crate) fn pause_until(&mut self, time: u64) {
        self.process.paused_until = time;
    }

    /// The end of the hang; None if the disk does not hang.
    pub(crate) fn hangs_on(&self) -> Option<u64> {
        Some(self.process.hangs_until).filter(|until| self.now < *until)
    }

    /// Lets the disk hang: it ends no operation before this time, and then all of them in order.
    pub(crate) fn hang_until(&mut self, time: u64) {
        self.process.hangs_until = time;
    }

    /// How far faults have set the wall clock ahead, in milliseconds; negative if they have set it
    /// back.
    pub(crate) fn wall_ahead_ms(&self) -> i64 {
        self.process.wall_ahead_ms
    }

    /// Sets the wall clock to this number of milliseconds ahead of its undisturbed time.
    pub(crate) fn set_wall_ahead_ms(&mut self, ahead: i64) {
        self.process.wall_ahead_ms = ahead;
    }

    /// Fills the disk, or frees space on it.
    pub(crate) fn set_disk_full(&mut self, is_full: bool) {
        self.process.set_disk_full(is_full);
    }

    /// Whether the disk is full or hangs, so that operations on it fail or do not end.
    pub(crate) fn is_disk_stuck(&self) -> bool {
        self.process.disk_is_full || self.hangs_on().is_some()
    }

    /// Ends the faults of the disk: from now on no operation fails, and the disk is nearly as fast
    /// as it can be.
    pub(crate) fn calm_disk(&mut self) {
        self.process.set_disk_full(false);
        let disk = &mut self.disk_profile;
        disk.delay_max = disk.delay_max.min(5_000);
        (disk.slow_chance, disk.write_error_chance, disk.read_error_chance) = (0.0, 0.0, 0.0);
        disk.crash.misdirected = 0.0;
    }

    /// Sets the time from which verdicts are no longer held back until the marker of their
    /// producer.
    pub(crate) fn end_late_verdicts(&mut self, time: u64) {
        self.verdicts_late_until = time;
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The disk, to be damaged.
    pub(crate) fn disk_mut(&mut self) -> &mut Disk {
        &mut self.disk
    }

    /// The random numbers for faults on this node.
    pub(crate) fn faults(&mut self) -> &mut Random {
        &mut self.faults
    }

    /// The marks that this node reached.
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The counters of shards that have ended.
    pub(crate) fn counters(&self) -> &Totals {
        &self.counters
    }

    /// All records of groups that the last startup recovered.
    pub(crate) fn found(&self) -> &[RecordBytes] {
        &self.process.found
    }

    /// Whether a shard may have read flipped bits in a snapshot at startup.
    pub(crate) fn has_rotten_snapshot(&self) -> bool {
        self.process.has_rotten_snapshot
    }

    /// Whether a clean stop was requested.
    pub(crate) fn is_stopping(&self) -> bool {
        self.process.is_stopping
    }

    /// Requests a clean stop of all shards.
    pub(crate) fn stop(&mut self) {
        self.process.is_stopping = true;
        for number in 0..self.shard_count() {
            self.post(number, Message::Stop);
        }
    }

    /// Notes that a shard has stopped cleanly. Returns whether it was the last shard.
    pub(crate) fn stopped(&mut self, number: u32) -> bool {
        self.process.shards[number as usize].is_stopped = true;
        self.process.shards.iter().all(|shard| shard.is_stopped)
    }

    /// Notes a power loss: the next startup aborts the open transactions that it finds.
    pub(crate) fn lose_power(&mut self) {
        self.process.has_lost_power = true;
    }

    /// Ends the process in this way. Returns the connections that the process had accepted.
    pub(crate) fn end_process(&mut self, how: Crash) -> BTreeSet<LinkId> {
        let misdirected = self.coverage.count(Seen::MisdirectedWrite);
        self.disk.crash(how, &self.disk_profile.crash, &mut self.disk_random, &mut self.coverage);
        let process = &mut self.process;
        process.wrote_astray |= self.coverage.count(Seen::MisdirectedWrite) > misdirected;
        let checked = process.shards.iter().map(|it| it.inspect().groups_checked()).sum();
        self.coverage.add(Seen::LogChecked, checked);
        process.shards.iter().for_each(|it| it.add_counters(&mut self.counters));
        process.shards.clear();
        process.operations.clear();
        process.calls.clear();
        process.directories.clear();
        // The next process runs at once, on a disk that works.
        (process.paused_until, process.hangs_until, process.blocked_until) = (0, 0, 0);
        process.sockets.clear()
    }

    /// Sets the block size of the device.
    pub(crate) fn set_block_bytes(&mut self, bytes: u32) {
        self.block_bytes = bytes;
        self.coverage.saw(Seen::BlockSize);
    }

    /// Plans an event.
    fn plan(&mut self, at: u64, event: MachineEvent) {
        self.effects.push_back(Effect::Planned { at, node: 0, event });
    }

    /// Shows the judge a fact about a shard.
    fn show(&mut self, shard: u32, fact: Fact) {
        self.effects.push_back(Effect::Showed { shard, fact });
    }
}
