//! The broker around share partitions: its operations are compared with Kafka's.

use crate::argued::Difference;
use crate::compare::{Answer, Differs};
use crate::json::{int, int_or, int32, list, text};
use crate::letters::Letters;
use crate::log::Log;
use crate::shown::Shown;
use crate::state::{Check, Coordinator};
use crate::transcript::Line;
use crate::waiting::Waiting;
use muster_codec::ErrorCode;
use muster_fairness::Address;
use muster_shares::limits::SESSION_PARTITIONS_MAX;
use muster_shares::partition::{Acknowledgement, Change};
use muster_shares::sessions::{FetchContext, SessionFetch, SessionKey};
use muster_shares::{Sessions, Settings, SharePartition, SharePartitionKey, TopicPartition};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Broker {
    pub coordinator: Coordinator,
    pub logs: BTreeMap<TopicPartition, Log>,
    pub open: BTreeMap<SharePartitionKey, Open>,
    pub sessions: Sessions,
    pub waiting: Vec<Waiting>,
    pub now: i64,
    /// The answers in the current operation, by request.
    pub answers: BTreeMap<String, Answer>,
    pub counts: Counts,
    pub opened: u64,
    config: Map<String, Value>,
    group_configs: BTreeMap<String, Map<String, Value>>,
    share_version: i64,
    pub letters: Letters,
    connections: BTreeMap<String, u64>,
    pub shown: BTreeMap<SharePartitionKey, Shown>,
    pub with_hole: Holes,
    pub changes: BTreeMap<SharePartitionKey, Vec<TakenChange>>,
    position: u64,
}

/// The share partitions whose state in Kafka has a hole that may have records. The value is true if
/// the start offset has passed the first offset of the hole.
pub type Holes = BTreeMap<SharePartitionKey, bool>;

#[derive(Debug)]
pub struct Open {
    pub partition: SharePartition,
    /// A number that distinguishes this share partition from earlier ones with the same name.
    pub number: u64,
    /// The offset that was read last, and its byte position in the segment. Kafka remembers both,
    /// to know when a fetch has its minimum bytes.
    pub position: Option<(i64, i64)>,
}

/// A change that was taken, to be written.
#[derive(Debug)]
pub struct TakenChange {
    pub change: Change,
    /// The number of offsets without records that the change may count as done.
    pub without_records: i64,
}

#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub operations: usize,
    pub acquired: usize,
    pub acknowledged: usize,
    pub states: usize,
    pub changes: usize,
}

impl Broker {
    pub fn new(op: &Value) -> Self {
        let config = op["config"].as_object().cloned().unwrap_or_default();
        let limit = config.get("group.share.max.share.sessions").map_or(2_000, int);
        Self {
            coordinator: Coordinator::new(op),
            logs: BTreeMap::new(),
            open: BTreeMap::new(),
            sessions: Sessions::new(usize::try_from(limit).unwrap(), SESSION_PARTITIONS_MAX),
            waiting: Vec::new(),
            now: int(&op["now"]),
            answers: BTreeMap::new(),
            counts: Counts::default(),
            opened: 0,
            config,
            group_configs: BTreeMap::new(),
            share_version: int_or(&op["share_version"], 2),
            letters: Letters::default(),
            connections: BTreeMap::new(),
            shown: BTreeMap::new(),
            with_hole: Holes::new(),
            changes: BTreeMap::new(),
            position: 0,
        }
    }

    /// Applies an operation, and compares the outcome with Kafka's. Each share partition that
    /// differs needs an intended difference that explains it. Then the run cannot continue, and the
    /// difference is returned.
    pub fn apply(&mut self, line: &Line) -> Result<Option<Difference>, String> {
        let before = (self.shown.clone(), self.with_hole.clone());
        let mut met = None;
        for Differs { at, what } in self.differing(line) {
            let of_line = (&line.input, &line.output);
            let explained = at.and_then(|at| self.explained(&before, of_line, &at));
            met = Some(explained.ok_or(what)?);
        }
        Ok(met)
    }

    fn differing(&mut self, line: &Line) -> Vec<Differs> {
        let (op, out) = (&line.input, &line.output);
        self.answers.clear();
        self.changes.clear();
        let id = op["id"].as_str().map(str::to_owned);
        let result = match self.perform(op, out) {
            Ok(result) => result,
            Err(what) => return vec![Differs::unplaced(what)],
        };
        if let Some(id) = id.filter(|_| !result.is_null()) {
            let group = text(&op["group"]).to_owned();
            self.answers.insert(id, Answer { group, body: result });
        }
        self.counts.operations += 1;
        let mut differs = self.compare_answers(op, out);
        differs.extend(self.compare_letters(out));
        differs.extend(self.compare_changes(out));
        self.coordinator.prune(out);
        differs.extend(self.compare_states(out));
        differs
    }

