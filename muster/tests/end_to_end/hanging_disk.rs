//! A disk that hangs. Requests that need no disk are answered as fast as before, all others once
//! the disk works again. The server has an ext4 file system of its own. The reads, writes and
//! flushes of its disk do not end for a while. Another process syncs files there, so the file
//! system's journal hangs, too.
//!
//! `MUSTER_HANG_SECONDS` sets the length of the hang (10 by default). Without FUSE, loop devices or
//! root, the test is skipped with a message.

use crate::support::offsets::{commit, commit_request, committed};
use crate::support::power::{Hang, PowerSupply};
use crate::support::sessions::Member;
use crate::support::{Client, Server, create_topic, produce_to, variable};
use muster_codec::messages::*;
use muster_codec::{Request, Response};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const DISK_BYTES: u64 = 512 << 20;

/// Segments are so small that two of the test's records do not fit in one.
const CONFIGS: &[&str] = &["log.segment.bytes=1048576"];
const LARGE: usize = 600_000;

/// The number of partitions of the topic `new`. They have no records, and so no directories yet.
const NEW_PARTITIONS: i32 = 16;

/// While the disk hangs, an answer may take `TIMES_SLOWER` times as long as before, and this much
/// more, because the machine may be busy.
const TOLERANCE: Duration = Duration::from_millis(100);
const TIMES_SLOWER: u32 = 10;

/// The pause between two rounds of probes.
const PAUSE: Duration = Duration::from_millis(3);

/// Time without an answer after which the server counts as hung.
const STANDSTILL: Duration = Duration::from_secs(10);

#[test]
fn what_needs_no_disk_is_answered_while_the_disk_hangs() {
    let volume = match PowerSupply::new(DISK_BYTES) {
        Ok(volume) => volume,
        Err(missing) => return eprintln!("SKIPPED, this machine has no disk to hang: {missing}"),
    };
    let length = Duration::from_secs(variable("MUSTER_HANG_SECONDS", 10));
    let mut server = prepare(&volume.path().join("data"));
    let mut probes = Probes::new(&server);
    let neighbour = Neighbour::start(volume.path().join("data/topics"));
    let before = probes.ask_for(length);
    let (hang, stuck) = hang_with_the_journal(&volume, &neighbour);
    let waiting = begin_what_needs_the_disk(&server);
    let during = probes.ask_for(length);
    let closed = fetch_of_a_closed_segment(&server);
    let is_committed = waiting[0].is_finished();
    let held = waiting.iter().filter(|asked| !asked.is_finished()).count();
    drop(hang);
    stuck.join().unwrap();
    for asked in waiting {
        asked.join().unwrap();
    }
    neighbour.stop();
    assert_eq!(committed(&server, "busy").len(), 1);
    println!("before: {before:?}\nduring: {during:?}\nfirst read of a segment: {closed:?}");
    println!("{held} requests waited for the disk");
    assert!(!is_committed, "a commit was answered though the disk hung");
    assert!(held >= NEW_PARTITIONS as usize, "the journal did not hang");
    for ((name, before), (_, during)) in before.iter().zip(&during) {
        let most = *before * TIMES_SLOWER + TOLERANCE;
        assert!(during <= &most, "{name}: p99 {during:?} while the disk hangs, {before:?} before");
    }
    assert!(closed <= TOLERANCE * 10, "the first fetch of a segment took {closed:?}");
    assert!(server.stop().success());
}

/// Makes the disk hang at a moment when no new directory can be created, because the journal is
/// writing a block that would change. This may take several attempts. Returns the hang, and a
/// thread that is blocked while it creates a directory.
fn hang_with_the_journal<'v>(
    volume: &'v PowerSupply,
    neighbour: &Neighbour,
) -> (Hang<'v>, JoinHandle<()>) {
    for round in 0..100 {
        let hang = volume.hang();
        neighbour.wait_until_stuck();
        let path = volume.path().join(format!("data/topics/probe-{round}"));
        let probe = thread::spawn(|| fs::create_dir(path).unwrap());
        thread::sleep(TOLERANCE);
        if !probe.is_finished() {
            return (hang, probe);
        }
        probe.join().unwrap();
    }
    panic!("the journal never hangs");
}

/// A server with records in the page cache. It was restarted after they were written, so no
/// partition's file is open.
fn prepare(data: &Path) -> Server {
    let server = Server::start(data, 1, CONFIGS);
    for (topic, partitions) in
        [("long", 1), ("short", 1), ("closed", 1), ("rolled", 1), ("cut", 1), ("t", 1)]
    {
        create_topic(&server, topic, partitions);
    }
    create_topic(&server, "new", NEW_PARTITIONS);
    let mut client = server.client(0);
    for topic in ["long", "closed", "rolled", "cut"] {
        produce_to(&mut client, topic, 0, &vec![7; LARGE]).unwrap();
    }
    produce_to(&mut client, "cut", 0, &vec![7; LARGE]).unwrap();
    produce_to(&mut client, "short", 0, b"value").unwrap();
    commit(&server, "calm", "short", 0, 0);
    let mut server = server;
    assert!(server.stop().success());
    server.restart()
}

/// Sends requests that may wait for the disk, each on its own connection and thread: a commit, a
/// batch that begins a segment, a deletion of records with their segment, and the first batches of
/// partitions (which create directories). The second and the third need the disk only while the
/// journal is writing the blocks that they change.
fn begin_what_needs_the_disk(server: &Server) -> Vec<JoinHandle<()>> {
    let mut asked = vec![ask(server, commits), ask(server, rolls), ask(server, deletes)];
    for partition in 0..NEW_PARTITIONS {
        asked.push(ask(server, move |client| {
            assert_eq!(produce_to(client, "new", partition, b"first"), Some(0));
        }));
    }
    asked
}

