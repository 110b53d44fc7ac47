//! `muster backup`: the backup of a running server shows all shards at one moment. A kill -9 in the
//! middle costs at most the backup.

use crate::support::http::raw;
use crate::support::mixed::{CONFIGS, Mixed};
use crate::support::offsets::{Ended, commit_request, committed, muster, muster_log};
use crate::support::transactional::leader;
use crate::support::{Client, Random, Server, create_topic, free_ports, produce_to, variable};
use muster_codec::Response;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const SHARDS: u16 = 2;
const TOPIC: &str = "pairs";
const PAIRS: i32 = 4;

/// A partition, and a group that commits the end of the partition after each record. Partition and
/// group are often on different shards.
struct Pair {
    index: i32,
    /// The last committed offset.
    committed: AtomicI64,
}

/// The threads that advance the pairs.
struct Pairs {
    pairs: Vec<Arc<Pair>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pairs {
    fn start(server: &Server) -> Self {
        create_topic(server, TOPIC, PAIRS);
        Self::resume(server)
    }

    fn resume(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let pair = |index| Arc::new(Pair { index, committed: AtomicI64::new(0) });
        let pairs: Vec<_> = (0..PAIRS).map(pair).collect();
        let threads = pairs.iter().map(|pair| {
            let (pair, stop) = (pair.clone(), stop.clone());
            let mut leader = server.client(leader(server, TOPIC, pair.index));
            let mut coordinator = server.coordinator(&pair.group());
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed)
                    && pair.step(&mut leader, &mut coordinator).is_some()
                {}
            })
        });
        let threads = threads.collect();
        Self { pairs, stop, threads }
    }

    fn committed(&self) -> Vec<i64> {
        self.pairs.iter().map(|pair| pair.committed.load(Ordering::Relaxed)).collect()
    }

    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Pair {
    fn group(&self) -> String {
        group(self.index)
    }

    /// Produces a record and commits its offset. `None` once the server has ended.
    fn step(&self, leader: &mut Client, coordinator: &mut Client) -> Option<()> {
        let next = produce_to(leader, TOPIC, self.index, b"value")? + 1;
        let request = commit_request(&self.group(), TOPIC, [self.index], next, "");
        let Response::OffsetCommit(body) = coordinator.try_call(8, request.into())? else {
            panic!()
        };
        assert_eq!(body.topics[0].partitions[0].error_code, 0);
        self.committed.store(next, Ordering::Relaxed);
        Some(())
    }
}

fn group(pair: i32) -> String {
    format!("pair-{pair}")
}

/// Checks that a backup shows one moment: each commit is between `before` and `after`, and only the
/// last record of a partition may lack its commit.
#[track_caller]
fn is_one_moment(server: &Server, before: &[i64], after: &[i64]) {
    for index in 0..PAIRS {
        let found = committed(server, &group(index));
        let offset = found.get(&(TOPIC.to_owned(), index)).map_or(0, |(offset, _)| *offset);
        let (before, after) = (before[index as usize], after[index as usize]);
        let expected = before..=after + 1;
        assert!(expected.contains(&offset), "{offset} is committed, expected {expected:?}");
        let mut leader = server.client(leader(server, TOPIC, index));
        let end = produce_to(&mut leader, TOPIC, index, b"more").unwrap();
        // A record may not have been committed yet.
        assert!((offset..=offset + 1).contains(&end), "{offset} is committed of {end} records");
    }
}

/// A server with an admin listener, and that listener's port.
fn start(data: &Path, configs: &[&str]) -> (Server, u16) {
    let operator = free_ports(1);
    let admin = format!("admin.listener=127.0.0.1:{operator}");
    let configs: Vec<_> = [&*admin].into_iter().chain(configs.iter().copied()).collect();
    (Server::start(data, SHARDS, &configs), operator)
}

fn back_up(data: &Path, target: &Path, words: &[&str]) -> Ended {
    let mut all: Vec<OsString> = vec!["backup".into(), "--data".into(), data.into()];
    all.extend(words.iter().map(OsString::from));
    all.push(target.into());
    muster(all)
}

#[track_caller]
fn verifies(data: &Path) {
    let Ended { status, out, error } = muster_log(["verify".as_ref(), data.as_os_str()]);
    assert_eq!(status, 0, "{out}{error}");
}

#[test]
fn a_backup_under_load_is_one_moment_of_all_shards() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    println!("MUSTER_SEED={seed}");
    let (server, operator) = start(&data, CONFIGS);
    let mixed = Mixed::new(&server, &mut Random(seed)).start(&server);
    let pairs = Pairs::start(&server);
    let admin = format!("127.0.0.1:{operator}");
    let mut backups = Vec::new();
    for number in 0..4 {
        thread::sleep(Duration::from_millis(300));
        let target = place.path().join(format!("backup-{number}"));
        let before = pairs.committed();
        let copy = if number % 2 == 0 { &["--copy"][..] } else { &[] };
        let done = back_up(&data, &target, &[&["--admin", &admin], copy].concat());
        assert_eq!(done.status, 0, "{}", done.error);
        assert!(!data.join("backup").exists());
        backups.push((target, before, pairs.committed()));
    }
    // The server compacts its logs repeatedly. The backups must not change.
    thread::sleep(Duration::from_secs(1));
    pairs.stop();
    drop(mixed.stop());
    for (target, before, after) in backups {
        verifies(&target);
        let (restored, _) = start(&target, CONFIGS);
        is_one_moment(&restored, &before, &after);
    }
    drop(server);
    verifies(&data);
}

