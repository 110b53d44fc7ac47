//! A real server under all attacks at once, with little memory. It survives, no well-behaved client
//! is lost, and the memory for clients stays within its budget. Groups and topics that clients
//! create do not count: their number has separate limits.
//!
//! `MUSTER_SOAK_MINUTES` sets the duration (some seconds by default). If control groups can be
//! created, the server runs in one of 2 GiB. Otherwise only its peak memory is checked.

use crate::support::attacks::floods::{Sizes, all, prepare};
use crate::support::honest::Honest;
use crate::support::liveness::assert_alive_in_each_kind;
use crate::support::{Server, variable};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SECONDS: u64 = 10;
const MEMBERS: usize = 8;

/// The limit of the control group.
const MEMORY_MAX: u64 = 2 << 30;
/// The memory that the shard accounts to clients must stay below this size. The account's limit
/// (`shard.memory.max.bytes`) is higher.
const SHARD_MEMORY_MAX: u64 = 1 << 30;

const SIZES: Sizes = Sizes {
    groups: 10_000,
    offsets: 10_000,
    members: 100,
    client_id_bytes: 10_000,
    partitions: 64,
    record_bytes: 900_000,
};

#[test]
fn all_attacks_at_once_stay_within_the_budget_and_lose_no_member() {
    let directory = tempfile::tempdir().unwrap();
    let configs = ["group.initial.rebalance.delay.ms=0"];
    let mut server = Server::start(directory.path(), 1, &configs);
    let cell = Cell::with(server.pid());
    let target = prepare(&server, SIZES);
    let honest = Honest::start(&server, MEMBERS);
    let minutes = variable("MUSTER_SOAK_MINUTES", 0);
    let time = Duration::from_secs(if minutes > 0 { minutes * 60 } else { SECONDS });
    let (port, stop) = (server.port, AtomicBool::default());
    let floods = all(&target);
    thread::scope(|scope| {
        let stop = &stop;
        floods.iter().for_each(|(_, flood)| drop(scope.spawn(move || flood(port, stop))));
        watch(&mut server, time);
        stop.store(true, Ordering::Relaxed);
    });
    let notes = honest.stop();
    println!("{} attacks for {time:?}: {}", floods.len(), notes.report());
    assert!(notes.lost.is_empty(), "lost: {:?}", notes.lost);
    assert!(server.status().is_none(), "the server ended");
    assert_alive_in_each_kind(&server);
    let most = server.peak_memory();
    println!("at most {} MiB, in {cell}", most >> 20);
    assert!((most as u64) < MEMORY_MAX, "{most} bytes of memory");
    assert!(server.stop().success());
    let held = held_for_clients(&server);
    println!(
        "{} MiB of it for clients, beside the groups and topics that they created",
        held >> 20
    );
    assert!(held < SHARD_MEMORY_MAX, "{held} bytes for clients");
}

/// The peak of the only shard's account in bytes, from its last log line.
fn held_for_clients(server: &Server) -> u64 {
    let line = server.line_with("its clients took at most ");
    let (_, held) = line.split_once("its clients took at most ").unwrap();
    held.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// Waits for `time`, or until the server ends.
fn watch(server: &mut Server, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until && server.status().is_none() {
        thread::sleep(Duration::from_millis(100));
    }
}

/// A control group that contains the server. It is removed when this is dropped.
struct Cell(Option<PathBuf>);

/// The directories of control groups and the files of their limits, for version 2 and version 1.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

impl Cell {
    fn with(pid: u32) -> Self {
        let made = HIERARCHIES.iter().find_map(|(top, limit)| make(Path::new(top), limit, pid));
        if made.is_none() {
            println!("no control group can be made: the high-water mark alone is looked at");
        }
        Self(made)
    }
}

fn make(top: &Path, limit: &str, pid: u32) -> Option<PathBuf> {
    let path = top.join(format!("muster-soak-{pid}"));
    fs::create_dir(&path).ok()?;
    let fill = || {
        // Without the memory controller of control groups the file does not exist, and a write
        // would create an ordinary file.
        fs::metadata(path.join(limit))?;
        fs::write(path.join(limit), MEMORY_MAX.to_string())?;
        fs::write(path.join("cgroup.procs"), pid.to_string())
    };
    if fill().is_err() {
        let _ = fs::remove_dir(&path);
        return None;
    }
    Some(path)
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(_) => write!(f, "a control group of {} MiB", MEMORY_MAX >> 20),
            None => f.write_str("no control group"),
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // The group can be removed once the server has ended. A failed test leaves it behind,
        // empty.
        if let Some(path) = &self.0 {
            let _ = fs::remove_dir(path);
        }
    }
}
