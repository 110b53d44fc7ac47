//! Compares share state with Kafka's share coordinator: requests, records, jobs and states.
//!
//! This file imitates parts of Kafka's runtime: the log, answers that wait for a commit, failing
//! appends, and pruning.

use crate::argued::{Argued, Difference};
use crate::json::{
    from_state_batches, int, int32, key_of, list, record, state_batches, text, through_bytes, uuid,
};
use crate::topics::World;
use crate::transcript::{Line, Transcript};
use muster_codec::Wall;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_shares::state::{Initialize, Refusal, Summary, Write, is_answered_empty};
use muster_shares::{SharePartitionKey, State, States};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Makes a job visit all states.
pub type Check = Result<(), String>;

#[derive(Debug)]
pub struct Coordinator {
    pub states: States,
    pub world: World,
    pub argued: Argued,
    pub records: usize,
    pub answers: usize,
    config: Config,
    began: i64,
    pub now: i64,
    /// The log since it was last pruned.
    log: Vec<Logged>,
    was_held: bool,
    append_fails: bool,
    /// The answers that wait for a commit, by request.
    waiting: BTreeMap<String, Value>,
    /// Share partitions whose state differs intentionally, until their next snapshot.
    differing: BTreeSet<SharePartitionKey>,
    /// The share partitions for which Kafka wrote records in the current operation.
    kafka_wrote: BTreeSet<SharePartitionKey>,
    /// muster's records in the current operation.
    written: Vec<ShareRecord<'static>>,
}

#[derive(Debug)]
struct Logged {
    record: ShareRecord<'static>,
    /// The end of Kafka's batch that has the record. `i64::MAX` for a record of muster that is not
    /// compared with Kafka's yet.
    batch_end: i64,
}

#[derive(Debug)]
struct Config {
    updates_per_snapshot: u32,
    cold_interval_ms: i64,
}

/// Replays a transcript. The error names the first difference.
pub fn replay(transcript: &Transcript) -> Result<Coordinator, String> {
    let mut coordinator = Coordinator::new(&transcript.lines[0].input);
    for (number, line) in transcript.lines.iter().enumerate().skip(1) {
        let place =
            |what| format!("{} line {}: {}\n  {what}", transcript.name, number + 1, line.input);
        coordinator.apply(line).map_err(place)?;
    }
    Ok(coordinator)
}

impl Coordinator {
    pub fn new(op: &Value) -> Self {
        let config = |name: &str, otherwise| op["config"].get(name).map_or(otherwise, int);
        let limit = config("share.coordinator.snapshot.update.records.per.snapshot", 500);
        let cold = "share.coordinator.cold.partition.snapshot.interval.ms";
        let config = Config {
            updates_per_snapshot: u32::try_from(limit).unwrap(),
            cold_interval_ms: config(cold, 300_000),
        };
        let mut world = World::default();
        world.change(op);
        Self {
            states: States::new(config.updates_per_snapshot),
            world,
            argued: Argued::default(),
            records: 0,
            answers: 0,
            config,
            began: int(&op["now"]),
            now: int(&op["now"]),
            log: Vec::new(),
            was_held: false,
            append_fails: false,
            waiting: BTreeMap::new(),
            differing: BTreeSet::new(),
            kafka_wrote: BTreeSet::new(),
            written: Vec::new(),
        }
    }

    fn apply(&mut self, line: &Line) -> Check {
        let (op, out) = (&line.input, &line.output);
        let before = self.now;
        self.now = int(&out["now"]);
        let kafkas = list(&out["batches"]).iter().flat_map(|batch| list(&batch["records"]));
        self.kafka_wrote = kafkas.map(|it| key_of(&record(it))).collect();
        match text(&op["op"]) {
            "request" => {
                let answer = self.request(op);
                self.waiting.insert(text(&op["id"]).to_owned(), answer);
            }
            "topics" => self.topics(op),
            "hold" => {
                self.was_held = true;
            }
            "commit" => {}
            "fail" => self.append_fails = true,
            "advance" => self.advance(before, out)?,
            "reload" => {}
            "dump" => self.compare_dump(out)?,
            other => return Err(format!("no such operation: {other}")),
        }
        if op["op"] != "advance" {
            self.compare_records(out, |_| true)?;
        }
        self.prune(out);
        if op["op"] == "reload" {
            self.reload();
        }
        self.compare_answers(op, out)
    }

    fn topics(&mut self, op: &Value) {
        let gone = self.world.change(op);
        let ends = self.states.without_topics(None, usize::MAX, |id| gone.contains(&id));
        self.append_all(ends.records);
    }

