//! Whole sequences of requests to a coordinator, with time that passes, topics that come and go,
//! and loads from the log in between. Input: a sequence of actions.
//!
//! What must hold after each: the records alone make the state; each request has at most one
//! answer, which can be sent; nothing tells of a position that was never written.

use crate::asks::{Known, TOPICS, ask};
use crate::memory::within;
use crate::replay::{bytes, record_bytes};
use arbitrary::{Arbitrary, Result, Unstructured};
use muster_codec::records::GroupRecord;
use muster_codec::{ApiKey, Reader, Request, Response, Uuid};
use muster_coordinator::{
    Caller, Config, Context, Coordinator, DeletedTopic, Ids, Output, RequestId, Topics,
};
use std::collections::BTreeMap;

const GRANTED_BYTES: usize = 32 << 20;
const ACTIONS_MAX: usize = 200;

pub fn run(input: &[u8]) {
    let mut u = Unstructured::new(input);
    within(GRANTED_BYTES, || {
        let mut world = World::new();
        for _ in 0..ACTIONS_MAX {
            if u.is_empty() || world.act(&mut u).is_err() {
                return;
            }
        }
    });
}

struct World {
    coordinator: Coordinator,
    /// Knows nothing but the records.
    follower: Coordinator,
    log: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    now: i64,
    position: u64,
    requests: u64,
    /// Requests without an answer, and how they are answered.
    waiting: BTreeMap<u64, (ApiKey, i16)>,
    ids: CountedIds,
    topics: Cluster,
    known: Known,
}

impl World {
    fn new() -> Self {
        let mut coordinator = Coordinator::new(config());
        coordinator.loaded(0, &Cluster::default());
        let mut world = Self {
            coordinator,
            follower: Coordinator::new(config()),
            log: Vec::new(),
            now: 0,
            position: 0,
            requests: 0,
            waiting: BTreeMap::new(),
            ids: CountedIds(0),
            topics: Cluster::default(),
            known: Known::default(),
        };
        world.make_topic(TOPICS[0], 4);
        world
    }

    fn act(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        match u.int_in_range(0..=15)? {
            0 => self.advance(i64::from(u16::arbitrary(u)?)),
            1 => self.advance(u.int_in_range(0..=50)? * 60_000),
            2 => self.load(),
            3 => {
                let partitions = u.int_in_range(1..=5)?;
                self.make_topic(u.choose(&TOPICS)?, partitions);
            }
            4 => self.delete_topic(u.choose(&TOPICS)?),
            _ => {
                let (version, request) = ask(u, &self.known)?;
                self.ask(version, request);
                self.advance(0);
            }
        }
        Ok(())
    }

    fn ask(&mut self, api_version: i16, request: Request<'static>) {
        self.requests += 1;
        self.waiting.insert(self.requests, (request.api_key(), api_version));
        let id = RequestId { connection: 0, sequence: self.requests };
        let caller = Caller { request: id, api_version, client_id: "c", client_host: "/1.2.3.4" };
        let output = self.with_context(|it, context| it.handle(context, caller, request));
        self.settle(output);
    }

    fn advance(&mut self, ms: i64) {
        let until = self.now + ms;
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let output = self.with_context(Coordinator::expire);
            self.settle(output);
        }
        self.now = until;
    }

    fn make_topic(&mut self, name: &'static str, partitions: i32) {
        let id = self.ids.next_id();
        if self.topics.make(name, id, partitions) {
            self.known.topic_ids.push(id);
        }
    }

    fn delete_topic(&mut self, name: &'static str) {
        let Some(id) = self.topics.delete(name) else { return };
        let deleted = [DeletedTopic { name, id }];
        let output = self.with_context(|it, context| it.topics_deleted(context, &deleted));
        self.settle(output);
    }

    /// The coordinator is gone, and with it all that it had not answered; another takes the log.
    fn load(&mut self) {
        self.coordinator = Coordinator::new(config());
        for (key, value) in &self.log {
            self.coordinator.replay(&read(key, value.as_deref()), self.position);
        }
        self.coordinator.loaded(self.now, &self.topics);
        self.waiting.clear();
        self.check();
    }

    fn settle(&mut self, output: Output<'static>) {
        self.position += u64::from(!output.records.is_empty());
        for record in &output.records {
            let (key, value) = record_bytes(record);
            self.coordinator.replay(&read(&key, value.as_deref()), self.position);
            self.follower.replay(&read(&key, value.as_deref()), self.position);
            self.log.push((key, value));
        }
        if !output.records.is_empty() {
            self.check();
        }
        for answer in output.answers {
            let request = answer.request.sequence;
            let asked = self.waiting.remove(&request).expect("one answer to each request");
            assert!(answer.visible_at <= self.position, "an answer that never leaves: {answer:?}");
            check_answer(asked, &answer.response);
            self.known.learn(&answer.response);
        }
    }

    fn check(&self) {
        assert_eq!(bytes(&self.coordinator), bytes(&self.follower), "the records tell all");
    }

    fn with_context<T>(&mut self, call: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let (now, position) = (self.now, self.position + 1);
        let mut context = Context { now, position, ids: &mut self.ids, topics: &self.topics };
        call(&mut self.coordinator, &mut context)
    }
}

fn config() -> Config {
    Config { offsets_retention_ms: 600_000, ..Config::default() }
}

fn read<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> GroupRecord<'a> {
    GroupRecord::read(key, value).unwrap().unwrap()
}

fn check_answer((api, version): (ApiKey, i16), response: &Response<'_>) {
    assert_eq!(response.api_key(), api);
    let mut written = Vec::new();
    response.write(version, &mut written).unwrap();
    let read = Response::read(api, version, &mut Reader::new(&written));
    assert!(read.is_ok(), "{read:?} of {response:?} v{version}");
}

/// The topics there are.
#[derive(Default)]
struct Cluster {
    topics: BTreeMap<&'static str, (Uuid, i32)>,
    version: i64,
    version_of_newest: i64,
}

impl Cluster {
    /// Makes a topic, or has it grow; true if it is new.
    fn make(&mut self, name: &'static str, id: Uuid, partitions: i32) -> bool {
        self.version += 1;
        if let Some((_, count)) = self.topics.get_mut(name) {
            *count = partitions.max(*count);
            return false;
        }
        self.version_of_newest = self.version;
        self.topics.insert(name, (id, partitions));
        true
    }

    fn delete(&mut self, name: &str) -> Option<Uuid> {
        let (id, _) = self.topics.remove(name)?;
        self.version += 1;
        Some(id)
    }
}

impl Topics for Cluster {
    fn id(&self, name: &str) -> Option<Uuid> {
        self.topics.get(name).map(|(id, _)| *id)
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|(_, (it, _))| *it == id).map(|(name, _)| *name)
    }

    fn partitions(&self, name: &str) -> Option<i32> {
        self.topics.get(name).map(|(_, partitions)| *partitions)
    }

    fn version(&self) -> i64 {
        self.version
    }

    fn version_of_newest(&self) -> i64 {
        self.version_of_newest
    }

    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
        let names = self.topics.keys().copied();
        let names: Vec<_> = names.filter(|it| name.is_none_or(|name| *it > name)).collect();
        Box::new(names.into_iter())
    }
}

/// Ids that count up.
pub(crate) struct CountedIds(pub(crate) u128);

impl Ids for CountedIds {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid(self.0.to_be_bytes())
    }
}
