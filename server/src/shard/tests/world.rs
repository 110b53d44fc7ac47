//! A shard on a real directory, with small segments, and the tasks of a reactor.

mod disk;
mod node;

use crate::clock::Times;
use crate::cluster::{Endpoint, Endpoints};
use crate::config::{Address, Config, SecurityProtocol, Served, ServedListener, compaction};
use crate::disk_space::DiskSpace;
use crate::groups::OffsetMarkers;
use crate::mailbox::ToController;
use crate::net::{ClientCommand, ConnectionId};
use crate::partitions::OffsetTransactions;
use crate::placement::{Slot, TransactionsPartition};
use crate::shard::{
    CertificateOrder, Command, Common, Event, ListenerIndex, LogSizes, Message, Nodes, Shard, load,
    log_directory,
};
use crate::telemetry::Push;
use crate::volume::Volume;
use disk::Files;
use muster_codec::messages::DescribedProducer;
use muster_codec::record_batch::EndTxnMarker;
use muster_codec::records::{
    ClusterRecord, GroupRecord, OffsetCommitKey, OffsetCommitValue, TransactionLogKey,
    TransactionLogValue, TransactionRecord,
};
use muster_codec::{Uuid, Wall};
use muster_coordinator::limits::EXPIRE_RECORDS_MAX;
use muster_coordinator::{Ids, Producer};
use muster_counters::Totals;
use muster_runtime::Turn;
use muster_runtime::replicas::NodeId;
use muster_storage::{CompactionConfig, FileDone, FileOp};
use std::cell::Cell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

thread_local! {
    /// The stopwatch of this thread's shards. The first number is the time that it shows. Each
    /// reading advances it by the second number. Both are in nanoseconds.
    static STOPWATCH: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// From now on each piece of work on a request takes this number of milliseconds.
pub(crate) fn take_time(ms: u64) {
    STOPWATCH.set((STOPWATCH.get().0, ms * 1_000_000));
}

fn stopwatch() -> u64 {
    let (shown, added) = STOPWATCH.get();
    STOPWATCH.set((shown + added, added));
    shown
}

const BLOCK_BYTES: u32 = 512;
/// A time in which the log is certainly flushed.
pub(crate) const FLUSH_MS: i64 = 100;
pub(crate) const GROUPS: u64 = 60;
pub(crate) const PARTITIONS: u64 = 8;

const CONFIGS: &[&str] = &[
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=6",
    "log.cleaner.min.cleanable.ratio=0.1",
    "metadata.log.max.record.bytes.between.snapshots=20000",
];

/// The status of a complete transaction in the record of a transactional id.
const COMPLETE_COMMIT: i8 = 4;

pub(crate) fn commit(group: u64, partition: u64, offset: Option<i64>) -> GroupRecord<'static> {
    let group = format!("g{group}").into();
    let key = OffsetCommitKey { group, topic: "t".into(), partition: partition as i32 };
    let value = |offset| OffsetCommitValue { offset, ..Default::default() };
    GroupRecord::OffsetCommit(key, offset.map(value))
}

impl Shard {
    /// Writes records of the cluster as the controller does.
    pub(crate) fn write_records(&mut self, records: Vec<ClusterRecord<'static>>) {
        let controller = self.controller.as_mut().unwrap();
        controller.write_records(&mut self.runtime, self.times.now, None, records).unwrap();
    }
}

/// A shard with its directory and a clock.
pub(crate) struct World {
    directory: TempDir,
    pub(crate) common: Common,
    pub(crate) shard: Shard,
    pub(crate) now: i64,
    /// How far the wall clock is ahead of the monotonic clock.
    pub(crate) wall_ahead: i64,
    files: Files,
    done: VecDeque<FileDone>,
    /// The writes to the log that a slow disk has not carried out.
    held: Option<Vec<FileOp>>,
    commands: Vec<Command>,
    deadline: Option<i64>,
    /// The number of compactions before the last restart. `unloaded` counts, over all starts, the
    /// groups that were unloaded after the start.
    pub(crate) swaps: u64,
    /// Connections that the shard closed.
    pub(crate) closed: Vec<ConnectionId>,
    pub(crate) unloaded: usize,
    /// Mail to other shards, which does not arrive.
    pub(crate) mailed: Vec<(u32, Message)>,
    /// The orders to the thread that loads certificates.
    pub(crate) orders: Vec<CertificateOrder>,
    /// Pushes of clients that have no outcome yet.
    pub(crate) pushes: Vec<Push>,
    /// Whether reads of files fail.
    pub(crate) fails_reads: bool,
    /// The time when the shard stopped.
    pub(crate) stopped: Option<i64>,
}

