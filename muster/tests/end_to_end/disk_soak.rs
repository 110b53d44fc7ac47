//! A disk that rots, hangs and fills up in turn, under all kinds of load at once. The server
//! continues to serve. After each round a kill or a clean stop loses no acknowledged data.
//!
//! `MUSTER_DISK_SOAK_MINUTES` sets the duration (by default each fault occurs once), `MUSTER_SEED`
//! seeds the random choices. Without FUSE, loop devices or root, the test is skipped.

use crate::support::http::{get, metric_until};
use crate::support::mixed::{CONFIGS, Mixed};
use crate::support::offsets::{commit, committed};
use crate::support::power::PowerSupply;
use crate::support::room::{fill, try_produce};
use crate::support::transactional::leader;
use crate::support::{PATIENCE, Random, Server, create_topic, free_ports, variable};
use muster_codec::ErrorCode;
use muster_storage::layout::Block;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const SHARDS: u16 = 2;
const DISK_BYTES: u64 = 512 << 20;

/// After this number of rounds the server gets a new directory, because no round removes records.
const ROUNDS_OF_A_DIRECTORY: u64 = 8;

const HANG: Duration = Duration::from_secs(3);

const MORE_CONFIGS: [&str; 2] =
    ["state.check.max.bytes.per.second=100000000", "disk.reserve.bytes=16777216"];
const RESERVE_BYTES: u64 = 16 << 20;

const TOPIC: &str = "room";
const GROUP: &str = "room";

#[derive(Debug, Clone, Copy)]
enum Trouble {
    Damage,
    Hang,
    Full,
}

const TROUBLES: [Trouble; 3] = [Trouble::Damage, Trouble::Hang, Trouble::Full];

#[test]
fn a_disk_in_trouble_again_and_again_costs_nothing_that_was_acknowledged() {
    let volume = match PowerSupply::new(DISK_BYTES) {
        Ok(volume) => volume,
        Err(missing) => return test_skips::skip(missing),
    };
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    let minutes = variable("MUSTER_DISK_SOAK_MINUTES", 0);
    println!("MUSTER_SEED={seed} MUSTER_DISK_SOAK_MINUTES={minutes}");
    let (mut random, began) = (Random(seed), Instant::now());
    let mut round = 0;
    let is_over = |round: u64| {
        let is_complete = round.is_multiple_of(TROUBLES.len() as u64) && round > 0;
        is_complete && began.elapsed() >= Duration::from_secs(minutes * 60)
    };
    while !is_over(round) {
        let data = volume.path().join("data");
        let mut stand = Stand::new(&volume, &data, &mut random);
        for _ in 0..ROUNDS_OF_A_DIRECTORY {
            stand.round(TROUBLES[round as usize % TROUBLES.len()], round, &mut random);
            round += 1;
            if is_over(round) {
                break;
            }
        }
        println!("{round} rounds in {} s: {}", began.elapsed().as_secs(), stand.finish());
        fs::remove_dir_all(&data).unwrap();
    }
}

/// A server on a disk, and its load.
struct Stand<'v> {
    volume: &'v PowerSupply,
    data: PathBuf,
    operator: u16,
    server: Option<Server>,
    load: Option<Mixed>,
    /// The last offset that was committed in addition to the load.
    committed: i64,
}

impl<'v> Stand<'v> {
    fn new(volume: &'v PowerSupply, data: &Path, random: &mut Random) -> Self {
        let operator = free_ports(1);
        let admin = format!("admin.listener=127.0.0.1:{operator}");
        let configs = CONFIGS.iter().copied().chain(MORE_CONFIGS).chain([&*admin]);
        let server = Server::start(data, SHARDS, &configs.collect::<Vec<_>>());
        create_topic(&server, TOPIC, 1);
        let load = Some(Mixed::new(&server, random));
        let (data, server) = (data.to_owned(), Some(server));
        Self { volume, data, operator, server, load, committed: 0 }
    }

