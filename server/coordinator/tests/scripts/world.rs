//! A coordinator with the parts of a server: clock, topics and log.

use crate::common::CountedIds;
use crate::coverage::Coverage;
use crate::event::Line;
use crate::ids::short;
use crate::print;
use muster_codec::messages::{DescribeGroupsRequest, TxnOffsetCommitRequest};
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::GroupRecord;
use muster_codec::{ErrorCode, GroupRequest, Reader, Request, Response, Uuid, Wall};
use muster_coordinator::{
    Answer, Budget, Caller, Config, Context, Coordinator, DeletedTopic, MigrationPolicy, Output,
    Producer, RequestId, Topics,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct World {
    config: Config,
    coordinator: Option<Coordinator>,
    topics: TopicTable,
    ids: CountedIds,
    now: i64,
    /// How much the wall clock is ahead of `now`, in milliseconds.
    wall_ahead: i64,
    log: Vec<Logged>,
    position: u64,
    /// The label and the version of each parked request.
    waiting: BTreeMap<RequestId, (String, i16)>,
    requests: u64,
    /// Member ids that were assigned and not used yet.
    pending: BTreeSet<String>,
}

/// An entry of the log.
enum Logged {
    /// The bytes of key and value, and the producer if the record is part of a transaction.
    Record(Vec<u8>, Option<Vec<u8>>, Option<Producer>),
    Marker(i64, TransactionOutcome),
}

impl Logged {
    fn replay(&self, coordinator: &mut Coordinator, position: u64) {
        let (key, value, producer) = match self {
            Self::Record(key, value, producer) => (key, value, producer),
            Self::Marker(producer_id, outcome) => {
                return coordinator.replay_end_transaction(*producer_id, *outcome, position);
            }
        };
        let record = GroupRecord::read(key, value.as_deref()).unwrap().unwrap();
        match producer {
            Some(producer) => coordinator.replay_in_transaction(*producer, &record, position),
            None => coordinator.replay(&record, position),
        }
    }
}

impl World {
    /// Applies a line. Returns its output.
    pub fn apply(&mut self, text: &str, coverage: &mut Coverage) -> Vec<String> {
        let line = Line::parse(text);
        let mut out = Vec::new();
        match line.verb {
            "config" => self.configure(&line),
            "topic" => self.topics.create(line.words[0], line.words[1].parse().unwrap()),
            "delete-topic" => self.delete_topic(line.words[0], &mut out),
            "wall" => self.wall_ahead = line.words[0].parse().unwrap(),
            "recount" => self.topics.recount(),
            "end-txn" => self.end_transaction(&line),
            "events" => out.extend(self.coordinator().take_events().0.iter().map(print::event)),
            "open" => out.extend(self.coordinator().open_transactions().map(print::open)),
            "advance" => {
                self.advance(line.words[0].parse().unwrap(), coverage, &mut out);
                out.push(self.deadline());
            }
            "reload" => {
                coverage.exercise(&self.state("g"), "reload");
                self.reload();
                out.push(self.deadline());
            }
            _ => {
                self.request(&line, coverage, &mut out);
                out.push(self.deadline());
            }
        }
        out
    }

    fn configure(&mut self, line: &Line<'_>) {
        for word in &line.words {
            let (key, value) = word.split_once('=').unwrap();
            let config = &mut self.config;
            if key == "group.consumer.migration.policy" {
                let policy = MigrationPolicy::by_name(value).unwrap();
                config.group_consumer_migration_policy = policy;
                continue;
            }
            let value: i64 = value.parse().unwrap();
            match key {
                "group.initial.rebalance.delay.ms" => {
                    config.group_initial_rebalance_delay_ms = value as i32;
                }
                "group.max.size" => config.group_max_size = value as i32,
                "group.consumer.assignment.interval.ms" => {
                    config.group_consumer_assignment_interval_ms = value as i32;
                }
                "group.consumer.max.size" => config.group_consumer_max_size = value as i32,
                "offset.metadata.max.bytes" => config.offset_metadata_max_bytes = value as i32,
                "offsets.retention.ms" => config.offsets_retention_ms = value,
                "offsets.retention.check.interval.ms" => {
                    config.offsets_retention_check_interval_ms = value;
                }
                key => panic!("{key}"),
            }
        }
    }

    /// Writes the marker of a producer.
    fn end_transaction(&mut self, line: &Line<'_>) {
        self.position += 1;
        let outcome = match line.words[1] {
            "commit" => TransactionOutcome::Commit,
            "abort" => TransactionOutcome::Abort,
            outcome => panic!("{outcome}"),
        };
        self.write(Logged::Marker(line.words[0].parse().unwrap(), outcome));
    }

    fn commit_in_transaction(
        &mut self,
        line: &Line<'_>,
        version: i16,
        request: TxnOffsetCommitRequest<'static>,
        out: &mut Vec<String>,
    ) {
        let request_id = RequestId { connection: 0, sequence: 0 };
        let (client_id, client_host) = (line.client(), "/1.2.3.4");
        let caller = Caller {
            request: request_id,
            api_version: version,
            client_id,
            client_host,
            describes: None,
        };
        let mut output =
            self.with_context(|it, context| it.handle(context, caller, request.into()));
        let wrote = !output.records.is_empty();
        let Some(Answer { response: Response::TxnOffsetCommit(response), visible_at, .. }) =
            output.answers.pop()
        else {
            panic!("{output:?}")
        };
        self.settle(output, out);
        let waits = if wrote && visible_at == self.position { "; when written" } else { "" };
        let (who, response) = (line.words[0], print::transactional(&response));
        out.push(format!("  commit {who}: {response}{waits}"));
    }

    fn request(&mut self, line: &Line<'_>, coverage: &mut Coverage, out: &mut Vec<String>) {
        let topics = &self.topics;
        let topic_id = |topic: &str| topics.id(topic).unwrap_or(Uuid([9; 16]));
        if let Some((version, request)) = line.transactional(topic_id) {
            return self.commit_in_transaction(line, version, request, out);
        }
        let known = line.request(topic_id);
        let (version, request) = known.unwrap_or_else(|| panic!("unknown verb {}", line.verb));
        self.cover(line, coverage);
        // The request is encoded and decoded, so that fields that its version lacks are lost.
        let mut bytes = Vec::new();
        request.write(version, &mut bytes).unwrap();
        let request = Request::read(request.api_key(), version, &mut Reader::new(&bytes)).unwrap();
        let request = GroupRequest::try_from(request).unwrap();
        self.requests += 1;
        let id = RequestId { connection: 1, sequence: self.requests };
        let who = line.words.get(1).copied().unwrap_or("admin").to_owned();
        let who = if ["join", "sync", "heartbeat", "beat"].contains(&line.verb) {
            who
        } else {
            line.words.first().copied().unwrap_or("all").to_owned()
        };
        self.waiting.insert(id, (format!("{} {who}", line.verb), version));
        let client_host = "/1.2.3.4";
        let caller = Caller {
            request: id,
            api_version: version,
            client_id: line.client(),
            client_host,
            describes: None,
        };
        let output = self.with_context(|it, context| it.handle(context, caller, request));
        self.settle(output, out);
        self.expire(coverage, out);
    }

    fn cover(&mut self, line: &Line<'_>, coverage: &mut Coverage) {
        let groups = match line.verb {
            "list" | "describe" | "delete" | "fetch" => vec!["g"],
            _ => line.words.first().copied().into_iter().collect(),
        };
        for group in groups {
            let state = self.state(group);
            let request = self.kind(line, group);
            coverage.exercise(&state, &request);
        }
    }

    fn kind(&mut self, line: &Line<'_>, group: &str) -> String {
        let members = self.members(group);
        let member_id = short(&line.member_id());
        let is_member = |id: &str| members.iter().any(|(it, _)| it == id);
        let who = match line.verb {
            "join" => match (line.option("instance"), member_id.as_str()) {
                (Some(instance), "-") if members.iter().any(|(_, it)| it == instance) => {
                    "static without id"
                }
                (Some(_), id) if is_member(id) => "static",
                (_, id) if is_member(id) => "member",
                _ => "new",
            },
            "sync" | "heartbeat" | "commit" if is_member(&member_id) => "member",
            "sync" | "heartbeat" => "stranger",
            "commit" if line.member_id().is_empty() => "simple",
            "commit" => "stranger",
            "leave" if is_member(&member_id) => "member",
            "leave" if self.pending.contains(&member_id) => "pending",
            "leave" => "stranger",
            verb => return verb.to_owned(),
        };
        format!("{} {who}", line.verb)
    }

    fn state(&mut self, group: &str) -> String {
        self.described(group).0
    }

    fn members(&mut self, group: &str) -> Vec<(String, String)> {
        self.described(group).1
    }

    fn described(&mut self, group: &str) -> (String, Vec<(String, String)>) {
        let request =
            DescribeGroupsRequest { groups: vec![group.to_owned().into()], ..Default::default() };
        let request_id = RequestId { connection: 0, sequence: 0 };
        let caller = Caller {
            request: request_id,
            api_version: 6,
            client_id: "",
            client_host: "",
            describes: None,
        };
        let output = self.with_context(|it, context| it.handle(context, caller, request.into()));
        let Response::DescribeGroups(response) = &output.answers[0].response else { panic!() };
        let group = &response.groups[0];
        let members = group.members.iter().map(|it| {
            let instance_id = it.group_instance_id.as_deref().unwrap_or_default();
            (short(&it.member_id), instance_id.to_owned())
        });
        (group.group_state.to_string(), members.collect())
    }

    fn advance(&mut self, ms: i64, coverage: &mut Coverage, out: &mut Vec<String>) {
        let until = self.now + ms;
        while let Some(at) = self.coordinator().next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.expire(coverage, out);
        }
        self.now = until;
    }

    fn expire(&mut self, coverage: &mut Coverage, out: &mut Vec<String>) {
        let now = self.now;
        while let Some((at, reason)) = self.coordinator().next_timer().filter(|it| it.0 <= now) {
            coverage.exercise(&self.state("g"), &format!("{reason:?}"));
            let before = out.len();
            let output = self.with_context(Coordinator::expire);
            self.settle(output, out);
            if out.len() > before {
                out.insert(before, format!("at {at} {reason:?}"));
            }
        }
    }

    fn delete_topic(&mut self, name: &str, out: &mut Vec<String>) {
        self.topics.version += 1;
        let (id, _) = self.topics.topics.remove(name).unwrap();
        let deleted = [DeletedTopic { name, id, deleted_at: i64::MAX }];
        let output = self.with_context(|it, context| it.topics_deleted(context, &deleted));
        self.settle(output, out);
    }

    fn settle(&mut self, output: Output<'_>, out: &mut Vec<String>) {
        self.position += u64::from(!output.records.is_empty());
        for record in &output.records {
            let producer = output.producer.map(|it| format!(" by {}/{}", it.id, it.epoch));
            out.push(print::record(record) + &producer.unwrap_or_default());
            self.write_record(record, output.producer);
        }
        for answer in output.answers {
            let (who, version) = self.waiting.remove(&answer.request).unwrap();
            let mut bytes = Vec::new();
            answer.response.write(version, &mut bytes).unwrap();
            let api = answer.response.api_key();
            let response = Response::read(api, version, &mut Reader::new(&bytes)).unwrap();
            if let Response::JoinGroup(joined) = &response
                && joined.error_code == ErrorCode::MemberIdRequired as i16
            {
                self.pending.insert(short(&joined.member_id));
            }
            let waits = if answer.visible_at == self.position && !output.records.is_empty() {
                "; when written"
            } else {
                ""
            };
            out.push(format!("  {who}: {}{waits}", print::response(&response)));
        }
    }

    fn write_record(&mut self, record: &GroupRecord<'_>, producer: Option<Producer>) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let value = record.write_value(&mut value).then_some(value);
        self.write(Logged::Record(key, value, producer));
    }

    /// Writes an entry and replays it from its bytes.
    fn write(&mut self, logged: Logged) {
        let position = self.position;
        logged.replay(self.coordinator(), position);
        self.log.push(logged);
    }

    fn reload(&mut self) {
        let mut coordinator = Coordinator::new(self.config.clone());
        self.log.iter().for_each(|logged| logged.replay(&mut coordinator, self.position));
        coordinator.loaded(self.now, self.wall(), &self.topics);
        self.coordinator = Some(coordinator);
        self.waiting.clear();
    }

    fn wall(&self) -> Wall {
        Wall(self.now + self.wall_ahead)
    }

    fn deadline(&mut self) -> String {
        match self.coordinator().next_timer() {
            Some((at, reason)) => format!("next {at} {reason:?}"),
            None => "next never".to_owned(),
        }
    }

    fn coordinator(&mut self) -> &mut Coordinator {
        self.coordinator.get_or_insert_with(|| {
            let mut coordinator = Coordinator::new(self.config.clone());
            coordinator.loaded(self.now, Wall(self.now + self.wall_ahead), &self.topics);
            coordinator
        })
    }

    fn with_context<T>(&mut self, call: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        self.coordinator();
        let mut context = Context {
            now: self.now,
            wall: self.wall(),
            position: self.position + 1,
            ids: &mut self.ids,
            topics: &self.topics,
            budget: &mut Budget::default(),
        };
        call(self.coordinator.as_mut().unwrap(), &mut context)
    }
}