impl World {
    pub(crate) fn new(configs: &[&str]) -> Self {
        Self::of_shards(1, configs)
    }

    /// Shard 0 of several. Mail to the others does not arrive.
    pub(crate) fn of_shards(shards: u32, configs: &[&str]) -> Self {
        Self::of_nodes(shards, configs, None)
    }

    fn of_nodes(shards: u32, configs: &[&str], nodes: Option<Nodes>) -> Self {
        let configs = CONFIGS.iter().chain(configs).map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let config = Config::load("", &configs).unwrap();
        let common = Common {
            placement: config.placement(shards),
            config: Arc::new(config),
            endpoints: endpoints(nodes.as_ref().map(|it| it.own), shards),
            cluster_id: "test".into(),
            data: "/data".into(),
            known_logs: Arc::new([]),
            partition_files_max: 4,
            audits: true,
            life: 1,
            may_have_lost_writes: false,
            stopwatch,
            space: DiskSpace::of(Volume { total: 1 << 30, usable: 1 << 20 }),
            token_keys: Default::default(),
            nodes,
            log_sizes: LogSizes {
                segment_bytes: Some(32 << 10),
                operation_bytes_max: 8 << 10,
                open_bytes_max: 8 << 10,
                cut_bytes: None,
            },
        };
        let directory = tempfile::tempdir().unwrap();
        if common.nodes.is_some() {
            node::form_log(directory.path(), &common);
        }
        let (shard, ops) = start(directory.path(), &common, 1_000);
        let mut world = Self {
            directory,
            common,
            shard,
            now: 1_000,
            wall_ahead: 0,
            files: Files::default(),
            done: VecDeque::new(),
            held: None,
            commands: Vec::new(),
            deadline: None,
            swaps: 0,
            closed: Vec::new(),
            unloaded: 0,
            orders: Vec::new(),
            pushes: Vec::new(),
            mailed: Vec::new(),
            fails_reads: false,
            stopped: None,
        };
        ops.into_iter().for_each(|op| world.perform(op));
        world.turn();
        world
    }

    /// Like [`Self::of_shards`], for a server with one listener.
    pub(crate) fn of_listener(shards: u32, configs: &[&str], protocol: SecurityProtocol) -> Self {
        let mut world = Self::of_shards(shards, configs);
        let address = Address { host: "127.0.0.1".to_owned(), port: 9092 };
        let (name, listen, advertised) = ("OUT".to_owned(), address.clone(), address);
        let listeners = vec![ServedListener { name, protocol, listen, advertised }];
        let mut config = Config::clone(&world.common.config);
        config.served = Some(Served { listeners, data: "data".to_owned() });
        world.common.config = Arc::new(config);
        world.restart();
        world.pass(FLUSH_MS);
        world
    }

    /// Restarts the shard from its directory, without a clean stop. Held writes are lost.
    pub(crate) fn restart(&mut self) {
        self.swaps += self.shard.runtime.log().swaps();
        self.held = None;
        self.files.close_all();
        self.done.clear();
        self.stopped = None;
        let (shard, ops) = start(self.directory.path(), &self.common, self.now);
        self.shard = shard;
        self.unloaded += self.shard.groups.slots().unloaded_groups();
        ops.into_iter().for_each(|op| self.perform(op));
        self.turn();
    }

    /// If `holds` is true, holds back all writes to the log from now on. Otherwise carries out the
    /// writes that were held back, and all later writes at once.
    pub(crate) fn hold_log(&mut self, holds: bool) {
        match self.held.take() {
            held @ Some(_) if holds => self.held = held,
            None if holds => self.held = Some(Vec::new()),
            held => held.into_iter().flatten().for_each(|op| self.perform(op)),
        }
    }

    /// Creates a topic at a client's request; returns its id.
    pub(crate) fn create_topic(&mut self, name: &str) -> Uuid {
        let (topics, host) = (vec![name.to_owned()], "/10.0.0.1".into());
        self.step(Event::Mail(ToController::AutoCreate { from: 0, topics, host }.into()));
        self.pass(FLUSH_MS);
        self.shard.broker.image().topic(name).unwrap().id
    }

    /// Commits an offset for each partition in each group. Every offset is different.
    pub(crate) fn fill(&mut self) {
        for partition in 0..PARTITIONS {
            for group in 0..GROUPS {
                let offset = (group * 100 + partition) as i64;
                self.append(&commit(group, partition, Some(offset)));
                self.pass(1);
            }
        }
    }