    fn perform(&mut self, op: &Value, out: &Value) -> Result<Value, String> {
        match text(&op["op"]) {
            "request" => {
                self.coordinator.now = self.now;
                self.coordinator.request(op);
            }
            "group_config" => {
                let configs = op["configs"].as_object().unwrap().clone();
                self.group_configs.insert(text(&op["group"]).to_owned(), configs);
            }
            "share_version" => self.share_version = int(&op["level"]),
            "dlq" => self.end_letters(op),
            "produce" => {
                let at = self.at(op);
                list(&op["batches"]).iter().for_each(|it| self.log(at).append(it));
                self.try_waiting(|key| {
                    (key.topic_id, key.partition) == (at.topic_id, at.partition)
                });
            }
            "compact" => {
                let bases: Vec<_> = list(&op["remove"]).iter().map(int).collect();
                let at = self.at(op);
                self.log(at).compact(&bases);
            }
            "delete_records" => {
                let at = self.at(op);
                self.log(at).delete_before(int(&op["before"]));
            }
            "leader" => self.leader(op),
            "context" => self.context(op, out)?,
            "session_ack" => self.session_ack(op, out)?,
            "fetch" => self.fetch(op),
            "acknowledge" => return Ok(self.acknowledge(op)),
            "release_session" => return Ok(self.release_session(op)),
            "disconnect" => self.disconnect(op),
            "advance" => self.advance(int(&op["ms"])),
            "next" => self.next(op, out)?,
            "dump" => self.dump(out)?,
            "reload" => self.coordinator.reload(),
            other => return Err(format!("no such operation: {other}")),
        }
        Ok(Value::Null)
    }

    pub fn at(&self, op: &Value) -> TopicPartition {
        let topic_id = self.coordinator.world.id(text(&op["topic"]));
        TopicPartition { topic_id, partition: int32(&op["partition"]) }
    }

    pub fn log(&mut self, at: TopicPartition) -> &mut Log {
        self.logs.entry(at).or_default()
    }

    fn group_config(&self, group: &str, name: &str) -> Option<&Value> {
        self.group_configs.get(group)?.get(name)
    }

    pub fn group_text(&self, group: &str, name: &str, otherwise: &str) -> String {
        self.group_config(group, name).and_then(Value::as_str).unwrap_or(otherwise).to_owned()
    }

    pub fn settings(&self, group: &str) -> Settings {
        let number = |name: &str, otherwise| {
            let of_group = self.group_config(group, &format!("share.{name}"));
            let of_broker = self.config.get(&format!("group.share.{name}"));
            of_group.or(of_broker).map_or(otherwise, int)
        };
        Settings {
            record_lock_duration_ms: number("record.lock.duration.ms", 30_000),
            delivery_count_limit: i16::try_from(number("delivery.count.limit", 5)).unwrap(),
            partition_max_record_locks: number("partition.max.record.locks", 2_000),
            renew_acknowledge_enable: self.group_text(group, "share.renew.acknowledge.enable", "")
                != "false",
            has_dead_letters: self.share_version > 1
                && !self.group_text(group, "errors.deadletterqueue.topic.name", "").is_empty(),
        }
    }

    fn leader(&mut self, op: &Value) {
        let (at, leads) = (self.at(op), op["leads"] == true);
        self.log(at).leads = leads;
        self.log(at).epoch = int32(&op["epoch"]);
        if !leads {
            self.open.retain(|key, _| (key.topic_id, key.partition) != (at.topic_id, at.partition));
        }
    }

    /// The number of a named connection.
    fn connection(&mut self, name: &str) -> u64 {
        let next = self.connections.len() as u64;
        *self.connections.entry(name.to_owned()).or_insert(next)
    }

    fn context(&mut self, op: &Value, out: &Value) -> Check {
        let connection = self.connection(op["connection"].as_str().unwrap_or("connection"));
        let topics: Vec<_> = list(&op["fetch"]).iter().map(|it| self.at(it)).collect();
        let forgotten: Vec<_> = list(&op["forget"]).iter().map(|it| self.at(it)).collect();
        let request = SessionFetch {
            epoch: int32(&op["epoch"]),
            topics: &topics,
            forgotten: &forgotten,
            has_acknowledgements: op["acks"] == true,
            connection,
            address: Address::default(),
        };
        let key = session_key(op);
        let ours = match self.sessions.fetch(&key, &request) {
            Err(error) => json!({"error": kafkas_name(error)}),
            Ok(begun) => {
                let context = match begun.context {
                    FetchContext::Initial => "initial",
                    FetchContext::Subsequent => "subsequent",
                    FetchContext::Final => "final",
                };
                json!({"context": context, "partitions": self.names(begun.partitions)})
            }
        };
        let kafkas = match out.get("error") {
            Some(error) => json!({"error": error}),
            None => json!({"context": out["context"], "partitions": out["partitions"]}),
        };
        same(&ours, &kafkas)?;
        if out.get("error").is_none() { self.compare_session(&key, out) } else { Ok(()) }
    }

