//! A coordinator with the parts of a server: clock, log, ids and topics. After each call it checks
//! that the records of the log produce all durable state.

use crate::common::topics::World;
use crate::common::{CountedIds, RecordBytes, bytes, read};
use crate::witness::Witness;
use muster_codec::{GroupRequest, Response, Wall};
use muster_coordinator::{
    Answer, Caller, Config, Context, Coordinator, DeletedTopic, Output, RequestId,
};
use std::collections::{BTreeMap, BTreeSet};

pub struct Shard {
    config: Config,
    coordinator: Coordinator,
    /// A coordinator that gets only the records.
    follower: Coordinator,
    pub now: i64,
    position: u64,
    requests: u64,
    ids: CountedIds,
    pub topics: World,
    pub log: Vec<RecordBytes>,
    pub witness: Witness,
    /// Requests without an answer.
    pub waiting: BTreeSet<u64>,
    answers: BTreeMap<u64, Response<'static>>,
    /// All outputs of the coordinator, as text.
    pub outputs: Vec<String>,
}

impl Shard {
    pub fn new(config: Config) -> Self {
        let mut coordinator = Coordinator::new(config.clone());
        coordinator.loaded(0, Wall(0), &World::default());
        Self {
            follower: Coordinator::new(config.clone()),
            config,
            coordinator,
            now: 0,
            position: 0,
            requests: 0,
            ids: CountedIds::default(),
            topics: World::default(),
            log: Vec::new(),
            witness: Witness::default(),
            waiting: BTreeSet::new(),
            answers: BTreeMap::new(),
            outputs: Vec::new(),
        }
    }

    /// Sends a request. Returns its number, for [`Self::answer_to`].
    pub fn ask(&mut self, api_version: i16, request: impl Into<GroupRequest<'static>>) -> u64 {
        self.requests += 1;
        let id = RequestId { connection: 0, sequence: self.requests };
        self.waiting.insert(id.sequence);
        let caller = Caller {
            request: id,
            api_version,
            client_id: "c",
            client_host: "/1.2.3.4",
            describes: None,
        };
        let output = self.with_context(|it, context| it.handle(context, caller, request.into()));
        let waits = |answer: &Answer<'_>| answer.visible_at == self.position + 1;
        assert!(output.records.is_empty() || output.answers.iter().all(waits), "{output:?}");
        self.settle(output);
        self.advance(0);
        id.sequence
    }

    /// Takes the answer to a request.
    pub fn answer_to(&mut self, request: u64) -> Option<Response<'static>> {
        self.answers.remove(&request)
    }

    pub fn advance(&mut self, ms: i64) {
        let until = self.now + ms;
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            let output = self.with_context(Coordinator::expire);
            self.settle(output);
        }
        self.now = until;
    }

    pub fn delete_topic(&mut self, name: &str) {
        let Some(id) = self.topics.delete(name) else { return };
        let deleted = [DeletedTopic { name, id, deleted_at: i64::MAX }];
        let output = self.with_context(|it, context| it.topics_deleted(context, &deleted));
        self.settle(output);
    }

    /// Replaces the coordinator by one that reads the log. Unanswered requests are lost.
    pub fn load(&mut self) {
        self.coordinator = Coordinator::new(self.config.clone());
        for record in &self.log {
            self.coordinator.replay(&read(record), self.position);
        }
        self.coordinator.loaded(self.now, Wall(self.now), &self.topics);
        self.waiting.clear();
        self.answers.clear();
    }

    pub fn durable(&self) -> Vec<RecordBytes> {
        bytes(&self.coordinator.durable_records())
    }

    /// The durable state that `log` produces.
    pub fn replayed(&self, log: &[RecordBytes]) -> Vec<RecordBytes> {
        let mut coordinator = Coordinator::new(self.config.clone());
        log.iter().for_each(|record| coordinator.replay(&read(record), self.position));
        coordinator.loaded(self.now, Wall(self.now), &self.topics);
        bytes(&coordinator.durable_records())
    }

    fn settle(&mut self, output: Output<'static>) {
        self.outputs.push(format!("{output:?}"));
        self.position += u64::from(!output.records.is_empty());
        self.witness.observe(&output.records);
        for record in &output.records {
            let written = bytes(std::slice::from_ref(record)).remove(0);
            self.coordinator.replay(&read(&written), self.position);
            self.follower.replay(&read(&written), self.position);
            self.log.push(written);
        }
        for answer in output.answers {
            let request = answer.request.sequence;
            assert!(self.waiting.remove(&request), "one answer each: {answer:?}");
            assert!(answer.visible_at <= self.position, "an answer that is never sent: {answer:?}");
            self.answers.insert(request, answer.response);
        }
        self.check();
    }

    /// Only records may have changed durable state, and the gauges must equal a recount.
    fn check(&self) {
        for counts in [self.coordinator.counts(), self.follower.counts()] {
            assert_eq!(counts.gauges, counts.recounted);
        }
        assert_eq!(
            self.durable(),
            bytes(&self.follower.durable_records()),
            "the records are complete"
        );
    }

    fn with_context<T>(&mut self, call: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let at = (self.now, self.position + 1);
        crate::common::call(&mut self.coordinator, at, &mut self.ids, &self.topics, call)
    }
}
