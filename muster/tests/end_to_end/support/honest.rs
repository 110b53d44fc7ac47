//! Well-behaved members. They send heartbeats and commits, measure the latencies, and note every
//! error.

use super::offsets::commit_request;
use super::{Client, Server, create_topic, knows_topic};
use muster_codec::Response;
use muster_codec::messages::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The topic of the offsets that the members commit.
const TOPIC: &str = "honest";

/// The minimum session timeout that a server permits by default.
pub const SESSION: Duration = Duration::from_secs(6);
const INTERVAL: Duration = Duration::from_millis(100);
const HEARTBEATS_TO_A_COMMIT: u32 = 2;

/// Running members, each on its own connection and thread.
pub struct Honest {
    stop: Arc<AtomicBool>,
    members: Vec<JoinHandle<Notes>>,
}

/// The notes of a member, or of all members together.
#[derive(Debug, Default)]
pub struct Notes {
    pub heartbeats: Vec<Duration>,
    pub commits: Vec<Duration>,
    /// The errors that members got, by API.
    pub lost: Vec<String>,
}

impl Honest {
    /// Starts members. Each is alone in its group, because a rebalance could hide that one was
    /// lost.
    pub fn start(server: &Server, members: usize) -> Self {
        if !knows_topic(&mut server.client(0), TOPIC) {
            create_topic(server, TOPIC, 1);
        }
        // Groups need new names: members of an earlier call stay in theirs until their sessions
        // expire.
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let first = STARTED.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::<AtomicBool>::default();
        let start = |number: usize| {
            let mut member = Member::join(server, &format!("honest-{first}-{number}"));
            let stop = stop.clone();
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) && member.notes.lost.is_empty() {
                    member.step();
                    thread::sleep(INTERVAL);
                }
                member.notes
            })
        };
        let members = (0..members).map(start).collect();
        Self { stop, members }
    }

    pub fn stop(self) -> Notes {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Notes::default();
        for member in self.members {
            let notes = member.join().unwrap();
            all.heartbeats.extend(notes.heartbeats);
            all.commits.extend(notes.commits);
            all.lost.extend(notes.lost);
        }
        all
    }
}

impl Notes {
    /// Latencies of heartbeats and of commits: count, median, 99th percentile and maximum.
    pub fn report(&self) -> String {
        let of = |name: &str, times: &[Duration]| {
            let mut times = times.to_vec();
            times.sort();
            let at = |share: f64| {
                let place = (times.len() as f64 * share) as usize;
                times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
            };
            let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
            format!("{} {name}: p50 {p50:.1?}, p99 {p99:.1?}, max {max:.1?}", times.len())
        };
        format!("{}; {}", of("heartbeats", &self.heartbeats), of("commits", &self.commits))
    }
}

struct Member {
    client: Client,
    group: String,
    member_id: String,
    generation_id: i32,
    turn: u32,
    notes: Notes,
}

impl Member {
    fn join(server: &Server, group: &str) -> Self {
        let mut client = server.coordinator(group);
        let protocols =
            vec![JoinGroupRequestProtocol { name: "range".into(), ..Default::default() }];
        let request = JoinGroupRequest {
            group_id: group.to_owned().into(),
            session_timeout_ms: SESSION.as_millis() as i32,
            rebalance_timeout_ms: SESSION.as_millis() as i32,
            protocol_type: "test".into(),
            protocols,
            ..Default::default()
        };
        let response = client.call(3, request.into());
        let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
        assert_eq!(joined.error_code, 0);
        let (member_id, generation_id) = (joined.member_id.to_string(), joined.generation_id);
        let request = SyncGroupRequest {
            group_id: group.to_owned().into(),
            generation_id,
            member_id: member_id.clone().into(),
            ..Default::default()
        };
        let response = client.call(3, request.into());
        let Response::SyncGroup(synced) = response else { panic!("{response:?}") };
        assert_eq!(synced.error_code, 0);
        let group = group.to_owned();
        Self { client, group, member_id, generation_id, turn: 0, notes: Notes::default() }
    }

    fn step(&mut self) {
        self.turn += 1;
        self.heartbeat();
        if self.turn.is_multiple_of(HEARTBEATS_TO_A_COMMIT) {
            self.commit();
        }
    }

    fn heartbeat(&mut self) {
        let request = HeartbeatRequest {
            group_id: self.group.clone().into(),
            generation_id: self.generation_id,
            member_id: self.member_id.clone().into(),
            ..Default::default()
        };
        let started = Instant::now();
        match self.client.try_call(3, request.into()) {
            Some(Response::Heartbeat(body)) if body.error_code == 0 => {
                self.notes.heartbeats.push(started.elapsed());
            }
            other => self.notes.lost.push(format!("{}: {other:?}", self.group)),
        }
    }

    fn commit(&mut self) {
        let request = OffsetCommitRequest {
            generation_id_or_member_epoch: self.generation_id,
            member_id: self.member_id.clone().into(),
            ..commit_request(&self.group, TOPIC, [0], i64::from(self.turn), "")
        };
        let started = Instant::now();
        match self.client.try_call(7, request.into()) {
            Some(Response::OffsetCommit(body)) if body.topics[0].partitions[0].error_code == 0 => {
                self.notes.commits.push(started.elapsed());
            }
            other => self.notes.lost.push(format!("{}: {other:?}", self.group)),
        }
    }
}
