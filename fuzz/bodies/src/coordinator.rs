//! Sequences of requests to a coordinator. In between, time passes, topics are created and deleted,
//! and the coordinator is loaded from the log. Input: a sequence of actions.
//!
//! Properties after each action: the records alone reproduce the durable state; each request has at
//! most one answer, which can be serialized; no answer waits for a position that was never written.

use crate::asks::{Known, TOPICS, ask};
use crate::common::topics::World as Topics;
use crate::common::{CountedIds, RecordBytes, read, record_bytes};
use crate::memory::within;
use crate::replay::bytes;
use arbitrary::{Arbitrary, Result, Unstructured};
use muster_codec::{ApiKey, GroupRequest, Reader, Response, Wall};
use muster_coordinator::{
    Budget, Caller, Config, Context, Coordinator, DeletedTopic, Output, RequestId, Topics as _,
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
    /// A coordinator that only replays the records.
    follower: Coordinator,
    log: Vec<RecordBytes>,
    now: i64,
    position: u64,
    requests: u64,
    /// Unanswered requests: API and version.
    waiting: BTreeMap<u64, Waiting>,
    ids: CountedIds,
    topics: Topics,
    known: Known,
}

impl World {
    fn new() -> Self {
        let mut coordinator = Coordinator::new(config());
        coordinator.loaded(0, Wall(0), &Topics::default());
        let mut world = Self {
            coordinator,
            follower: Coordinator::new(config()),
            log: Vec::new(),
            now: 0,
            position: 0,
            requests: 0,
            waiting: BTreeMap::new(),
            ids: CountedIds::default(),
            topics: Topics::default(),
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

    fn ask(&mut self, api_version: i16, request: GroupRequest<'static>) {
        self.requests += 1;
        let waiting = Waiting { api: request.api_key(), version: api_version };
        self.waiting.insert(self.requests, waiting);
        let id = RequestId { connection: 0, sequence: self.requests };
        let caller = Caller {
            request: id,
            api_version,
            client_id: "c",
            client_host: "/1.2.3.4",
            describes: None,
        };
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

    /// Creates a topic, or adds partitions to it.
    fn make_topic(&mut self, name: &'static str, partitions: i32) {
        if self.topics.id(name).is_some() {
            return self.topics.grow_to(name, partitions);
        }
        self.topics.make(name, partitions);
        self.known.topic_ids.extend(self.topics.id(name));
    }

    fn delete_topic(&mut self, name: &'static str) {
        let Some(id) = self.topics.delete(name) else { return };
        let deleted = [DeletedTopic { name, id, deleted_at: i64::MAX }];
        let output = self.with_context(|it, context| it.topics_deleted(context, &deleted));
        self.settle(output);
    }

    /// Replaces the coordinator by a new one that loads the log. Unanswered requests are lost.
    fn load(&mut self) {
        self.coordinator = Coordinator::new(config());
        for record in &self.log {
            self.coordinator.replay(&read(record), self.position);
        }
        self.coordinator.loaded(self.now, Wall(self.now), &self.topics);
        self.waiting.clear();
        self.check();
    }

    fn settle(&mut self, output: Output<'static>) {
        self.position += u64::from(!output.records.is_empty());
        for record in &output.records {
            let written = record_bytes(record);
            self.coordinator.replay(&read(&written), self.position);
            self.follower.replay(&read(&written), self.position);
            self.log.push(written);
        }
        if !output.records.is_empty() {
            self.check();
        }
        for answer in output.answers {
            let request = answer.request.sequence;
            let asked = self.waiting.remove(&request).expect("one answer to each request");
            assert!(answer.visible_at <= self.position, "an answer that is never sent: {answer:?}");
            asked.check(&answer.response);
            self.known.learn(&answer.response);
        }
    }

    fn check(&self) {
        assert_eq!(
            bytes(&self.coordinator),
            bytes(&self.follower),
            "the records alone make the state"
        );
    }

    fn with_context<T>(&mut self, call: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let (now, position) = (self.now, self.position + 1);
        let mut context = Context {
            now,
            wall: Wall(now),
            position,
            ids: &mut self.ids,
            topics: &self.topics,
            budget: &mut Budget::default(),
        };
        call(&mut self.coordinator, &mut context)
    }
}

fn config() -> Config {
    Config { offsets_retention_ms: 600_000, ..Config::default() }
}

/// A request that waits for its answer.
struct Waiting {
    api: ApiKey,
    version: i16,
}

impl Waiting {
    fn check(&self, response: &Response<'_>) {
        let Self { api, version } = *self;
        assert_eq!(response.api_key(), api);
        let mut written = Vec::new();
        response.write(version, &mut written).unwrap();
        let read = Response::read(api, version, &mut Reader::new(&written));
        assert!(read.is_ok(), "{read:?} of {response:?} v{version}");
    }
}