    /// Writes snapshots of cold share partitions at the times at which Kafka wrote batches, and at
    /// those at which its job was due. So muster may not write any that Kafka has not written. If
    /// Kafka's job was delayed, because it waited for the log, the due times do not count.
    fn advance(&mut self, before: i64, out: &Value) -> Check {
        let interval = self.config.cold_interval_ms;
        let mut times: Vec<_> = list(&out["batches"]).iter().map(|it| int(&it["at"])).collect();
        if !self.was_held {
            let due = (before - self.began) / interval + 1..=(self.now - self.began) / interval;
            times.extend(due.map(|it| self.began + it * interval));
        }
        times.sort_unstable();
        times.dedup();
        for at in times {
            self.snapshot_cold(at);
            self.compare_records(out, |it| it["at"] == at)?;
        }
        Ok(())
    }

    /// Drops the batches of the log that Kafka pruned. Always drops whole batches: in the oracle's
    /// output, the records of a batch have another order than in its log.
    pub fn prune(&mut self, out: &Value) {
        let start = out["pruned"].as_i64();
        self.log.retain(|it| start.is_none_or(|start| it.batch_end > start));
    }

    pub fn reload(&mut self) {
        self.states = States::new(self.config.updates_per_snapshot);
        self.log.iter().for_each(|it| self.states.replay(&it.record));
    }

    /// Appends and replays a record. If the oracle's append failed in this operation, this one
    /// fails, too, unless the failed append was one of a background job. Returns false if it
    /// failed.
    pub fn append(&mut self, record: ShareRecord<'static>) -> bool {
        if self.has_failed(&key_of(&record)) {
            return false;
        }
        let record = through_bytes(&record);
        self.states.replay(&record);
        self.written.push(record.clone());
        self.log.push(Logged { record, batch_end: i64::MAX });
        true
    }

    /// Whether the oracle's next append fails. If Kafka wrote a record for this share partition,
    /// the append that failed was another one.
    fn has_failed(&mut self, key: &SharePartitionKey) -> bool {
        std::mem::take(&mut self.append_fails) && !self.kafka_wrote.contains(key)
    }

    /// The next time after `after` at which cold share partitions get a snapshot.
    pub fn next_cold(&self, after: i64) -> i64 {
        let interval = self.config.cold_interval_ms;
        self.began + ((after - self.began) / interval + 1) * interval
    }

    pub fn snapshot_cold(&mut self, now: i64) {
        if !self.states.are_quiet() {
            let interval_ms = self.config.cold_interval_ms;
            let cold = self.states.cold_snapshots(None, usize::MAX, interval_ms, Wall(now));
            self.append_all(cold.records);
        }
    }

    /// Appends records that Kafka writes as one batch.
    fn append_all(&mut self, records: Vec<ShareRecord<'static>>) {
        let mut records = records.into_iter();
        if records.next().is_some_and(|first| self.append(first)) {
            records.for_each(|record| assert!(self.append(record)));
        }
    }

    /// Compares muster's records of this operation with Kafka's: they must be equal, except for
    /// intended differences. In muster's log they are replaced by Kafka's.
    fn compare_records(&mut self, out: &Value, which: impl Fn(&Value) -> bool) -> Check {
        let mut ours = std::mem::take(&mut self.written);
        self.log.truncate(self.log.len() - ours.len());
        let batches = list(&out["batches"]).iter().filter(|batch| which(batch));
        let kafkas = batches.flat_map(|batch| {
            let records = list(&batch["records"]);
            let end = int(&batch["offset"]) + i64::try_from(records.len()).unwrap();
            records.iter().map(move |it| (record(it), end))
        });
        for (kafkas, batch_end) in kafkas {
            let key = key_of(&kafkas);
            let at = ours.iter().position(|it| key_of(it) == key);
            match at.map(|at| ours.remove(at)) {
                Some(ours) if ours == kafkas => self.records += 1,
                other => self.take_kafkas(&kafkas, other.as_ref())?,
            }
            self.log.push(Logged { record: kafkas, batch_end });
        }
        match ours.iter().find(|it| !self.differing.contains(&key_of(it))) {
            Some(record) => Err(format!("only muster wrote {record:?}")),
            None => Ok(()),
        }
    }