    /// Commits an offset somewhere, or deletes one.
    pub(crate) fn change(&mut self, random: &mut Random) {
        let (group, partition) = (random.below(GROUPS), random.below(PARTITIONS));
        let offset = (random.below(3) > 0).then(|| random.below(1_000) as i64);
        self.append(&commit(group, partition, offset));
    }

    /// Sets the retention of tombstones, in milliseconds.
    pub(crate) fn set_retention(&mut self, retention_ms: u64) {
        let delete_retention_ms = retention_ms as i64;
        let config = compaction(self.shard.broker.config(), self.shard.broker.image(), 1);
        let log = self.shard.runtime.log_mut();
        log.set_compaction(config.map(|it| CompactionConfig { delete_retention_ms, ..it }));
    }

    pub(crate) fn append(&mut self, record: &GroupRecord<'_>) {
        self.append_all(std::slice::from_ref(record));
    }

    /// Commits more offsets of a group than a coordinator deletes at once.
    pub(crate) fn commit_many(&mut self, group: u64) {
        let partitions = EXPIRE_RECORDS_MAX as u64 + 1_000;
        for first in (0..partitions).step_by(100) {
            let records: Vec<_> =
                (first..first + 100).map(|it| commit(group, it, Some(1))).collect();
            while self.shard.runtime.is_closed() {
                self.pass(1);
            }
            self.append_all(&records);
        }
        self.pass(FLUSH_MS);
    }

