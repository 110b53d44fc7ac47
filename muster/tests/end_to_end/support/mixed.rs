//! All kinds of load at once, and checks that the server has all acknowledged data after it was
//! ended at any moment. The load consists of members of classic groups that commit, producers,
//! members of consumer groups, long commits that cause constant compaction, and an administrator.

use super::admin::Admin;
use super::bulk::Bulk;
use super::consumers::{self, Group, LONG_SESSIONS, Member, settle};
use super::workers::{self, WORKERS, Worker, start_workers};
use super::{Random, Server, create_topic, topic_id};
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::SNAPSHOT_ASIDE_FILE_NAME;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const GROUPS: usize = 2;
const MEMBERS: usize = 3;
const BULKS: usize = 3;
const BULK_TOPIC: &str = "bulk";
const BULK_PARTITIONS: i32 = 16;

/// The smallest segments, compaction as soon as possible, and frequent snapshots.
pub const CONFIGS: &[&str] = &[
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.assignment.interval.ms=0",
    LONG_SESSIONS[0],
    LONG_SESSIONS[1],
    "offsets.topic.num.partitions=6",
    "offsets.topic.segment.bytes=16777216",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.cleaner.backoff.ms=1",
    "metadata.log.max.record.bytes.between.snapshots=1000000",
];

pub struct Mixed {
    workers: Vec<Arc<Worker>>,
    groups: Vec<Arc<Group>>,
    members: Vec<Member>,
    bulks: Vec<Bulk>,
    admin: Admin,
}

/// The running load.
pub struct Running {
    stop: Arc<AtomicBool>,
    workers: Vec<Arc<Worker>>,
    groups: Vec<Arc<Group>>,
    worker_threads: Vec<JoinHandle<()>>,
    members: Vec<JoinHandle<Member>>,
    bulks: Vec<JoinHandle<Bulk>>,
    admin: JoinHandle<Admin>,
}

impl Mixed {
    pub fn new(server: &Server, random: &mut Random) -> Self {
        create_topic(server, workers::TOPIC, WORKERS as i32);
        create_topic(server, BULK_TOPIC, BULK_PARTITIONS);
        consumers::TOPICS.iter().for_each(|it| create_topic(server, it, consumers::PARTITIONS));
        let topics = Arc::new(consumers::TOPICS.map(|it| topic_id(&mut server.client(0), it)));
        let groups: Vec<_> =
            (0..GROUPS).map(|i| Arc::new(Group::new(WORKERS + i, topics.clone()))).collect();
        let members = (0..GROUPS * MEMBERS)
            .map(|i| Member::new(&groups[i / MEMBERS], i % MEMBERS, random.next()));
        Self {
            workers: (0..WORKERS).map(|i| Arc::new(Worker::new(server, i))).collect(),
            members: members.collect(),
            groups,
            bulks: (0..BULKS).map(|i| Bulk::new(i, BULK_TOPIC)).collect(),
            admin: Admin::new(random.next()),
        }
    }

    /// Runs until [`Running::stop`].
    pub fn start(self, server: &Server) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let Self { workers, groups, members, bulks, admin } = self;
        let bulks = bulks.into_iter().map(|bulk| start_bulk(server, bulk, &stop));
        Running {
            worker_threads: start_workers(server, &workers, &stop),
            members: members.into_iter().map(|it| it.start(server, &stop)).collect(),
            bulks: bulks.collect(),
            admin: start_admin(server, admin, &stop),
            stop,
            workers,
            groups,
        }
    }

    /// Checks that the server has all acknowledged data. Then lets the members continue until their
    /// groups are stable.
    pub fn check(&mut self, server: &Server, round: u64) {
        self.workers.iter().for_each(|worker| worker.check(server, round));
        self.groups.iter().for_each(|group| group.check(server, &self.members));
        self.bulks.iter_mut().for_each(|bulk| bulk.check(server));
        self.admin.check(server);
        settle(server, &self.groups, &mut self.members);
    }

    /// A line for a report: the acknowledged data so far.
    pub fn summary(&self) -> String {
        let commits: i64 = self.workers.iter().map(|it| it.committed.load(Ordering::Relaxed)).sum();
        let records: i64 = self.workers.iter().map(|it| it.produced.load(Ordering::Relaxed)).sum();
        let of_consumers: i64 = self.groups.iter().map(|group| group.commits()).sum();
        let epochs: i32 = self.groups.iter().map(|group| group.reported().epoch).sum();
        let long: i64 = self.bulks.iter().map(|bulk| bulk.committed).sum();
        let bytes: i64 = self.bulks.iter().map(Bulk::bytes).sum();
        let changes = self.admin.changes;
        assert!(commits > 0 && records > 0 && of_consumers > 0 && long > 0, "it was served");
        format!(
            "{commits} commits of classic members, {of_consumers} of consumers in {epochs} epochs, \
             {long} long ones of {} MB, {records} records, {changes} changes by the administrator",
            bytes >> 20
        )
    }
}

impl Running {
    /// Stops the load, after the server has ended.
    pub fn stop(self) -> Mixed {
        self.stop.store(true, Ordering::Relaxed);
        self.worker_threads.into_iter().for_each(|thread| thread.join().unwrap());
        Mixed {
            members: self.members.into_iter().map(|thread| thread.join().unwrap()).collect(),
            bulks: self.bulks.into_iter().map(|thread| thread.join().unwrap()).collect(),
            admin: self.admin.join().unwrap(),
            workers: self.workers,
            groups: self.groups,
        }
    }
}

fn start_bulk(server: &Server, mut bulk: Bulk, stop: &Arc<AtomicBool>) -> JoinHandle<Bulk> {
    let (mut client, stop) = (server.coordinator(&bulk.group()), stop.clone());
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) && bulk.commit(&mut client).is_some() {}
        bulk
    })
}

fn start_admin(server: &Server, mut admin: Admin, stop: &Arc<AtomicBool>) -> JoinHandle<Admin> {
    let (mut controller, stop) = (server.client(0), stop.clone());
    let coordinators = server.coordinators();
    std::thread::spawn(move || {
        let coordinator = |group: &str| coordinators.connect(group);
        while !stop.load(Ordering::Relaxed) && admin.change(&mut controller, coordinator).is_some()
        {
        }
        admin
    })
}

/// How often the server ended before a file was complete. Such a file still has its temporary name.
#[derive(Debug, Default)]
pub struct Interrupted {
    pub compactions: usize,
    pub snapshots: usize,
}

impl Interrupted {
    /// Counts the unfinished files that a server left in its data directory.
    pub fn count(&mut self, data: &Path, shards: u16) {
        let exists = |number: &u16, file: &str| {
            data.join(format!("shards-{shards}/{number}")).join(file).exists()
        };
        let count = |file| (0..shards).filter(|number| exists(number, file)).count();
        self.compactions += count(ASIDE_FILE_NAME);
        self.snapshots += count(SNAPSHOT_ASIDE_FILE_NAME);
    }
}