fn ask(server: &Server, what: impl FnOnce(&mut Client) + Send + 'static) -> JoinHandle<()> {
    let mut client = server.client(0);
    thread::spawn(move || what(&mut client))
}

fn commits(client: &mut Client) {
    let request = commit_request("busy", "short", [0], 1, "");
    let Response::OffsetCommit(body) = client.call(8, request.into()) else { panic!() };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
}

fn rolls(client: &mut Client) {
    assert_eq!(produce_to(client, "rolled", 0, &vec![7; LARGE]), Some(1));
}

fn deletes(client: &mut Client) {
    let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset: 1 }];
    let topics = vec![DeleteRecordsTopic { name: "cut".into(), partitions }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 10_000 };
    let Response::DeleteRecords(body) = client.call(2, request.into()) else { panic!() };
    assert_eq!(body.topics[0].partitions[0].error_code, 0);
    // As in Kafka, this answer does not wait for the disk. The commit that follows does.
    commits(client);
}

fn fetch_of_a_closed_segment(server: &Server) -> Duration {
    let mut client = impatient(server.client(0));
    let began = Instant::now();
    fetched(client.try_call(4, fetch("closed")), LARGE);
    began.elapsed()
}

/// Requests that are repeated, each kind on its own connection.
struct Probes {
    member: Member,
    others: Vec<(&'static str, Client)>,
}

impl Probes {
    fn new(server: &Server) -> Self {
        let member = Member::join(server, "calm members", "member");
        member.waits_for(STANDSTILL);
        let names = ["ApiVersions", "Metadata", "Fetch of a long part", "Fetch of a short part"];
        let others = names.map(|name| (name, impatient(server.client(0))));
        Self { member, others: others.into() }
    }

    /// For each kind of request, the 99th percentile of the time to its answer.
    fn ask_for(&mut self, length: Duration) -> Vec<(&'static str, Duration)> {
        let deadline = Instant::now() + length;
        let mut times = vec![Vec::new(); self.others.len() + 1];
        while Instant::now() < deadline {
            for (client, times) in self.others.iter_mut().zip(&mut times) {
                times.push(timed(|| probe(client.0, &mut client.1)));
            }
            let heartbeats = times.last_mut().unwrap();
            heartbeats.push(timed(|| {
                let asked = self.member.ask();
                assert!(self.member.is_answered(asked));
            }));
            thread::sleep(PAUSE);
        }
        let names = self.others.iter().map(|(name, _)| *name).chain(["Heartbeat"]);
        names.zip(times.into_iter().map(p99)).collect()
    }
}

fn impatient(client: Client) -> Client {
    client.stream().set_read_timeout(Some(STANDSTILL)).unwrap();
    client
}

fn probe(name: &str, client: &mut Client) {
    match name {
        "ApiVersions" => {
            let answer = client.try_call(0, ApiVersionsRequest::default().into());
            assert!(answer.is_some(), "no answer: the shard stands still");
        }
        "Metadata" => {
            let answer = client.try_call(9, MetadataRequest::default().into());
            assert!(answer.is_some(), "no answer: the shard stands still");
        }
        "Fetch of a long part" => fetched(client.try_call(4, fetch("long")), LARGE),
        _ => fetched(client.try_call(4, fetch("short")), 5),
    }
}

fn fetch(topic: &'static str) -> Request<'static> {
    let partitions = vec![FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() }];
    let topics = vec![FetchTopic { topic: topic.into(), partitions, ..Default::default() }];
    FetchRequest { max_bytes: 1 << 20, topics, ..Default::default() }.into()
}

fn fetched(answer: Option<Response<'_>>, bytes: usize) {
    let answer = answer.expect("an answer: the shard stands still");
    let Response::Fetch(body) = answer else { panic!("{answer:?}") };
    let data = &body.responses[0].partitions[0];
    assert_eq!(data.error_code, 0);
    assert!(data.records.as_deref().unwrap().len() >= bytes);
}

fn timed(ask: impl FnOnce()) -> Duration {
    let began = Instant::now();
    ask();
    began.elapsed()
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

/// A thread that does what another process on the machine might do: it creates and removes a
/// directory next to those of partitions, again and again, and syncs after each change. A hang of
/// the disk thus finds the journal writing the blocks that the next new directory will change.
struct Neighbour {
    shared: Arc<Rounds>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Rounds {
    done: AtomicUsize,
    are_over: AtomicBool,
}

impl Neighbour {
    fn start(directory: PathBuf) -> Self {
        let shared = Arc::<Rounds>::default();
        let rounds = shared.clone();
        let thread = thread::spawn(move || {
            let path = directory.join("neighbour");
            let sync = || File::open(&directory).unwrap().sync_all().unwrap();
            while !rounds.are_over.load(Ordering::Relaxed) {
                fs::create_dir(&path).unwrap();
                sync();
                fs::remove_dir(&path).unwrap();
                sync();
                rounds.done.fetch_add(1, Ordering::Relaxed);
                thread::sleep(PAUSE);
            }
        });
        Self { shared, thread }
    }

    /// Waits until the disk, which hangs, blocks the thread.
    fn wait_until_stuck(&self) {
        let done = || self.shared.done.load(Ordering::Relaxed);
        let mut before = done();
        loop {
            thread::sleep(TOLERANCE);
            match done() {
                now if now == before => return,
                now => before = now,
            }
        }
    }

    fn stop(self) {
        self.shared.are_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}