    fn session_ack(&mut self, op: &Value, out: &Value) -> Check {
        let key = session_key(op);
        match self.sessions.acknowledge(&key, int32(&op["epoch"])) {
            Err(error) => same(&json!(kafkas_name(error)), &out["error"]),
            Ok(()) => self.compare_session(&key, out),
        }
    }

    fn compare_session(&self, key: &SessionKey, out: &Value) -> Check {
        let partitions = self.names(self.sessions.partitions(key));
        let ours = json!({"epoch": self.sessions.epoch(key), "partitions": partitions});
        same(&ours, &out["session"])
    }

    fn names(&self, all: impl IntoIterator<Item = TopicPartition>) -> Vec<String> {
        let name = |it: TopicPartition| {
            format!("{}-{}", self.coordinator.world.name(it.topic_id), it.partition)
        };
        all.into_iter().map(name).collect()
    }

    fn acknowledge(&mut self, op: &Value) -> Value {
        let (group, member) = (text(&op["group"]), text(&op["member"]));
        let settings = self.settings(group);
        let mut answers = Vec::new();
        for partition in list(&op["partitions"]) {
            let at = self.at(partition);
            let key = SharePartitionKey::new(group, at.topic_id, at.partition);
            let types: Vec<Vec<i8>> = list(&partition["batches"]).iter().map(types_of).collect();
            let batches = list(&partition["batches"]).iter().zip(&types);
            let batches: Vec<_> = batches.map(acknowledgement).collect();
            let now = self.now;
            let error = match self.open.get_mut(&key) {
                None => Some(ErrorCode::UnknownTopicOrPartition),
                Some(open) => {
                    let done = open.partition.acknowledge(member, &batches, &settings, now);
                    done.err().map(|it| it.error())
                }
            };
            self.flush(&key);
            answers.push((partition, error));
            self.counts.acknowledged += 1;
            self.try_waiting(|it| *it == key);
        }
        acknowledged(answers.into_iter().map(|(it, error)| (&it["topic"], &it["partition"], error)))
    }

    fn release_session(&mut self, op: &Value) -> Value {
        let key = session_key(op);
        let ended = match self.sessions.close(&key) {
            Ok(ended) => ended,
            Err(error) => return json!({"error": kafkas_name(error)}),
        };
        let mut answers = Vec::new();
        for at in ended.partitions {
            let error = self.release(&key, at).then_some(ErrorCode::UnknownTopicOrPartition);
            let topic = json!(self.coordinator.world.name(at.topic_id));
            answers.push((topic, json!(at.partition), error));
        }
        acknowledged(answers.iter().map(|(topic, partition, error)| (topic, partition, *error)))
    }

    /// Releases the records of a member. Returns true if the share partition is not open.
    fn release(&mut self, session: &SessionKey, at: TopicPartition) -> bool {
        let key = SharePartitionKey::new(session.group_id.clone(), at.topic_id, at.partition);
        let settings = self.settings(&session.group_id);
        let Some(open) = self.open.get_mut(&key) else { return true };
        open.partition.release(&session.member_id, &settings);
        self.flush(&key);
        self.try_waiting(|it| *it == key);
        false
    }

    fn disconnect(&mut self, op: &Value) {
        let connection = self.connection(text(&op["connection"]));
        let Some(gone) = self.sessions.disconnected(connection) else { return };
        if let Some(ended) = gone.ended {
            let session = SessionKey::new(gone.group_id.clone(), &ended.member_id);
            for at in ended.partitions {
                self.release(&session, at);
            }
        }
        if gone.is_group_gone {
            self.open.retain(|key, _| key.group_id != gone.group_id);
        }
    }

    /// Takes the changes, flushes them at once, and takes letters.
    pub fn flush(&mut self, key: &SharePartitionKey) {
        self.flush_change(key);
        if self.hand_over(key) {
            self.flush_change(key);
        }
    }

