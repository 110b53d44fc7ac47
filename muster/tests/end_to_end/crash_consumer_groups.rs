//! kill -9 while members of consumer groups join, send heartbeats, commit, change subscriptions and
//! leave. Each member continues with its epoch, no offset is lost, and no partition has two owners.
//!
//! `MUSTER_KILLS` sets the number of kills (3 by default), `MUSTER_SEED` seeds their times.

use crate::support::consumers::{Group, LONG_SESSIONS, Member, PARTITIONS, TOPICS, settle};
use crate::support::{Random, Server, create_topic, topic_id, variable};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SHARDS: u16 = 2;
const GROUPS: usize = 4;
const MEMBERS: usize = 3;

#[test]
fn members_keep_their_epochs_after_kill_9() {
    let kills: u64 = variable("MUSTER_KILLS", 3);
    let seed = variable("MUSTER_SEED", u64::from(std::process::id()));
    println!("MUSTER_SEED={seed} MUSTER_KILLS={kills}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let at_once = ["group.consumer.assignment.interval.ms=0"];
    let configs = [&at_once[..], &LONG_SESSIONS].concat();
    let mut server = Server::start(directory.path(), SHARDS, &configs);
    TOPICS.iter().for_each(|topic| create_topic(&server, topic, PARTITIONS));
    let topics = Arc::new(TOPICS.map(|topic| topic_id(&mut server.client(0), topic)));
    let groups: Vec<_> = (0..GROUPS).map(|i| Arc::new(Group::new(i, topics.clone()))).collect();
    let mut members: Vec<_> = (0..GROUPS * MEMBERS)
        .map(|i| Member::new(&groups[i / MEMBERS], i % MEMBERS, random.next()))
        .collect();
    for kill in 0..kills {
        println!("kill {kill}");
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = members.into_iter().map(|it| it.start(&server, &stop)).collect();
        std::thread::sleep(Duration::from_millis(random.next() % 150));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        members = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        server = server.restart();
        groups.iter().for_each(|group| group.check(&server, &members));
        settle(&server, &groups, &mut members);
        let before: Vec<_> = groups.iter().map(|group| group.describe(&server)).collect();
        server.kill();
        server = server.restart();
        let after: Vec<_> = groups.iter().map(|group| group.describe(&server)).collect();
        assert_eq!(before, after, "the kill changed nothing");
        members.iter_mut().for_each(|member| member.expect_no_change(&server));
    }
    let commits: i64 = groups.iter().map(|group| group.commits()).sum();
    let epochs: i32 = groups.iter().map(|group| group.reported().epoch).sum();
    println!("{commits} acknowledged commits and {epochs} epochs survived {kills} kills");
    assert!(commits > 0 && epochs > 0, "the load was served");
}