    /// Adopts Kafka's record for a share partition that differs intentionally.
    fn take_kafkas(
        &mut self,
        kafkas: &ShareRecord<'static>,
        ours: Option<&ShareRecord<'_>>,
    ) -> Check {
        let key = key_of(kafkas);
        if !self.differing.contains(&key) {
            return Err(format!("muster wrote {ours:?}\n  Kafka wrote  {kafkas:?}"));
        }
        if matches!(kafkas.value, ShareValue::Snapshot(_) | ShareValue::Deleted) {
            self.differing.remove(&key);
        }
        self.states.replay(kafkas);
        Ok(())
    }

    fn compare_answers(&mut self, op: &Value, out: &Value) -> Check {
        let own = op.get("id").filter(|_| out.get("deferred").is_none());
        let own = own.map(|id| (text(id), &out["response"]));
        let others = list(&out["completions"]).iter();
        let others = others.map(|it| (text(&it["id"]), &it["response"]));
        for (id, kafkas) in own.into_iter().chain(others) {
            let Some(ours) = self.waiting.remove(id) else { continue };
            let (ours, kafkas) = (results(&ours), results(kafkas));
            if !is_same_answer(&ours, &kafkas) {
                return Err(format!("muster answered {ours:?}\n  Kafka answered  {kafkas:?}"));
            }
            self.answers += 1;
        }
        Ok(())
    }

    /// Checks that each state is in Kafka's dump. The dump has topics by name, not by id. If a
    /// topic was deleted and created again, the dump may have two states for its name: the old
    /// state stays if its tombstone cannot be appended.
    fn compare_dump(&self, out: &Value) -> Check {
        let mut kafkas: Vec<&Value> = list(&out["coordinator"]).iter().collect();
        for (key, state) in self.states.iter().filter(|(key, _)| !self.differing.contains(key)) {
            let ours = self.dumped(key, state);
            let at = kafkas.iter().position(|it| **it == ours);
            kafkas.remove(at.ok_or_else(|| format!("Kafka does not hold {ours}"))?);
        }
        let differs = |it: &&Value| self.differing.iter().any(|key| self.is_dumped_as(key, it));
        match kafkas.into_iter().find(|it| !differs(it)) {
            Some(kafkas) => Err(format!("only Kafka holds {kafkas}")),
            None => Ok(()),
        }
    }

    fn is_dumped_as(&self, key: &SharePartitionKey, dumped: &Value) -> bool {
        let of_key = (&*key.group_id, self.world.name(key.topic_id), key.partition);
        of_key == (text(&dumped["group"]), text(&dumped["topic"]), int32(&dumped["partition"]))
    }

    fn dumped(&self, key: &SharePartitionKey, state: &State) -> Value {
        let batch = |it: &muster_shares::StateBatch| {
            json!([it.first, it.last, it.delivery_state, it.delivery_count])
        };
        json!({
            "group": &*key.group_id, "topic": self.world.name(key.topic_id),
            "partition": key.partition, "snapshot_epoch": state.snapshot_epoch,
            "state_epoch": state.state_epoch, "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
            "created": state.created, "written": state.written,
            "fence_leader_epoch": state.fence.leader_epoch,
            "fence_state_epoch": state.fence.state_epoch, "updates": state.updates,
            "batches": state.batches.iter().map(batch).collect::<Vec<_>>(),
        })
    }

    pub fn request(&mut self, op: &Value) -> Value {
        let (api, body) = (text(&op["api"]), &op["body"]);
        let (group, topics) = (text(&body["groupId"]), list(&body["topics"]));
        let partitions = topics.iter().map(|topic| list(&topic["partitions"]).len());
        if is_answered_empty(group, partitions, api == "InitializeShareGroupState") {
            return json!({"results": []});
        }
        let mut results = Vec::new();
        for topic in topics {
            let mut answers = BTreeMap::new();
            for partition in list(&topic["partitions"]) {
                let number = int32(&partition["partition"]);
                let key = SharePartitionKey::new(group, uuid(&topic["topicId"]), number);
                answers.insert(number, self.one(api, &key, partition));
            }
            let answers: Vec<_> = answers.into_values().collect();
            results.push(json!({"topicId": topic["topicId"], "partitions": answers}));
        }
        json!({"results": results})
    }

    /// Handles a request for one share partition.
    fn one(&mut self, api: &str, key: &SharePartitionKey, body: &Value) -> Value {
        let answer = match api {
            "InitializeShareGroupState" => self.initialize(key, body),
            "ReadShareGroupState" => self.read(key, body),
            "WriteShareGroupState" => self.write(key, body),
            "DeleteShareGroupState" => self.delete(key),
            "ReadShareGroupStateSummary" => self.summary(key),
            other => panic!("no such API: {other}"),
        };
        let mut answer = answer.unwrap_or_else(refused);
        answer["partition"] = json!(key.partition);
        if self.differing.contains(key) {
            answer["differs"] = json!(true);
        }
        answer
    }