#[test]
fn a_kill_or_a_stop_in_the_middle_costs_the_backup_at_most() {
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    println!("MUSTER_SEED={seed}");
    let mut random = Random(seed);
    let (mut made, mut not_made) = (0, 0);
    for round in 0..variable("MUSTER_KILLS", 8) {
        let place = tempfile::tempdir().unwrap();
        let (data, target) = (place.path().join("data"), place.path().join("target"));
        let (mut server, operator) = start(&data, &[]);
        let pairs = Pairs::start(&server);
        thread::sleep(Duration::from_millis(100));
        let before = pairs.committed();
        let admin = format!("127.0.0.1:{operator}");
        let backup = thread::spawn({
            let (data, target) = (data.clone(), target.clone());
            move || back_up(&data, &target, &["--admin", &admin])
        });
        thread::sleep(Duration::from_millis(random.next() % 60));
        // A clean stop writes a new stamp.
        if random.next().is_multiple_of(2) {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
        let done = backup.join().unwrap();
        let after = pairs.committed();
        pairs.stop();
        if done.status == 0 {
            made += 1;
            verifies(&target);
            is_one_moment(&start(&target, &[]).0, &before, &after);
        } else {
            not_made += 1;
            assert!(!target.exists() && !done.error.is_empty(), "round {round}: {}", done.error);
        }
        let left = place.path().read_dir().unwrap().flatten().filter(|it| it.path() != data);
        assert_eq!(left.count(), usize::from(done.status == 0), "round {round}");
        let server = server.restart();
        is_one_moment(&server, &after, &after);
    }
    println!("{made} backups were made, {not_made} were not");
}

#[test]
fn a_directory_that_no_server_uses_is_backed_up_too() {
    let place = tempfile::tempdir().unwrap();
    let (data, target) = (place.path().join("data"), place.path().join("target"));
    let (mut server, _) = start(&data, &[]);
    let pairs = Pairs::start(&server);
    thread::sleep(Duration::from_millis(100));
    let all = pairs.committed();
    server.kill();
    let after = pairs.committed();
    pairs.stop();
    let done = back_up(&data, &target, &[]);
    assert_eq!(done.status, 0, "{}", done.error);
    assert!(done.out.contains("a directory that no server uses"), "{}", done.out);
    // The backup does not contain later writes of the server.
    let mut server = server.restart();
    let more = Pairs::resume(&server);
    thread::sleep(Duration::from_millis(200));
    more.stop();
    assert!(server.stop().success());
    verifies(&target);
    is_one_moment(&start(&target, &[]).0, &all, &after);
    verifies(&data);
}

#[test]
fn what_cannot_be_backed_up_is_said_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (data, target) = (place.path().join("data"), place.path().join("target"));
    let none = back_up(&data, &target, &[]);
    assert_eq!(none.status, 1);
    let (server, operator) = start(&data, &["admin.token=0123456789abcdef"]);
    let admin = format!("127.0.0.1:{operator}");
    let elsewhere = format!("127.0.0.1:{}", free_ports(1));
    for (words, expected) in [
        (vec!["--admin", &admin], "needs the token"),
        (vec!["--admin", &*elsewhere], "did not answer"),
        (vec!["--admin", "nonsense"], "nonsense"),
    ] {
        let done = back_up(&data, &target, &words);
        assert_eq!(done.status, 1, "{words:?}");
        assert!(done.error.contains(expected), "{}", done.error);
        assert!(!target.exists() && !data.join("backup").exists(), "{words:?}");
    }
    let config = place.path().join("server.properties");
    let text = format!("admin.listener={admin}\nadmin.token=0123456789abcdef\n");
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let done = back_up(&data, &target, &["--config", config]);
    assert_eq!(done.status, 0, "{}", done.error);
    let again = back_up(&data, &target, &["--config", config]);
    assert!(again.status == 1 && again.error.contains("exists"), "{}", again.error);
    drop(server);
}

#[test]
fn a_backup_is_for_those_who_may_write_in_the_data_directory() {
    let data = tempfile::tempdir().unwrap();
    let (server, operator) = start(data.path(), &[]);
    let post = |path: &str| {
        let answer =
            raw(operator, format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes());
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let ticket = "0123456789abcdef0123456789abcdef";
    let path = format!("/api/v1/backup?ticket={ticket}");
    assert_eq!(post(&path), "403", "there is no ticket");
    std::fs::create_dir(data.path().join("backup")).unwrap();
    for bad in ["", "../../../../../../../../../../x/", "0123456789abcdef0123456789abcdeg"] {
        std::fs::write(data.path().join("backup/ticket"), bad).unwrap();
        assert_eq!(post(&format!("/api/v1/backup?ticket={bad}")), "403", "{bad}");
    }
    std::fs::write(data.path().join("backup/ticket"), ticket).unwrap();
    assert_eq!(post("/api/v1/backup?ticket=f"), "403");
    assert_eq!(post("/api/v1/backup"), "403");
    assert_eq!(post("/metrics"), "405");
    assert_eq!(post(&path), "200");
    assert_eq!(post(&path), "409", "its directory is taken");
    // No backup tool uses the files that are left. The next backup or start removes them.
    let server = server.restart();
    assert!(!data.path().join("backup").exists());
    drop(server);
}