    /// Appends the records of a group as one operation.
    pub(crate) fn append_all(&mut self, records: &[GroupRecord<'_>]) {
        if !self.shard.runtime.is_closed() {
            let slot = self.slot_of(&records[0]);
            self.append_of(slot, None, records);
        }
        self.turn();
    }

    /// Appends records, as part of the producer's transaction if there is a producer.
    pub(crate) fn append_of(
        &mut self,
        slot: Slot,
        producer: Option<Producer>,
        records: &[GroupRecord<'_>],
    ) {
        let Shard { groups, runtime, .. } = &mut self.shard;
        groups.append_of(runtime, slot, self.now, producer, records);
    }

    /// Ends the transaction of a producer in a slot, without the checks of markers. Returns the
    /// position of the marker.
    pub(crate) fn end_transaction(
        &mut self,
        slot: Slot,
        producer: Producer,
        marker: EndTxnMarker,
    ) -> u64 {
        let Shard { groups, runtime, .. } = &mut self.shard;
        groups.end_transaction(runtime, slot, self.now, producer, marker)
    }

    /// The producers of a slot, as DescribeProducers has them.
    pub(crate) fn producers_of(&mut self, slot: Slot) -> Vec<DescribedProducer> {
        let Shard { groups, runtime, .. } = &mut self.shard;
        OffsetMarkers { groups, runtime }.describe(slot.0 as i32)
    }

    pub(crate) fn is_snapshot_due(&self) -> bool {
        let turn = Turn { now: self.now, is_stopping: false };
        self.shard.upkeep.has_snapshot_to_write(self.shard.runtime.log(), turn)
    }

    /// Writes and replays the record of a transactional id; without an epoch, its tombstone.
    pub(crate) fn append_id(&mut self, number: u64, epoch: Option<i16>) {
        if !self.shard.runtime.is_closed() {
            let (partition, record) = self.id_record(number, epoch);
            let Shard { transactions, runtime, .. } = &mut self.shard;
            transactions.append_one(runtime, partition, self.now, &record);
        }
        self.turn();
    }

    /// Changes a transactional id by a record that the log does not have.
    pub(crate) fn replay_id(&mut self, number: u64, epoch: Option<i16>) {
        let (partition, record) = self.id_record(number, epoch);
        self.shard.transactions.replay(partition, &record, 1);
    }

    fn id_record(
        &self,
        number: u64,
        epoch: Option<i16>,
    ) -> (TransactionsPartition, TransactionRecord<'static>) {
        let transactional_id = format!("id-{number}");
        let partition = self.common.placement.transactions_partition(&transactional_id);
        let value = epoch.map(|producer_epoch| TransactionLogValue {
            producer_id: number as i64,
            producer_epoch,
            transaction_timeout_ms: 60_000,
            transaction_status: COMPLETE_COMMIT,
            transaction_partitions: Some(Vec::new()),
            transaction_last_update_timestamp_ms: self.now,
            ..Default::default()
        });
        let key = TransactionLogKey { transactional_id: transactional_id.into() };
        (partition, TransactionRecord { key, value })
    }

    fn slot_of(&self, record: &GroupRecord<'_>) -> Slot {
        self.common.placement.group_slot(record.group_id())
    }

    /// Changes a group by a record that the log does not have.
    pub(crate) fn replay(&mut self, record: &GroupRecord<'_>) {
        let slot = self.slot_of(record);
        let slots = self.shard.groups.slots_mut();
        slots.on(slot, |coordinator, _| coordinator.replay(record, 1));
    }

    fn times(&self) -> Times {
        Times { wall: Wall(self.now + self.wall_ahead), ..Times::both(self.now) }
    }

    /// Passes an event to the shard.
    pub(crate) fn step(&mut self, event: Event<'_>) {
        self.shard.step(self.times(), event, &mut self.commands);
        self.turn();
    }

    /// A client connects to the first listener.
    pub(crate) fn connect(&mut self, connection: ConnectionId) {
        self.connect_from(connection, "/10.0.0.1");
    }

    /// Like [`Self::connect`], for a client of this address.
    pub(crate) fn connect_from(&mut self, connection: ConnectionId, host: &str) {
        let (listener, host) = (ListenerIndex::FIRST, host.into());
        self.step(Event::Opened { connection, listener, host, port: 0 });
    }

    /// Lets time pass and completes file operations. Ends early if the shard fails or stops.
    pub(crate) fn pass(&mut self, ms: i64) {
        let until = self.now + ms;
        while !self.is_failed() && self.stopped.is_none() {
            if let Some(done) = self.done.pop_front() {
                self.shard.step(self.times(), Event::File(done), &mut self.commands);
                self.turn();
                continue;
            }
            match self.deadline.filter(|at| *at <= until) {
                Some(at) => self.now = at.max(self.now + 1),
                None => break,
            }
            self.turn();
        }
        self.now = self.now.max(until);
    }

    /// Runs a turn. If a command is mail to this shard, runs another turn, as a reactor does.
    pub(crate) fn turn(&mut self) {
        let mut has_mail = true;
        while has_mail && !self.is_failed() {
            self.shard.work_all(self.times(), &mut self.commands);
            self.deadline = self.shard.end_turn(self.times(), self.now, &mut self.commands);
            has_mail = false;
            for command in std::mem::take(&mut self.commands) {
                match command {
                    Command::File(op) => self.perform(op),
                    Command::Mail { to, message } if to != self.shard.broker.number() => {
                        self.mailed.push((to, message));
                    }
                    Command::Mail { message, .. } => {
                        has_mail = true;
                        self.shard.step(self.times(), Event::Mail(message), &mut self.commands);
                    }
                    Command::Client(ClientCommand::Close { connection, .. }) => {
                        self.closed.push(connection);
                    }
                    Command::Client(
                        ClientCommand::PauseReceive { .. }
                        | ClientCommand::ResumeReceive { .. }
                        | ClientCommand::PutFirst { .. },
                    ) => {}
                    Command::Certificates(order) => self.orders.push(order),
                    Command::Telemetry(push) => self.pushes.push(*push),
                    Command::Stopped => self.stopped = Some(self.now),
                    other => unreachable!("{other:?}"),
                }
            }
        }
    }

    /// All numbers of the shard.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        totals.count(&self.shard.inspect().numbers());
        totals
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.shard.inspect().is_failed()
    }

    pub(crate) fn committed(&mut self, group: u64, partition: u64) -> Option<i64> {
        self.shard.groups.slots_mut().load_all();
        let found = commit(group, partition, Some(0));
        let records = self.shard.inspect().durable_records();
        records.iter().find_map(|record| match (record, &found) {
            (GroupRecord::OffsetCommit(key, Some(value)), GroupRecord::OffsetCommit(wanted, _)) => {
                (key == wanted).then_some(value.offset)
            }
            _ => None,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(log_directory(1, 0)).join(name)
    }
}

/// The addresses of all shards of a machine, which may be a node of a cluster.
fn endpoints(node: Option<NodeId>, shards: u32) -> Endpoints {
    let host = node.map_or("localhost".to_owned(), |NodeId(id)| format!("node-{id}"));
    let endpoint = |shard| Endpoint { host: host.clone(), port: 9092 + shard as u16 };
    (0..shards).map(endpoint).collect()
}

fn start(data: &Path, common: &Common, now: i64) -> (Shard, Vec<FileOp>) {
    let loaded = load(data, common, 0).unwrap();
    let image = loaded.image().unwrap().clone();
    loaded.into_shard(data, BLOCK_BYTES, image, Box::new(CountedIds(0)), Times::both(now)).unwrap()
}

struct CountedIds(u128);

impl Ids for CountedIds {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid(self.0.to_be_bytes())
    }
}

/// A generator with a fixed sequence for each seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
