//! muster's coordinator, driven by the oracle's operations, with the parts of a server: the clock,
//! the log, answers that wait until records are durable, and the load at startup.

use crate::forms::{self, RecordBytes, Result};
use crate::ids::SeededIds;
use crate::outcome::{Outcome, in_transaction, with_missing};
use crate::persister;
use crate::scope::Asked;
use crate::tasks::missing;
use crate::transactional;
use crate::world::{World, config, group_overrides};
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::GroupRecord;
use muster_codec::{ApiKey, GroupRequest, Reader, Request, Response, Wall};
use muster_coordinator::{
    Answer, Budget, Caller, Config, Context, Coordinator, DeletedTopic, GroupOverrides, Output,
    Producer, RequestId, StateCall,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The most calls of `expire` in a row that may have no output.
const SPURIOUS_EXPIRES: usize = 1_000;

pub struct Muster {
    config: Config,
    coordinator: Coordinator,
    topics: World,
    ids: SeededIds,
    configured: BTreeMap<String, GroupOverrides>,
    now: i64,
    log: Vec<Logged>,
    position: u64,
    committed: u64,
    held: bool,
    /// Whether background work that is due waits for the operation `advance`, as in the oracle.
    background_held: bool,
    /// The length of the log before the current operation.
    logged_before: usize,
    lost: BTreeSet<String>,
    parked: BTreeMap<RequestId, (String, i16)>,
    waiting: Vec<(u64, String, Value)>,
    state_calls: Vec<StateCall>,
    requests: u64,
    outcome: Outcome,
}

/// An entry of the log.
struct Logged {
    position: u64,
    what: Entry,
}

enum Entry {
    /// A record of a group, in the transaction of a producer or outside of one.
    Record { group: String, producer: Option<Producer>, bytes: RecordBytes },
    /// The end of the transaction of a producer.
    Marker(i64, TransactionOutcome),
}

impl Muster {
    /// Starts with the settings of a `new` operation.
    pub fn new(op: &Value) -> Self {
        let config = config(op);
        let mut topics = World::default();
        topics.change(op);
        let mut coordinator = Coordinator::new(config.clone());
        let now = op["now"].as_i64().unwrap_or_default();
        coordinator.loaded(now, Wall(now), &topics);
        Self {
            config,
            coordinator,
            topics,
            ids: SeededIds::new(op["uuid_seed"].as_u64()),
            configured: BTreeMap::new(),
            now,
            log: Vec::new(),
            position: 0,
            committed: 0,
            held: false,
            background_held: false,
            logged_before: 0,
            lost: BTreeSet::new(),
            parked: BTreeMap::new(),
            waiting: Vec::new(),
            state_calls: Vec::new(),
            requests: 0,
            outcome: Outcome::default(),
        }
    }

    /// Sets the number of the next random id.
    pub fn seek_id(&mut self, number: u64) {
        self.ids.seek(number);
    }

    /// Whether some records are not committed yet.
    pub fn has_uncommitted(&self) -> bool {
        self.committed < self.position
    }

    pub fn is_empty_modern_group(&mut self, group: &str) -> bool {
        let empty = json!({"statesFilter": ["empty"], "typesFilter": ["consumer", "streams"]});
        let listed = self.ask(ApiKey::ListGroups, 5, &empty).unwrap_or_default();
        let groups = listed["groups"].as_array();
        groups.into_iter().flatten().any(|it| it["groupId"] == group)
    }

    /// Performs an operation. `asked` is the compared part of a request.
    pub fn apply(&mut self, op: &Value, asked: Option<&Asked>) -> Result<Outcome> {
        self.logged_before = self.log.len();
        match (op["op"].as_str(), asked) {
            (Some("request"), Some(asked)) => self.request(op, asked)?,
            (Some("advance"), _) => self.advance(op["ms"].as_i64().unwrap_or_default())?,
            (Some("topics"), _) => self.change_topics(op)?,
            (Some("end_txn"), _) => self.end_transaction(op),
            (Some("cleanup"), _) => self.coordinator.sweep_at(self.now),
            (Some("hold"), _) => self.hold(op)?,
            (Some("commit"), _) => self.commit()?,
            (Some("reload"), _) => self.reload()?,
            (Some("replay"), _) => self.replace_log(&op["records"])?,
            (Some("dump"), _) => self.dump()?,
            (Some("group_config"), _) => self.configure(op),
            _ => {}
        }
        if !self.background_held {
            self.expire_until(self.now)?;
        }
        Ok(std::mem::take(&mut self.outcome))
    }

    /// Removes from the log the records that the last operation wrote for a group.
    pub fn take_back(&mut self, group: &str) {
        let since = self.log.split_off(self.logged_before);
        let is_of_group =
            |it: &Logged| matches!(&it.what, Entry::Record { group: of, .. } if of == group);
        self.log.extend(since.into_iter().filter(|it| !is_of_group(it)));
    }

    /// Stops comparing the group. Until the next load, [`Self::adopt`] adds its records to the log.
    pub fn lose(&mut self, group: &str) {
        self.lost.insert(group.to_owned());
    }

    /// Adds a record of Kafka to the log. Its group has left the comparison.
    pub fn adopt(&mut self, group: &str, producer: Option<Producer>, record: &Value) -> Result<()> {
        let bytes = forms::kafka_record(record)?;
        self.log(Entry::Record { group: group.to_owned(), producer, bytes });
        Ok(())
    }

    fn log(&mut self, what: Entry) {
        self.log.push(Logged { position: self.position, what });
    }

    /// Writes the marker of a producer's transaction.
    fn end_transaction(&mut self, op: &Value) {
        self.position += 1;
        let producer_id = op["producer_id"].as_i64().unwrap_or_default();
        let outcome = transactional::outcome(&op["result"]);
        self.coordinator.replay_end_transaction(producer_id, outcome, self.position);
        self.log(Entry::Marker(producer_id, outcome));
        if !self.held {
            self.committed = self.position;
        }
    }

    fn request(&mut self, op: &Value, asked: &Asked) -> Result<()> {
        let bytes = asked.request_bytes()?;
        let client_id = op["client_id"].as_str().unwrap_or("client");
        let client_host = op["client_host"].as_str().unwrap_or("/127.0.0.1");
        let id = self.next_request();
        let caller = Caller {
            request: id,
            api_version: asked.version,
            client_id,
            client_host,
            describes: None,
        };
        if asked.is_transactional {
            return self.commit_in_transaction(&asked.id, caller, &bytes);
        }
        self.parked.insert(id, (asked.id.clone(), asked.version));
        let request = Request::read(asked.api, asked.version, &mut Reader::new(&bytes))
            .map_err(|error| error.to_string())?;
        let request = of_groups(request)?;
        let output = self.coordinator.handle(
            &mut Context {
                now: self.now,
                wall: Wall(self.now),
                position: self.position + 1,
                ids: &mut self.ids,
                topics: &self.topics,
                budget: &mut Budget::default(),
            },
            caller,
            request,
        );
        let too_early = |output: &Output<'_>, position| {
            !output.records.is_empty()
                && output.answers.iter().any(|answer| answer.visible_at < position)
        };
        if too_early(&output, self.position + 1) {
            return Err("an answer may leave before the records of its call".to_owned());
        }
        self.settle(output)
    }

    fn commit_in_transaction(&mut self, id: &str, caller: Caller<'_>, bytes: &[u8]) -> Result<()> {
        let request = transactional::read_request(caller.api_version, bytes)?;
        let mut output = self.with_context(|coordinator, context| {
            coordinator.handle(context, caller, request.into())
        });
        let Some(Answer { response: Response::TxnOffsetCommit(response), visible_at, .. }) =
            output.answers.pop().filter(|_| output.producer.is_some())
        else {
            return Err(format!("not the output of a transactional commit: {output:?}"));
        };
        if !output.records.is_empty() && visible_at <= self.position {
            return Err("an answer may leave before the records of its call".to_owned());
        }
        let response = transactional::response_json(&response, caller.api_version)?;
        self.waiting.push((visible_at, id.to_owned(), response));
        self.settle(output)
    }

    fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId { connection: 1, sequence: self.requests }
    }

    fn advance(&mut self, ms: i64) -> Result<()> {
        let until = self.now + ms;
        self.expire_until(until)?;
        self.now = until;
        Ok(())
    }

    fn expire_until(&mut self, until: i64) -> Result<()> {
        let mut spurious = 0;
        while let Some(deadline) = self.coordinator.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(deadline);
            let output = self.with_context(Coordinator::expire);
            let idle = output.records.is_empty() && output.answers.is_empty();
            spurious = if idle { spurious + 1 } else { 0 };
            if spurious > SPURIOUS_EXPIRES {
                return Err(format!("the deadline {deadline} remains"));
            }
            self.settle(output)?;
        }
        Ok(())
    }

    fn with_context<T>(&mut self, call: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let mut context = Context {
            now: self.now,
            wall: Wall(self.now),
            position: self.position + 1,
            ids: &mut self.ids,
            topics: &self.topics,
            budget: &mut Budget::default(),
        };
        call(&mut self.coordinator, &mut context)
    }

    /// Writes and replays the records. Then sends the answers, or holds them until they may leave.
    fn settle(&mut self, output: Output<'_>) -> Result<()> {
        if !output.records.is_empty() {
            self.position += 1;
        }
        for record in &output.records {
            self.write(output.producer, record)?;
        }
        if !self.held {
            self.committed = self.position;
        }
        for answer in output.answers {
            let (id, version) = self
                .parked
                .remove(&answer.request)
                .ok_or_else(|| format!("an answer without a request: {answer:?}"))?;
            if answer.visible_at > self.position {
                return Err(format!("an answer that can never be sent: {answer:?}"));
            }
            let response = forms::response_json(&answer.response, version)?;
            let response = with_missing(response, output.missing_topics.as_deref().map(missing));
            self.waiting.push((answer.visible_at, id, response));
        }
        self.send();
        self.state_calls.extend(output.state_calls);
        self.answer_state_calls()
    }

    fn answer_state_calls(&mut self) -> Result<()> {
        let committed = self.committed;
        let due: Vec<_> =
            self.state_calls.extract_if(.., |call| call.visible_at <= committed).collect();
        for call in due {
            let results = persister::done(&call.request);
            let output =
                self.with_context(|it, context| it.state_answered(context, call, &results));
            self.settle(output)?;
        }
        Ok(())
    }

    fn write(&mut self, producer: Option<Producer>, record: &GroupRecord<'_>) -> Result<()> {
        let group = record.group_id().to_owned();
        let bytes = forms::record_bytes(record);
        let json = in_transaction(forms::record_json(&bytes)?, producer);
        self.outcome.records.entry((self.now, group.clone())).or_default().push(json);
        replay(&mut self.coordinator, producer, &bytes, self.position)?;
        if !self.lost.contains(&group) {
            self.log(Entry::Record { group, producer, bytes });
        }
        Ok(())
    }

    fn send(&mut self) {
        let durable = |(visible_at, _, _): &mut (u64, String, Value)| *visible_at <= self.committed;
        let sent = self.waiting.extract_if(.., durable);
        self.outcome.answers.extend(sent.map(|(_, id, response)| (id, response)));
    }

    fn configure(&mut self, op: &Value) {
        let group = op["group"].as_str().unwrap_or_default();
        let overrides = group_overrides(op);
        self.coordinator.set_group_config(group, overrides.clone());
        self.configured.insert(group.to_owned(), overrides);
    }

    fn hold(&mut self, op: &Value) -> Result<()> {
        self.background_held = op["background"].as_bool().unwrap_or(self.background_held);
        self.held = op["commit"].as_bool().unwrap_or(self.held);
        if self.held { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> Result<()> {
        self.committed = self.position;
        self.send();
        self.answer_state_calls()
    }

    /// Changes topics. Like the oracle, commits held records first.
    fn change_topics(&mut self, op: &Value) -> Result<()> {
        let held = std::mem::replace(&mut self.held, false);
        self.commit()?;
        let deleted = self.topics.change(op);
        if !deleted.is_empty() {
            let deleted: Vec<_> = deleted
                .iter()
                .map(|(name, id)| DeletedTopic { name, id: *id, deleted_at: i64::MAX })
                .collect();
            let output = self
                .with_context(|coordinator, context| coordinator.topics_deleted(context, &deleted));
            self.settle(output)?;
        }
        self.held = held;
        Ok(())
    }

    /// Loads the coordinator again. Parked requests, and requests whose answers wait for a flush,
    /// get null as their answer: at a load, the server answers them and not the coordinator.
    fn reload(&mut self) -> Result<()> {
        let parked = std::mem::take(&mut self.parked).into_values().map(|(id, _)| id);
        let waiting = std::mem::take(&mut self.waiting).into_iter().map(|(_, id, _)| id);
        self.outcome.answers = parked.chain(waiting).map(|id| (id, Value::Null)).collect();
        self.lost.clear();
        self.state_calls.clear();
        self.committed = self.position;
        self.coordinator = Coordinator::new(self.config.clone());
        for (group, overrides) in &self.configured {
            self.coordinator.set_group_config(group, overrides.clone());
        }
        for Logged { position, what } in &self.log {
            match what {
                Entry::Record { producer, bytes, .. } => {
                    replay(&mut self.coordinator, *producer, bytes, *position)?;
                }
                Entry::Marker(producer_id, outcome) => {
                    self.coordinator.replay_end_transaction(*producer_id, *outcome, *position);
                }
            }
        }
        self.coordinator.loaded(self.now, Wall(self.now), &self.topics);
        Ok(())
    }

    fn replace_log(&mut self, records: &Value) -> Result<()> {
        self.log.clear();
        for record in records.as_array().into_iter().flatten() {
            self.position += 1;
            match (transactional::producer(record), record.get("marker")) {
                (Some(Producer { id, .. }), Some(marker)) => {
                    self.log(Entry::Marker(id, transactional::outcome(marker)));
                }
                (producer, _) => self.adopt(crate::scope::group_of(record), producer, record)?,
            }
        }
        self.reload()
    }

    fn dump(&mut self) -> Result<()> {
        let listed = self.ask(ApiKey::ListGroups, 5, &json!({}))?;
        for group in listed["groups"].as_array().into_iter().flatten() {
            let (id, ids) = (&group["groupId"], json!({"groupIds": [group["groupId"]]}));
            let (api, version, body) = match group["groupType"].as_str() {
                Some("consumer") => (ApiKey::ConsumerGroupDescribe, 1, ids),
                Some("share") => (ApiKey::ShareGroupDescribe, 1, ids),
                Some("streams") => (ApiKey::StreamsGroupDescribe, 1, ids),
                _ => (ApiKey::DescribeGroups, 6, json!({"groups": [id]})),
            };
            let described = self.ask(api, version, &body)?;
            let mut state = json!({
                "type": group["groupType"],
                "state": group["groupState"],
                "protocol_type": group["protocolType"],
                "described": described["groups"][0],
            });
            if group["groupType"] != "share" {
                let all = json!({"groups": [{"groupId": id, "topics": null}]});
                let fetched = self.ask(ApiKey::OffsetFetch, 9, &all)?;
                state["offsets"] = offsets(&fetched["groups"][0]);
            }
            self.outcome.dump.insert(id.as_str().unwrap_or_default().to_owned(), state);
        }
        Ok(())
    }

    /// Sends a request of the test itself. It must be answered by the same call.
    fn ask(&mut self, api: ApiKey, version: i16, body: &Value) -> Result<Value> {
        let bytes = forms::request_bytes(api, version, body)?;
        let request = Request::read(api, version, &mut Reader::new(&bytes))
            .map_err(|error| error.to_string())?;
        let request = of_groups(request)?;
        let id = self.next_request();
        let client = "dump";
        let caller = Caller {
            request: id,
            api_version: version,
            client_id: client,
            client_host: client,
            describes: None,
        };
        let output = self.with_context(|coordinator, context| {
            let output = coordinator.handle(context, caller, request);
            let response = output
                .answers
                .first()
                .map(|answer| forms::response_json(&answer.response, version));
            (output.records.len(), response)
        });
        match output {
            (0, Some(response)) => response,
            (records, _) => Err(format!("{} wrote {records} or did not answer", api.name())),
        }
    }
}

fn replay(
    coordinator: &mut Coordinator,
    producer: Option<Producer>,
    bytes: &RecordBytes,
    position: u64,
) -> Result<()> {
    let record = read(bytes)?;
    match producer {
        Some(producer) => coordinator.replay_in_transaction(producer, &record, position),
        None => coordinator.replay(&record, position),
    }
    Ok(())
}

fn read((key, value): &RecordBytes) -> Result<GroupRecord<'_>> {
    GroupRecord::read(key, value.as_deref())
        .map_err(|error| error.to_string())?
        .ok_or_else(|| "a record of an unknown type".to_owned())
}

fn offsets(group: &Value) -> Value {
    let mut offsets = serde_json::Map::new();
    for topic in group["topics"].as_array().into_iter().flatten() {
        for partition in topic["partitions"].as_array().into_iter().flatten() {
            let name = topic["name"].as_str().unwrap_or_default();
            let state = json!({
                "offset": partition["committedOffset"],
                "leader_epoch": partition["committedLeaderEpoch"],
                "metadata": partition["metadata"],
            });
            offsets.insert(format!("{name}-{}", partition["partitionIndex"]), state);
        }
    }
    Value::Object(offsets)
}

/// Converts to a coordinator's request. No other request is compared.
fn of_groups(request: Request<'_>) -> Result<GroupRequest<'_>> {
    GroupRequest::try_from(request)
        .map_err(|other| format!("{} is not for a coordinator", other.api_key().name()))
}
