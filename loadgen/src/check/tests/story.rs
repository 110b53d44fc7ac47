//! Histories as compact text: one event per line, times in milliseconds.
//!
//! ```text
//! consumer session=1000 rebalance=5000 partitions=2
//! 10 m0 assigned 1 : 0 1          partitions of topic 0
//! 20 m0 commit 7 1 : 0=5 1=6      id, epoch : partition=offset
//! 30 obs read 25 : 0=5            sent : partition=offset
//! ```

use std::sync::Arc;
use std::time::Duration;

use crate::check::{Checker, Found};
use crate::event::{Event, EventKind, OBSERVER, Stop};
use crate::history::{Group, Kind};
use crate::plan::{GroupIndex, MemberIndex, Partition, TopicIndex};
use crate::time::Time;

/// The rules that a story breaks, in the order in which the checker finds them.
pub(super) fn broken(story: &str) -> Vec<String> {
    rules(&check(story))
}

pub(super) fn check(story: &str) -> Found {
    let mut lines = story.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut checker = Checker::default();
    checker.expect_group(group(lines.next().unwrap()));
    for line in lines {
        match line.split_once(' ') {
            Some((at, "restarted")) => checker.coordinator_restarted(time(at)),
            _ => checker.observe(&event(line)),
        }
    }
    checker.finish()
}

pub(super) fn rules(found: &Found) -> Vec<String> {
    assert_eq!(found.omitted, 0);
    found.violations.iter().map(|violation| violation.rule.clone()).collect()
}

fn group(line: &str) -> Group {
    let mut words = line.split_whitespace();
    let protocol = match words.next().unwrap() {
        "classic" => Kind::Classic,
        "consumer" => Kind::Consumer,
        "manual" => Kind::Manual,
        "streams" => Kind::Streams,
        "migrating" => Kind::Migrating,
        other => panic!("protocol {other}"),
    };
    let values: Vec<u64> =
        words.map(|word| word.split_once('=').unwrap().1.parse().unwrap()).collect();
    Group {
        index: GroupIndex(0),
        id: "g".into(),
        protocol,
        session_timeout: Duration::from_millis(values[0]),
        rebalance_timeout: Duration::from_millis(values[1]),
        partitions: values[2] as u32,
        clock_error: Duration::from_millis(values.get(3).copied().unwrap_or_default()),
        delivery_limit: 0,
    }
}

fn event(line: &str) -> Event {
    let (head, list) = line.split_once(':').unwrap_or((line, ""));
    let words: Vec<&str> = head.split_whitespace().collect();
    let number = |at: usize| -> i64 { words[at].parse().unwrap_or_else(|_| panic!("{line}")) };
    let member = match words[1] {
        "obs" => OBSERVER,
        name => MemberIndex(name[1..].parse().unwrap()),
    };
    let list: Vec<&str> = list.split_whitespace().collect();
    let partitions = || list.iter().map(|word| partition(word)).collect();
    let pairs = || -> Vec<(Partition, i64)> {
        let pairs = list.iter().map(|pair| pair.split_once('=').unwrap());
        pairs.map(|(p, value)| (partition(p), value.parse().unwrap())).collect()
    };
    let kind = match words[2] {
        "started" => EventKind::Started,
        "joining" => EventKind::Joining,
        "joined" => EventKind::Joined { member_id: "id".into(), epoch: number(3) as i32 },
        "alive" => EventKind::Alive { sent: time(words[3]), epoch: number(4) as i32 },
        "assigned" => EventKind::Assigned { epoch: number(3) as i32, partitions: partitions() },
        "must-rebalance" => EventKind::MustRebalance { sent: time(words[3]) },
        "revoked" => EventKind::Revoked { partitions: partitions() },
        "lost" => EventKind::Lost { partitions: partitions() },
        "process" => EventKind::InProcess { process: number(3) as u32 },
        "standbys" => EventKind::Standbys { epoch: number(3) as i32, partitions: partitions() },
        "settled" => EventKind::Settled { epoch: number(3) as i32 },
        "fenced" => EventKind::Fenced { error: number(3) as i16 },
        "crashed" => EventKind::Stopped { how: Stop::Crash },
        "closed" => EventKind::Stopped { how: Stop::Close },
        "left" => EventKind::Stopped { how: Stop::Leave },
        "commit" => EventKind::CommitSent {
            id: number(3) as u32,
            epoch: number(4) as i32,
            offsets: Arc::from(pairs()),
        },
        "answered" => EventKind::CommitAnswered {
            id: number(3) as u32,
            refused: pairs().iter().map(|(p, error)| (*p, *error as i16)).collect(),
        },
        "unknown" => EventKind::CommitUnknown { id: number(3) as u32 },
        "read" => EventKind::Fetched { sent: time(words[3]), offsets: Arc::from(pairs()) },
        "disconnected" => EventKind::Disconnected,
        "refused" => EventKind::Refused { api: number(3) as i16, error: number(4) as i16 },
        "deleted" => EventKind::GroupDeleted { sent: time(words[3]) },
        "differed" => EventKind::RepeatDiffered {
            api: number(3) as i16,
            first: "one".into(),
            second: "other".into(),
        },
        "client" => EventKind::ClientStarted { name: words[3].into() },
        "client-assigned" => EventKind::ClientAssigned { partitions: partitions() },
        "client-revoked" => EventKind::ClientRevoked { partitions: partitions() },
        "client-lost" => EventKind::ClientLost { partitions: partitions() },
        "client-alive" => EventKind::ClientAlive,
        "client-ended" => EventKind::ClientEnded { how: "exit status 0".into() },
        other => panic!("event {other}"),
    };
    Event { at: time(words[0]), group: GroupIndex(0), member, kind }
}

fn partition(word: &str) -> Partition {
    Partition { topic: TopicIndex(0), number: word.parse().unwrap() }
}

fn time(word: &str) -> Time {
    Time::from_micros(word.parse::<u64>().unwrap() * 1000)
}
