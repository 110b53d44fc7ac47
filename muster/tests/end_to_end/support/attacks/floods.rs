//! All attacks: those that repeat dense requests, and others that are only in this file. It also
//! creates the groups and topics that the requests name.

use super::dense::{Form, Target, request};
use super::{Reading, attack, frame_of};
use crate::support::offsets::commit_request;
use crate::support::{Client, Server, create_topic, produce_to, topic_id};
use muster_codec::messages::*;
use muster_codec::{ApiKey, Request};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);
const OFFSETS_PER_COMMIT: usize = 5_000;
const COMMITS_IN_FLIGHT: usize = 500;

/// The amount of state.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// The number of groups with one offset.
    pub groups: usize,
    /// The number of offsets in one group, one for each partition of a separate topic.
    pub offsets: usize,
    /// The number of members in one group.
    pub members: usize,
    /// The length of the client ids of these members, in bytes.
    pub client_id_bytes: usize,
    /// The number of partitions of the topic with records.
    pub partitions: i32,
    /// The size of the one record in each of these partitions.
    pub record_bytes: usize,
}

/// Creates state of these sizes on a server with one shard.
pub fn prepare(server: &Server, sizes: Sizes) -> Target {
    create_topic(server, "wide", sizes.partitions);
    create_topic(server, "many", sizes.offsets as i32);
    let mut client = server.client(0);
    let record = vec![7; sizes.record_bytes];
    for partition in 0..sizes.partitions {
        produce_to(&mut client, "wide", partition, &record).unwrap();
    }
    commit_all(&mut client, sizes);
    join_all(server, sizes);
    Target {
        group: "offsets".to_owned(),
        classic: "crowd".to_owned(),
        consumer: "consumers".to_owned(),
        topic: "wide".to_owned(),
        topic_id: topic_id(&mut client, "wide"),
        partitions: sizes.partitions,
    }
}

fn commit_all(client: &mut Client, sizes: Sizes) {
    let of_group = |number| commit_request(&format!("g{number}"), "wide", [0], 1, "").into();
    let groups: Vec<Request<'_>> = (0..sizes.groups).map(of_group).collect();
    let of_offsets = |first: usize| {
        let until = (first + OFFSETS_PER_COMMIT).min(sizes.offsets);
        commit_request("offsets", "many", first as i32..until as i32, 1, "").into()
    };
    let offsets = (0..sizes.offsets).step_by(OFFSETS_PER_COMMIT).map(of_offsets);
    let commits: Vec<Request<'_>> = groups.into_iter().chain(offsets).collect();
    for some in commits.chunks(COMMITS_IN_FLIGHT) {
        let ids: Vec<_> = some.iter().map(|it| client.send(8, it).unwrap()).collect();
        for id in ids {
            client.receive(ApiKey::OffsetCommit, 8, id).unwrap();
        }
    }
}

/// Joins many members to a classic group that stays in its join phase, and to a consumer group. The
/// connection of the classic members stays open until the test process ends.
fn join_all(server: &Server, sizes: Sizes) {
    let client_id = "c".repeat(sizes.client_id_bytes);
    let join = JoinGroupRequest {
        group_id: "crowd".into(),
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        protocol_type: "test".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), ..Default::default() }],
        ..Default::default()
    };
    let frame = frame_of(&client_id, 3, &join.into());
    let mut waiting = server.client(0);
    (0..sizes.members).for_each(|_| waiting.send_raw(&frame));
    for number in 0..sizes.members {
        let heartbeat = ConsumerGroupHeartbeatRequest {
            group_id: "consumers".into(),
            member_id: format!("{number}-{client_id}").into(),
            rebalance_timeout_ms: 1_800_000,
            subscribed_topic_names: Some(vec!["wide".into()]),
            topic_partitions: Some(Vec::new()),
            ..Default::default()
        };
        server.client(0).call(0, heartbeat.into());
    }
    std::mem::forget(waiting);
}

