//! A power loss under load. The server has an ext4 file system of its own, on a disk that loses
//! unflushed data at random. Afterwards all acknowledged data must be there.
//!
//! `MUSTER_POWER_LOSSES` sets the number of losses (2 by default), `MUSTER_SEED` seeds their times.
//! Without FUSE, loop devices or root, the test is skipped.

use crate::support::mixed::{CONFIGS, Interrupted, Mixed};
use crate::support::power::PowerSupply;
use crate::support::{Random, Server, variable};
use std::time::{Duration, Instant};

const SHARDS: u16 = 2;
const DISK_BYTES: u64 = 2 << 30;

#[test]
pub fn no_acknowledged_data_is_lost_with_the_power() {
    let losses: u64 = variable("MUSTER_POWER_LOSSES", 2);
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    let mut power = match PowerSupply::new(DISK_BYTES) {
        Ok(power) => power,
        Err(missing) => return test_skips::skip(missing),
    };
    println!("MUSTER_SEED={seed} MUSTER_POWER_LOSSES={losses}");
    let mut random = Random(seed);
    let started = Instant::now();
    // Kafka and muster by default acknowledge records of user topics before they are flushed.
    // This config has them flushed before.
    let configs = [CONFIGS, &["log.flush.interval.messages=1"]].concat();
    let mut server = Server::start(&power.path().join("data"), SHARDS, &configs);
    let mut mixed = Mixed::new(&server, &mut random);
    let (mut unflushed, mut lost) = (0, 0);
    let mut interrupted = Interrupted::default();
    for loss in 0..losses {
        let running = mixed.start(&server);
        std::thread::sleep(Duration::from_millis(random.next() % 1_000));
        let (sectors, gone) = power.cut(&mut random);
        server.kill();
        mixed = running.stop();
        (unflushed, lost) = (unflushed + sectors, lost + gone);
        power.restore();
        interrupted.count(&power.path().join("data"), SHARDS);
        server = server.restart();
        mixed.check(&server, loss);
    }
    println!(
        "survived {losses} power losses in {} s, which took {lost} of {unflushed} unflushed \
         sectors, {interrupted:?}: {}",
        started.elapsed().as_secs(),
        mixed.summary()
    );
    assert!(losses < 20 || lost > 0, "no power loss had an effect");
}
