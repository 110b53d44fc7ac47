//! kill -9 under all kinds of load at once, while the log is compacted. No acknowledged commit,
//! group, topic or record is lost, and no partition has two owners.
//!
//! `MUSTER_KILLS` sets the number of kills (3 by default), `MUSTER_SEED` seeds their times.

use crate::support::mixed::{CONFIGS, Interrupted, Mixed};
use crate::support::{Random, Server, variable};
use std::time::{Duration, Instant};

const SHARDS: u16 = 2;

#[test]
fn nothing_that_was_acknowledged_is_lost_by_kill_9_under_mixed_load() {
    let kills: u64 = variable("MUSTER_KILLS", 3);
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    println!("MUSTER_SEED={seed} MUSTER_KILLS={kills}");
    let mut random = Random(seed);
    let started = Instant::now();
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), SHARDS, CONFIGS);
    let mut mixed = Mixed::new(&server, &mut random);
    let mut interrupted = Interrupted::default();
    for kill in 0..kills {
        let running = mixed.start(&server);
        std::thread::sleep(Duration::from_millis(random.next() % 400));
        server.kill();
        mixed = running.stop();
        interrupted.count(directory.path(), SHARDS);
        server = server.restart();
        mixed.check(&server, kill);
    }
    println!(
        "survived {kills} kills in {} s, {interrupted:?}: {}",
        started.elapsed().as_secs(),
        mixed.summary()
    );
}
