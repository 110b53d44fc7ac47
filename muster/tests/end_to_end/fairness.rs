//! A well-behaved group next to a hostile client. The client sends as many requests of each API as
//! it can. It reads the answers byte by byte, in part, or never. No member is removed, and every
//! heartbeat and commit is answered.
//!
//! Latencies are printed but not judged, because they depend on the machine. `MUSTER_FAIRNESS_MS`
//! sets the duration of each attack. `MUSTER_FAIRNESS_ALL=1` tries each API with each way to read.

use crate::support::attacks::dense::Target;
use crate::support::attacks::floods::{Sizes, dense_frames, prepare};
use crate::support::attacks::{Reading, attack};
use crate::support::honest::{Honest, Notes, SESSION};
use crate::support::liveness::assert_alive_in_each_kind;
use crate::support::{Server, variable};
use muster_codec::ApiKey;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MEMBERS: usize = 4;
const SIZES: Sizes = Sizes {
    groups: 10_000,
    offsets: 10_000,
    members: 50,
    client_id_bytes: 2_000,
    partitions: 16,
    record_bytes: 200_000,
};
const CONFIGS: &[&str] = &["group.initial.rebalance.delay.ms=0", "auto.create.topics.enable=false"];

#[test]
fn no_member_is_lost_beside_a_client_that_requests_all_it_can() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start(directory.path(), 1, CONFIGS);
    let target = prepare(&server, SIZES);
    let time = Duration::from_millis(variable("MUSTER_FAIRNESS_MS", 250));
    println!("quiet: {}", undisturbed(beside(&server, time, |_| (0, 0)).0));
    for (api, reading) in attacks() {
        let frames = dense_frames(api, &target);
        let (notes, moved) =
            beside(&server, time, |stop| attack(server.port, &frames, reading, stop));
        let (sent, received) = moved;
        let report = undisturbed(notes);
        println!("{} {reading:?}, {sent} bytes out, {received} back: {report}", api.name());
        assert!(server.status().is_none(), "{} ended the server", api.name());
        assert_alive_in_each_kind(&server);
    }
}

/// Each API with one of the ways to read, or with all ways.
fn attacks() -> Vec<(ApiKey, Reading)> {
    let count = Reading::ALL.len();
    let ways = if variable("MUSTER_FAIRNESS_ALL", 0) > 0 { count } else { 1 };
    let of = |(number, api): (usize, &ApiKey)| {
        let api = *api;
        (0..ways).map(move |way| (api, Reading::ALL[(number + way) % count])).collect::<Vec<_>>()
    };
    ApiKey::ALL.iter().enumerate().flat_map(of).collect()
}

/// Runs an attack next to a well-behaved group. Returns what its members noted from the start of
/// the attack until the attacker had ended, and the result of the attack.
fn beside<T: Send>(
    server: &Server,
    time: Duration,
    attack: impl FnOnce(&AtomicBool) -> T + Send,
) -> (Notes, T) {
    let honest = Honest::start(server, MEMBERS);
    let stop = AtomicBool::default();
    let moved = thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(&stop));
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        attacker.join().unwrap()
    });
    (honest.stop(), moved)
}

fn undisturbed(notes: Notes) -> String {
    assert!(notes.lost.is_empty(), "lost: {:?}", notes.lost);
    assert!(!notes.heartbeats.is_empty());
    notes.report()
}

/// A connection lists the groups that are in a state that no group has. It does so for longer than
/// a session timeout. No other attack lasts as long.
#[test]
fn sessions_outlast_a_client_that_lists_groups_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, CONFIGS);
    let target: Target = prepare(&server, SIZES);
    let frames = dense_frames(ApiKey::ListGroups, &target);
    let started = Instant::now();
    let (notes, _) = beside(&server, SESSION + Duration::from_secs(2), |stop| {
        attack(server.port, &frames, Reading::Always, stop)
    });
    println!("{:.1?}: {}", started.elapsed(), undisturbed(notes));
}