/// The name of an attack, and the function that performs it. It ends at the latest when it is
/// stopped.
pub type Flood = (&'static str, Box<dyn Fn(u16, &AtomicBool) + Send + Sync>);

/// All attacks: each API in its densest forms, and other abuse.
pub fn all(target: &Target) -> Vec<Flood> {
    let mut floods: Vec<Flood> = vec![
        ("lines of the log", Box::new(http)),
        ("unfinished frames", Box::new(unfinished)),
        ("new groups", Box::new(new_groups)),
        ("new topics", Box::new(new_topics)),
        ("large joins", Box::new(large_joins)),
    ];
    let fetched = target.clone();
    floods.push(("unread fetches", Box::new(move |p, s| unread(p, &fetched, s))));
    let parked = target.clone();
    floods.push(("parked fetches", Box::new(move |p, s| parked_fetches(p, &parked, s))));
    for (number, api) in ApiKey::ALL.iter().enumerate() {
        let reading = Reading::ALL[number % Reading::ALL.len()];
        let frames = dense_frames(*api, target);
        let run = move |port, stop: &AtomicBool| {
            attack(port, &frames, reading, stop);
        };
        floods.push((api.name(), Box::new(run)));
    }
    floods
}

/// The densest requests of an API, in its newest and in its oldest version.
pub fn dense_frames(api: ApiKey, target: &Target) -> Vec<u8> {
    let forms = [Form::Repeated(200), Form::Distinct(1_000), Form::All];
    let versions = [*api.versions().end(), *api.versions().start()];
    let of = |version| forms.map(|form| frame_of("hostile", version, &request(api, form, target)));
    versions.into_iter().flat_map(of).flatten().collect()
}

fn http(port: u16, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: muster\r\n\r\n");
        }
        // Limits the number of local ports in use. After a connection is closed, its port stays
        // reserved for a minute.
        thread::sleep(Duration::from_millis(2));
    }
}

/// Connections that send most of a frame, and then wait.
fn unfinished(port: u16, stop: &AtomicBool) {
    const CONNECTIONS: usize = 50;
    const FRAME_BYTES: u32 = 99 << 20;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { break };
        let _ = stream.write_all(&FRAME_BYTES.to_be_bytes());
        let _ = stream.write_all(&[0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff]);
        stream.set_nonblocking(true).unwrap();
        streams.push((stream, 0));
    }
    let piece = vec![0; 1 << 20];
    while !stop.load(Ordering::Relaxed) {
        for (stream, sent) in &mut streams {
            if *sent + (piece.len() as u32) < FRAME_BYTES {
                *sent += stream.write(&piece).unwrap_or(0) as u32;
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A fetch of all partitions with the defaults of Java's consumer.
fn fetch_all(target: &Target, max_wait_ms: i32, min_bytes: i32) -> Request<'static> {
    let of = |partition| FetchPartition {
        partition,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let topics = vec![FetchTopic {
        topic: target.topic.clone().into(),
        partitions: (0..target.partitions).map(of).collect(),
        ..Default::default()
    }];
    FetchRequest { max_wait_ms, min_bytes, max_bytes: 50 << 20, topics, ..Default::default() }
        .into()
}

fn hold(port: u16, connections: usize, frame: &[u8], stop: &AtomicBool) {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { break };
        let _ = stream.write_all(frame);
        streams.push(stream);
    }
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(PAUSE);
    }
}

fn unread(port: u16, target: &Target, stop: &AtomicBool) {
    const CONNECTIONS: usize = 100;
    hold(port, CONNECTIONS, &frame_of("deaf", 4, &fetch_all(target, 0, 0)), stop);
}

fn parked_fetches(port: u16, target: &Target, stop: &AtomicBool) {
    const CONNECTIONS: usize = 200;
    hold(port, CONNECTIONS, &frame_of("parked", 4, &fetch_all(target, i32::MAX, i32::MAX)), stop);
}

fn new_groups(port: u16, stop: &AtomicBool) {
    let frames = |from: usize| -> Vec<u8> {
        let one = |number| {
            let commit = commit_request(&format!("new-{number}"), "wide", [0], 1, "");
            frame_of("founder", 8, &commit.into())
        };
        (from..from + 200).flat_map(one).collect()
    };
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let _ = stream.write_all(&frames(round * 200));
            thread::sleep(PAUSE);
        }
    }
}

fn new_topics(port: u16, stop: &AtomicBool) {
    const TOPICS: usize = 2_000;
    for first in (0..TOPICS).step_by(20) {
        let one = |number| MetadataRequestTopic {
            name: Some(format!("new-{number}").into()),
            ..Default::default()
        };
        let topics = Some((first..first + 20).map(one).collect());
        let request = MetadataRequest { topics, ..Default::default() };
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let _ = stream.write_all(&frame_of("founder", 9, &request.into()));
            thread::sleep(PAUSE);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Sends joins of members with large metadata. Closes each connection while its member waits for
/// its group.
fn large_joins(port: u16, stop: &AtomicBool) {
    const JOINS: usize = 2_000;
    for number in 0..JOINS {
        let protocol =
            JoinGroupRequestProtocol { name: "range".into(), metadata: vec![7; 1_000_000].into() };
        let join = JoinGroupRequest {
            group_id: format!("large-{}", number % 100).into(),
            session_timeout_ms: 1_800_000,
            rebalance_timeout_ms: 1_800_000,
            protocol_type: "test".into(),
            protocols: vec![protocol],
            ..Default::default()
        };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
            let _ = stream.write_all(&frame_of("large", 3, &join.into()));
            thread::sleep(PAUSE);
        }
    }
}