/// Topics by name. The id of a topic is the value of `version` at its creation.
#[derive(Default)]
struct TopicTable {
    topics: BTreeMap<String, (Uuid, i32)>,
    version: u8,
    newest: u8,
    /// The value of `version` at the last restart.
    uncounted: u8,
}

impl TopicTable {
    /// Begins to count versions at 0, like a server that restarts: it knows the topics, but not how
    /// often they changed.
    fn recount(&mut self) {
        self.uncounted = self.version;
    }

    fn create(&mut self, name: &str, partitions: i32) {
        self.version += 1;
        if let Some((_, known)) = self.topics.get_mut(name) {
            *known = partitions;
            return;
        }
        self.newest = self.version;
        let mut id = [0; 16];
        id[15] = self.version;
        self.topics.insert(name.to_owned(), (Uuid(id), partitions));
    }
}

impl Topics for TopicTable {
    fn id(&self, name: &str) -> Option<Uuid> {
        self.topics.get(name).map(|(id, _)| *id)
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|(_, (it, _))| *it == id).map(|(name, _)| name.as_str())
    }

    fn partitions(&self, name: &str) -> Option<i32> {
        self.topics.get(name).map(|(_, partitions)| *partitions)
    }

    fn version(&self) -> i64 {
        (self.version - self.uncounted).into()
    }

    fn version_of_newest(&self) -> i64 {
        self.newest.into()
    }

    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
        let names = self.topics.keys().map(String::as_str);
        let names: Vec<&str> = names.filter(|it| name.is_none_or(|name| *it > name)).collect();
        Box::new(names.into_iter())
    }
}