    fn flush_change(&mut self, key: &SharePartitionKey) {
        self.position += 1;
        let Some(open) = self.open.get_mut(key) else { return };
        let without_records = without_records(&open.partition);
        let Some(change) = open.partition.take_change(self.position) else { return };
        open.partition.flushed(self.position);
        if change.batches.is_empty() {
            return self.coordinator.argued.note(Difference::AbortedAlone);
        }
        self.changes.entry(key.clone()).or_default().push(TakenChange { change, without_records });
    }

    fn advance(&mut self, ms: i64) {
        let until = self.now + ms;
        loop {
            let locks = self.open.values().filter_map(|it| it.partition.next_deadline());
            let fetches = self.waiting.iter().map(|it| it.deadline);
            let cold = self.coordinator.next_cold(self.now);
            let next = locks.chain(fetches).fold(cold, i64::min);
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            if next == cold {
                self.coordinator.snapshot_cold(cold);
            }
            let due: Vec<_> = self.open.keys().cloned().collect();
            for key in due {
                let settings = self.settings(&key.group_id);
                let now = self.now;
                let Some(open) = self.open.get_mut(&key) else { continue };
                if open.partition.expire(now, &settings) {
                    self.flush(&key);
                    self.try_waiting(|it| *it == key);
                }
            }
            self.end_waiting();
        }
        self.now = until;
    }

    fn next(&mut self, op: &Value, out: &Value) -> Check {
        let (at, group) = (self.at(op), text(&op["group"]));
        let settings = self.settings(group);
        let key = SharePartitionKey::new(group, at.topic_id, at.partition);
        let Some(open) = self.open.get_mut(&key) else { return Err("not open".to_owned()) };
        let next = open.partition.next_fetch_offset();
        let can_acquire = open.partition.can_acquire(&settings);
        let kafkas = json!({"next": out["next"], "can_acquire": out["can_acquire"]});
        same(&json!({"next": next, "can_acquire": can_acquire}), &kafkas)
    }

    /// The durable states must be those of Kafka's share coordinator, except for the number of
    /// updates.
    fn dump(&self, out: &Value) -> Check {
        for kafkas in list(&out["coordinator"]) {
            let at = self.at(kafkas);
            let key = SharePartitionKey::new(text(&kafkas["group"]), at.topic_id, at.partition);
            let state = self.coordinator.states.get(&key).ok_or("no state")?;
            let batches = state.batches.iter();
            let batches: Vec<_> = batches
                .map(|it| json!([it.first, it.last, it.delivery_state, it.delivery_count]))
                .collect();
            let ours = json!([
                state.state_epoch,
                state.start_offset,
                batches,
                state.delivery_complete_count
            ]);
            let kafkas = json!([
                kafkas["state_epoch"],
                kafkas["start_offset"],
                kafkas["batches"],
                kafkas["delivery_complete_count"]
            ]);
            same(&ours, &kafkas)?;
        }
        Ok(())
    }
}

/// The number of offsets from the start to the end that are not in flight.
fn without_records(partition: &SharePartition) -> i64 {
    let start = partition.start_offset();
    let runs = partition.in_flight().filter(|run| run.last >= start);
    let in_flight: i64 = runs.map(|run| run.last - run.first.max(start) + 1).sum();
    partition.in_flight_count() - in_flight
}

fn session_key(op: &Value) -> SessionKey {
    SessionKey::new(text(&op["group"]), text(&op["member"]))
}

fn types_of(batch: &Value) -> Vec<i8> {
    list(&batch[2]).iter().map(|it| i8::try_from(int(it)).unwrap()).collect()
}

fn acknowledgement<'a>((batch, types): (&Value, &'a Vec<i8>)) -> Acknowledgement<'a> {
    Acknowledgement { first: int(&batch[0]), last: int(&batch[1]), types }
}

fn acknowledged<'a>(all: impl Iterator<Item = (&'a Value, &'a Value, Option<ErrorCode>)>) -> Value {
    let mut answers: Vec<Value> = all
        .map(|(topic, partition, error)| match error {
            Some(error) => {
                json!({"topic": topic, "partition": partition, "error": kafkas_name(error)})
            }
            None => json!({"topic": topic, "partition": partition}),
        })
        .collect();
    answers.sort_by_key(|it| (it["topic"].to_string(), int_or(&it["partition"], 0)));
    json!({"partitions": answers})
}

pub fn same(ours: &Value, kafkas: &Value) -> Check {
    if ours == kafkas { Ok(()) } else { Err(format!("muster: {ours}\n  Kafka:  {kafkas}")) }
}

/// Kafka's name of an error, for example `INVALID_RECORD_STATE` for `InvalidRecordState`.
pub fn kafkas_name(error: ErrorCode) -> String {
    let mut name = String::new();
    for letter in format!("{error:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}
