//! The outcome of an operation. Kafka's and muster's have the same form.

use crate::empties::{Empties, without_empty};
use crate::forms::{self, Result};
use crate::scope::{Asked, Scope, group_of};
use crate::transactional;
use crate::transcript::Line;
use muster_codec::ApiKey;
use muster_coordinator::Producer;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The compared requests that are not answered yet, by id.
pub type Pending = HashMap<String, Asked>;

/// The compared records and responses of an operation.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Outcome {
    /// The records, by time and group id.
    pub records: BTreeMap<(i64, String), Vec<Value>>,
    /// The answers, by request id.
    pub answers: BTreeMap<String, Value>,
    /// The dumped states, by group id.
    pub dump: BTreeMap<String, Value>,
}

impl Outcome {
    /// Reads Kafka's outcome from a transcript.
    pub fn of_kafka(
        line: &Line,
        scope: &Scope,
        pending: &Pending,
        empties: &Empties,
    ) -> Result<Self> {
        if line.output["error"] == "ORACLE" || line.output.get("load_error").is_some() {
            return Err(format!("the oracle could not do this: {}", line.output));
        }
        let mut outcome = Self::default();
        for (index, Written { at, producer, record }) in kafka_written(line).enumerate() {
            if scope.has(group_of(record)) && !empties.repeats(index) {
                let key = (at, group_of(record).to_owned());
                let mut record = forms::kafka_record_json(record)?;
                if is_of_share(&record) {
                    record = without_empty(record);
                }
                let record = in_transaction(record, producer);
                outcome.records.entry(key).or_default().push(record);
            }
        }
        for (id, response) in kafka_answers(line) {
            if let Some(asked) = pending.get(id) {
                let mut response = empties.answer(asked.api, &asked.body, response.clone());
                scope.narrow(asked, &mut response);
                let response = asked.kafka_response(&response)?;
                let missing = line.output.get("creatable_topics").filter(|_| is_own(line, id));
                let response = with_missing(response, missing.cloned());
                outcome.answers.insert(id.to_owned(), response);
            }
        }
        for (group, state) in line.output["groups"].as_object().into_iter().flatten() {
            if scope.shows(group) {
                outcome.dump.insert(group.clone(), kafka_state(state)?);
            }
        }
        outcome.sort_runs();
        Ok(outcome)
    }

    /// Drops everything that is not compared.
    pub fn narrow(&mut self, scope: &Scope, pending: &Pending) {
        self.records.retain(|(_, group), _| scope.has(group));
        self.dump.retain(|group, _| scope.shows(group));
        self.answers.retain(|id, _| pending.contains_key(id));
        for (id, response) in &mut self.answers {
            scope.narrow(&pending[id], response);
        }
        self.sort_runs();
    }

    /// Sorts adjacent records whose order does not matter: the records of one type, or the
    /// tombstones of removed members.
    fn sort_runs(&mut self) {
        for records in self.records.values_mut() {
            for run in records.chunk_by_mut(|a, b| run_of(a) == run_of(b)) {
                if removed_member(&run[0]).is_some() {
                    run.sort_by_cached_key(|it| removed_member(it).map(str::to_owned))
                } else {
                    run.sort_by_cached_key(|record| record["key"].to_string())
                }
            }
        }
    }
}

/// A record that Kafka wrote, with its transaction.
pub struct Written<'l> {
    pub at: i64,
    /// The producer, if the record is part of a transaction.
    pub producer: Option<Producer>,
    pub record: &'l Value,
}

/// All records that Kafka wrote for a line.
pub fn kafka_written(line: &Line) -> impl Iterator<Item = Written<'_>> {
    line.output["batches"].as_array().into_iter().flatten().flat_map(|batch| {
        let at = batch["at"].as_i64().unwrap_or_default();
        let producer = transactional::producer(batch);
        let records = batch["records"].as_array().into_iter().flatten();
        records.map(move |record| Written { at, producer, record })
    })
}

pub fn kafka_records(line: &Line) -> impl Iterator<Item = &Value> {
    kafka_written(line).map(|it| it.record)
}

/// A record with the producer of its transaction.
pub fn in_transaction(mut record: Value, producer: Option<Producer>) -> Value {
    if let Some(Producer { id, epoch }) = producer {
        record["producer"] = json!([id, epoch]);
    }
    record
}

fn kafka_answers(line: &Line) -> impl Iterator<Item = (&str, &Value)> {
    let later = line.output["completions"].as_array().into_iter().flatten();
    std::iter::once(&line.output)
        .chain(later)
        .filter_map(|answer| Some((answer["id"].as_str()?, answer.get("response")?)))
}

/// Removes from a response the internal topics that are missing, if commits are held: then the
/// oracle does not always show these topics.
pub fn without_missing(mut response: Value, held: bool) -> Value {
    let fields = response.as_object_mut().filter(|_| held);
    fields.map(|fields| fields.remove("creatable_topics"));
    response
}

/// The requests that Kafka never answers.
pub fn unanswered(lines: &[Line]) -> HashSet<String> {
    let id = |answer: &Value| answer["id"].as_str().map(str::to_owned);
    let later = lines.iter().filter_map(|line| line.output["completions"].as_array()).flatten();
    let answered: HashSet<String> = later.filter_map(id).collect();
    let deferred = lines.iter().map(|line| &line.output).filter(|out| out["deferred"] == true);
    deferred.filter_map(id).filter(|id| !answered.contains(id)).collect()
}

fn is_own(line: &Line, id: &str) -> bool {
    line.output["id"] == id
}

/// Adds the internal topics that are to be created for the group to an answer.
pub fn with_missing(mut response: Value, missing: Option<Value>) -> Value {
    if let Some(missing) = missing {
        response["creatable_topics"] = missing;
    }
    response
}

fn kafka_state(state: &Value) -> Result<Value> {
    let mut state = state.clone();
    if state["type"] == "share" {
        state["described"] = without_empty(state["described"].take());
    }
    let described = json!({"groups": [state["described"].take()]});
    let (api, version) = match state["type"].as_str() {
        Some("consumer") => (ApiKey::ConsumerGroupDescribe, 1),
        Some("share") => (ApiKey::ShareGroupDescribe, 1),
        Some("streams") => (ApiKey::StreamsGroupDescribe, 1),
        _ => (ApiKey::DescribeGroups, 6),
    };
    let mut described = forms::kafka_response(api, version, &described)?;
    state["described"] = described["groups"][0].take();
    Ok(state)
}

/// Whether the record is an assignment in a share group.
fn is_of_share(record: &Value) -> bool {
    record["type"].as_str().is_some_and(|it| it.starts_with("SHARE_") && it.contains("ASSIGNMENT"))
}

fn run_of(record: &Value) -> (&Value, bool) {
    match removed_member(record) {
        Some(_) => (&Value::Null, true),
        None => (&record["type"], record["value"].is_null()),
    }
}

fn removed_member(record: &Value) -> Option<&str> {
    record["key"]["data"]["memberId"].as_str().filter(|_| record["value"].is_null())
}