    fn initialize(&mut self, key: &SharePartitionKey, body: &Value) -> Result<Value, Refusal> {
        let request = Initialize {
            state_epoch: int32(&body["stateEpoch"]),
            start_offset: int(&body["startOffset"]),
        };
        match self.states.initialize(key, request, &self.world, Wall(self.now))? {
            Some(record) => Ok(self.answered(record, json!({}))),
            None => {
                // The state is as requested already. muster writes nothing. Kafka resets the state
                // and writes a snapshot. `compare_records` replays it in muster, so that the two
                // states stay equal.
                if !self.has_failed(key) {
                    self.argued.note(Difference::InitializedAgain);
                    self.differing.insert(key.clone());
                }
                Ok(success(json!({})))
            }
        }
    }

    fn read(&mut self, key: &SharePartitionKey, body: &Value) -> Result<Value, Refusal> {
        let leader_epoch = int32(&body["leaderEpoch"]);
        let (reading, record) = self.states.read(key, leader_epoch, &self.world, Wall(self.now))?;
        let answer = json!({
            "stateEpoch": reading.state_epoch, "startOffset": reading.start_offset,
            "stateBatches": from_state_batches(&reading.batches),
        });
        Ok(match record {
            Some(record) => self.answered(record, answer),
            None => success(answer),
        })
    }

    fn write(&mut self, key: &SharePartitionKey, body: &Value) -> Result<Value, Refusal> {
        let batches = state_batches(&body["stateBatches"]);
        let request = Write {
            leader_epoch: int32(&body["leaderEpoch"]),
            state_epoch: int32(&body["stateEpoch"]),
            start_offset: int(&body["startOffset"]),
            delivery_complete_count: int32(&body["deliveryCompleteCount"]),
            batches: &batches,
        };
        let record = self.states.write(key, &request, &self.world, Wall(self.now))?;
        Ok(self.answered(record, json!({})))
    }

    fn delete(&mut self, key: &SharePartitionKey) -> Result<Value, Refusal> {
        Ok(match self.states.delete(key, &self.world)? {
            Some(record) => self.answered(record, json!({})),
            None => success(json!({})),
        })
    }

    fn summary(&mut self, key: &SharePartitionKey) -> Result<Value, Refusal> {
        let Summary { state_epoch, leader_epoch, start_offset, delivery_complete_count } =
            self.states.summary(key, &self.world)?;
        Ok(success(json!({
            "stateEpoch": state_epoch, "leaderEpoch": leader_epoch, "startOffset": start_offset,
            "deliveryCompleteCount": delivery_complete_count,
        })))
    }

    /// The answer after appending the record.
    fn answered(&mut self, record: ShareRecord<'static>, answer: Value) -> Value {
        if self.append(record) { success(answer) } else { json!({"appendFailed": true}) }
    }
}

fn success(mut answer: Value) -> Value {
    answer["errorCode"] = json!(0);
    answer["errorMessage"] = Value::Null;
    answer
}

fn refused(Refusal { error, message }: Refusal) -> Value {
    json!({"errorCode": error as i16, "errorMessage": message})
}

/// The results by topic and partition.
fn results(response: &Value) -> BTreeMap<(String, i64), Value> {
    let mut all = BTreeMap::new();
    for topic in list(&response["results"]) {
        for partition in list(&topic["partitions"]) {
            let key = (text(&topic["topicId"]).to_owned(), int(&partition["partition"]));
            all.insert(key, partition.clone());
        }
    }
    all
}

fn is_same_answer(
    ours: &BTreeMap<(String, i64), Value>,
    kafkas: &BTreeMap<(String, i64), Value>,
) -> bool {
    ours.keys().eq(kafkas.keys()) && ours.iter().all(|(key, ours)| is_same(ours, &kafkas[key]))
}

/// Compares only the error and the message of a refusal. Errors of Kafka's runtime (its log,
/// time-outs) are not decisions about the state, so they are not compared.
fn is_same(ours: &Value, kafkas: &Value) -> bool {
    let of_runtime = kafkas["errorMessage"].as_str().is_some_and(|it| it.starts_with("Unable to"));
    if ours.get("differs").is_some() || of_runtime {
        return true;
    }
    if ours.get("appendFailed").is_some() {
        return false;
    }
    let errors = |it: &Value| (it["errorCode"].clone(), it["errorMessage"].clone());
    if ours["errorCode"] == 0 { ours == kafkas } else { errors(ours) == errors(kafkas) }
}
