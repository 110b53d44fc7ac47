//! A file system that fills up under load, while segments, compacted segments and snapshots are
//! written. The server ends with a message, or skips work that is not essential. Once space is free
//! again, it has all acknowledged data.
//!
//! `MUSTER_FULL_DISKS` sets the number of rounds (3 by default), `MUSTER_SEED` seeds the amounts of
//! free space. If the machine cannot mount file systems, the test is skipped.

use crate::support::mixed::{CONFIGS, Interrupted, Mixed};
use crate::support::power::PowerSupply;
use crate::support::{Random, Server, variable};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SHARDS: u16 = 2;
const DISK_BYTES: u64 = 512 << 20;

/// The maximum space that is left free: less than a segment.
const FREE_BYTES_MAX: u64 = 2 << 20;

/// The minimum free space between two rounds.
const ROOM_BYTES: u64 = 128 << 20;

/// Limits the load's own disk usage, so that it does not fill the disk even in a long round.
const RETENTION: &[&str] = &[
    // The reserve is off, so that produces fill the disk, too.
    "disk.reserve.bytes=0",
    "log.segment.bytes=1048576",
    "log.retention.bytes=4194304",
    "log.retention.check.interval.ms=200",
];

/// How long a server with enough space runs before it is killed.
const PATIENCE: Duration = Duration::from_secs(4);

#[test]
fn nothing_that_was_acknowledged_is_lost_on_a_full_disk() {
    let rounds: u64 = variable("MUSTER_FULL_DISKS", 3);
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    let volume = match PowerSupply::new(DISK_BYTES) {
        Ok(volume) => volume,
        Err(missing) => return test_skips::skip(missing),
    };
    println!("MUSTER_SEED={seed} MUSTER_FULL_DISKS={rounds}");
    let mut random = Random(seed);
    let (data, filler) = (volume.path().join("data"), volume.path().join("filler"));
    let mut server = Server::start(&data, SHARDS, &[CONFIGS, RETENTION].concat());
    let mut mixed = Mixed::new(&server, &mut random);
    let (mut ended, mut interrupted) = (0, Interrupted::default());
    for round in 0..rounds {
        let running = mixed.start(&server);
        std::thread::sleep(Duration::from_millis(random.next() % 300));
        fill(volume.path(), &filler, random.next() % FREE_BYTES_MAX);
        ended += u64::from(ends_by_itself(&mut server));
        mixed = running.stop();
        interrupted.count(&data, SHARDS);
        std::fs::remove_file(&filler).unwrap();
        assert!(available(volume.path()) >= ROOM_BYTES, "the load has filled the disk");
        server = server.restart();
        mixed.check(&server, round);
    }
    println!(
        "survived {rounds} full disks, of which {ended} ended the server, {interrupted:?}: {}",
        mixed.summary()
    );
    assert!(rounds < 3 || ended > 0, "no disk was full");
}

/// Fills the file system until about `free` bytes are left.
fn fill(volume: &Path, filler: &Path, free: u64) {
    let length = available(volume).saturating_sub(free).max(1).to_string();
    // The server may take space meanwhile. Then the length is too large, and the file takes all
    // that is left.
    let _ = Command::new("fallocate").args(["-l", &length]).arg(filler).output().unwrap();
    assert!(filler.exists());
}

fn available(volume: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(volume).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().trim().parse().unwrap()
}

/// Returns whether the server ended by itself, which it must do with a message. Kills it if it runs
/// for too long.
fn ends_by_itself(server: &mut Server) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = server.status() {
            assert_eq!(status.code(), Some(1));
            server.says("could not");
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    server.kill();
    false
}
