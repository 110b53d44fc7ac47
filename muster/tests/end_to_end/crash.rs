//! kill -9 at random times under load. Afterwards no acknowledged data are missing or duplicated,
//! and groups continue.
//!
//! `MUSTER_KILLS` sets the number of kills (3 by default), `MUSTER_SEED` seeds their times.

use crate::support::workers::{TOPIC, WORKERS, Worker, start_workers};
use crate::support::{Random, Server, create_topic, variable};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

const SHARDS: u16 = 2;

#[test]
pub fn acknowledged_data_survives_kill_9() {
    let kills: u64 = variable("MUSTER_KILLS", 3);
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    println!("MUSTER_SEED={seed} MUSTER_KILLS={kills}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let mut server =
        Server::start(directory.path(), SHARDS, &["group.initial.rebalance.delay.ms=0"]);
    create_topic(&server, TOPIC, WORKERS as i32);
    let workers: Vec<_> = (0..WORKERS).map(|index| Arc::new(Worker::new(&server, index))).collect();
    for kill in 0..kills {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = start_workers(&server, &workers, &stop);
        std::thread::sleep(Duration::from_millis(random.next() % 150));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        server = server.restart();
        workers.iter().for_each(|worker| worker.check(&server, kill));
    }
    let total = |count: fn(&Worker) -> &AtomicI64| -> i64 {
        workers.iter().map(|worker| count(worker).load(Ordering::Relaxed)).sum()
    };
    let (commits, records) = (total(|it| &it.committed), total(|it| &it.produced));
    println!("{commits} acknowledged commits and {records} records survived {kills} kills");
    assert!(commits > 0 && records > 0, "the load was served");
}