    fn round(&mut self, trouble: Trouble, round: u64, random: &mut Random) {
        println!("round {round}: {trouble:?}");
        let mut server = self.server.take().unwrap();
        let running = self.load.take().unwrap().start(&server);
        thread::sleep(Duration::from_millis(500 + random.next() % 1_000));
        match trouble {
            Trouble::Damage => self.damage(random),
            Trouble::Hang => {
                let hang = self.volume.hang();
                thread::sleep(HANG);
                drop(hang);
                thread::sleep(Duration::from_millis(random.next() % 1_000));
            }
            Trouble::Full => {}
        }
        let is_killed = random.next().is_multiple_of(2);
        let mut load = if is_killed && !matches!(trouble, Trouble::Full) {
            server.kill();
            running.stop()
        } else {
            let load = running.stop();
            if matches!(trouble, Trouble::Full) {
                self.fill(&server);
            }
            assert!(server.stop().success());
            load
        };
        let server = server.restart();
        load.check(&server, round);
        self.judge_commits(&server);
        (self.server, self.load) = (Some(server), Some(load));
    }

    /// Flips a bit of a log, and waits until the damage is repaired.
    fn damage(&self, random: &mut Random) {
        let shard = random.next() % u64::from(SHARDS);
        let metric = format!("muster_log_rewritten_total{{shard=\"{shard}\"}}");
        let before = number(&metric_until(self.operator, &metric, |_| true));
        let log = self.data.join(format!("shards-{SHARDS}/{shard}"));
        let (path, inode) = flip(&log, random);
        let deadline = Instant::now() + PATIENCE;
        // If compaction replaces the file before the damage was read, the log is not rewritten.
        let is_rewritten = || value(self.operator, &metric).is_some_and(|times| times > before);
        while !is_rewritten() && inode_of(&path) == Some(inode) {
            assert!(Instant::now() < deadline, "nothing has mended {}", path.display());
            thread::sleep(Duration::from_millis(20));
        }
        metric_until(self.operator, &format!("muster_log_damaged{{shard=\"{shard}\"}}"), |it| {
            it == 0.0
        });
    }

    /// Fills the disk. Produces are refused, and all other requests are served.
    fn fill(&mut self, server: &Server) {
        let filler = self.volume.path().join("filler");
        fill(self.volume.path(), &filler, RESERVE_BYTES / 2 + (1 << 20));
        produces_are(server, ErrorCode::KafkaStorageError);
        self.committed += 1;
        commit(server, GROUP, TOPIC, 0, self.committed);
        self.judge_commits(server);
        fs::remove_file(&filler).unwrap();
        produces_are(server, ErrorCode::None);
    }

    fn judge_commits(&self, server: &Server) {
        let found = committed(server, GROUP);
        let offset = found.get(&(TOPIC.to_owned(), 0)).map_or(0, |(offset, _)| *offset);
        assert_eq!(offset, self.committed);
    }

    /// Ends the server. Returns a description of the acknowledged data.
    fn finish(mut self) -> String {
        let mut server = self.server.take().unwrap();
        assert!(server.stop().success());
        self.load.take().unwrap().summary()
    }
}

/// Waits until produces are answered with this error code.
#[track_caller]
fn produces_are(server: &Server, wanted: ErrorCode) {
    let mut client = server.client(leader(server, TOPIC, 0));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (error, _) = try_produce(&mut client, TOPIC);
        if error == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "produces get {error:?}, expected {wanted:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The value of a metric. `None` if the shard is too busy to answer.
fn value(operator: u16, metric: &str) -> Option<f64> {
    let (_, _, text) = get(operator, "/metrics", "text/plain");
    text.lines().find(|line| line.starts_with(metric)).map(number)
}

fn number(line: &str) -> f64 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Flips a bit in a random block of a random segment. Returns the segment's file and its inode
/// number, by which the caller notices that compaction has replaced the file.
fn flip(log: &Path, random: &mut Random) -> (PathBuf, u64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "no segment with blocks in {}", log.display());
        let entries = fs::read_dir(log).unwrap().flatten().map(|entry| entry.path());
        let mut segments: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
        segments.sort();
        let path = segments.swap_remove(random.next() as usize % segments.len());
        let Ok(bytes) = fs::read(&path) else { continue };
        let starts = (512..bytes.len()).step_by(512);
        let blocks: Vec<_> = starts.filter(|at| Block::read(&bytes[*at..]).is_ok()).collect();
        if blocks.is_empty() {
            continue;
        }
        let at = blocks[random.next() as usize % blocks.len()] + 60;
        let Ok(file) = File::options().write(true).open(&path) else { continue };
        let inode = file.metadata().unwrap().ino();
        file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
        file.sync_all().unwrap();
        return (path, inode);
    }
}

fn inode_of(path: &Path) -> Option<u64> {
    Some(fs::metadata(path).ok()?.ino())
}
