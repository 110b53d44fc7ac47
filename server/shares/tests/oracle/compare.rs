//! The comparison of share partitions with Kafka's after each operation.

use crate::argued::Difference;
use crate::broker::{Broker, Holes, TakenChange, same};
use crate::json::{int, int32, list, text};
use crate::shown::{Shown, ours};
use crate::state::Check;
use muster_codec::Wall;
use muster_shares::partition::Change;
use muster_shares::{SharePartitionKey, StateBatch};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A difference in the outcome of an operation.
#[derive(Debug)]
pub struct Differs {
    /// The share partition that differs. None if it is unknown, or if something else differs.
    pub at: Option<SharePartitionKey>,
    pub what: String,
}

impl Differs {
    pub fn unplaced(what: String) -> Self {
        Self { at: None, what }
    }

    pub fn of(at: &SharePartitionKey, what: String) -> Self {
        Self { at: Some(at.clone()), what }
    }
}

/// muster's answer to a request of a group.
#[derive(Debug)]
pub struct Answer {
    pub group: String,
    pub body: Value,
}

impl Broker {
    pub fn compare_answers(&mut self, op: &Value, out: &Value) -> Vec<Differs> {
        let own =
            (out.get("deferred").is_none() && op.get("id").is_some() && op["op"] != "request")
                .then_some(out);
        let completions = list(&out["completions"]);
        let mut differs = Vec::new();
        for kafkas in own.into_iter().chain(completions) {
            let id = text(&kafkas["id"]);
            let Some(Answer { group, body: ours }) = self.answers.remove(id) else {
                let group = self.waiting_group(id).unwrap_or_else(|| text(&op["group"]));
                let what = format!("muster has no answer to {id}");
                differs.extend(self.of_each(group, &answer_of(kafkas), &what));
                continue;
            };
            differs.extend(self.compare_answer(&group, &ours, &answer_of(kafkas)));
            for partition in list(&kafkas["partitions"]) {
                self.counts.acquired += list(&partition["acquired"]).len();
            }
        }
        for (id, Answer { group, body }) in &self.answers {
            let what = format!("only muster has answered {id}: {body}");
            differs.extend(self.of_each(group, body, &what));
        }
        differs
    }

    fn compare_answer(&self, group: &str, ours: &Value, kafkas: &Value) -> Vec<Differs> {
        if ours.get("error") != kafkas.get("error") {
            let what = format!("muster: {ours}\n  Kafka:  {kafkas}");
            let has_partitions = ours.get("partitions").is_some();
            return self.of_each(group, if has_partitions { ours } else { kafkas }, &what);
        }
        let (ours, kafkas) = (self.by_partition(group, ours), self.by_partition(group, kafkas));
        different(&ours, &kafkas)
    }

    /// The parts of an answer.
    fn by_partition<'v>(
        &self,
        group: &str,
        answer: &'v Value,
    ) -> BTreeMap<SharePartitionKey, &'v Value> {
        let key = |it: &Value| {
            let at = self.at(it);
            SharePartitionKey::new(group, at.topic_id, at.partition)
        };
        list(&answer["partitions"]).iter().map(|it| (key(it), it)).collect()
    }

    /// If an answer differs, each partition with acquired records or an error in it counts as
    /// different.
    fn of_each(&self, group: &str, answer: &Value, what: &str) -> Vec<Differs> {
        let says = |it: &Value| it["acquired"] != json!([]) || it.get("error").is_some();
        let parts = self.by_partition(group, answer);
        let keys: Vec<_> = parts.iter().filter(|(_, it)| says(it)).map(|(key, _)| key).collect();
        if keys.is_empty() {
            return vec![Differs::unplaced(what.to_owned())];
        }
        keys.into_iter().map(|key| Differs::of(key, what.to_owned())).collect()
    }

    /// For each share partition, muster's changes of the operation, all together, must equal those
    /// that Kafka wrote.
    pub fn compare_changes(&mut self, out: &Value) -> Vec<Differs> {
        let mut calls: BTreeMap<SharePartitionKey, Vec<&Value>> = BTreeMap::new();
        let writes = list(&out["persister"]).iter().filter(|it| it["kind"] == "write");
        for call in writes {
            calls.entry(self.key_of(call)).or_default().push(call);
        }
        let keys: BTreeSet<_> = calls.keys().chain(self.changes.keys()).cloned().collect();
        let mut differs = Vec::new();
        for key in keys {
            let compared = self.compare_change(&key, calls.get(&key).map_or(&[], Vec::as_slice));
            differs.extend(compared.err().map(|what| Differs::of(&key, what)));
        }
        differs
    }

    fn compare_change(&mut self, key: &SharePartitionKey, calls: &[&Value]) -> Check {
        let ours = self.changes.get(key).map_or(&[][..], Vec::as_slice);
        let (joined, kafkas) = (joined(ours), joined_calls(calls));
        if joined != kafkas {
            return Err(format!("muster wrote {joined:?}\n  Kafka wrote  {kafkas:?}"));
        }
        if let ([ours], [kafkas]) = (ours, calls) {
            let count = i64::from(ours.change.delivery_complete_count);
            let kafkas = int(&kafkas["delivery_complete_count"]);
            if kafkas < count && count <= kafkas + ours.without_records {
                self.coordinator.argued.note(Difference::WithoutRecords);
            } else {
                same(&json!(count), &json!(kafkas))?;
            }
        }
        for call in calls {
            self.write(key, call);
        }
        self.counts.changes += 1;
        Ok(())
    }

    /// Writes a change in the same batches as Kafka. If the share partition is opened again later,
    /// these batches of its state decide what is acquired together.
    fn write(&mut self, key: &SharePartitionKey, call: &Value) {
        let batch = |it: &Value| StateBatch {
            first: int(&it[0]),
            last: int(&it[1]),
            delivery_count: i16::try_from(int(&it[3])).unwrap(),
            delivery_state: i8::try_from(int(&it[2])).unwrap(),
        };
        let change = Change {
            start_offset: int(&call["start_offset"]),
            delivery_complete_count: int32(&call["delivery_complete_count"]),
            batches: list(&call["batches"]).iter().map(batch).collect(),
        };
        let states = &self.coordinator.states;
        let record = states.change(key, &change.as_write(), Wall(self.now)).unwrap();
        assert!(self.coordinator.append(record));
    }

    pub fn compare_states(&mut self, out: &Value) -> Vec<Differs> {
        for state in list(&out["states"]) {
            if let Some(closed) = state.get("closed") {
                let (group, name) = text(closed).split_once(' ').unwrap();
                let (topic, partition) = name.rsplit_once('-').unwrap();
                let topic_id = self.coordinator.world.id(topic);
                let key = SharePartitionKey::new(group, topic_id, partition.parse().unwrap());
                self.with_hole.remove(&key);
                self.shown.remove(&key);
            } else {
                let key = self.key_of(state);
                match state.get("gap") {
                    Some(gap) => {
                        let passed = int(&gap[0]) < int(&state["start"]);
                        self.with_hole.insert(key.clone(), passed);
                    }
                    None => drop(self.with_hole.remove(&key)),
                }
                self.shown.insert(key, Shown::read(state));
            }
            self.counts.states += 1;
        }
        let ours = self.open.iter().map(|(key, open)| (key.clone(), ours(&open.partition)));
        different(&ours.collect(), &self.shown)
    }

    /// The intended difference that explains why a share partition differs from Kafka's. `before`
    /// is Kafka's state before the operation.
    pub fn explained(
        &self,
        (before, with_hole): &(BTreeMap<SharePartitionKey, Shown>, Holes),
        (op, out): (&Value, &Value),
        at: &SharePartitionKey,
    ) -> Option<Difference> {
        let fails = out["message"].as_str().is_some_and(|it| it.starts_with("Cannot invoke"));
        if fails && self.by_partition(text(&op["group"]), op).contains_key(at) {
            return Some(Difference::Exception);
        }
        if op["op"] == "fetch" {
            let of_fetch = self.by_partition(text(&op["group"]), op);
            let has_passed = |key: &SharePartitionKey| with_hole.get(key) == Some(&true);
            if of_fetch.contains_key(at) && of_fetch.keys().any(has_passed) {
                return Some(Difference::HoleStays);
            }
        }
        let mut states = list(&out["states"]).iter().filter(|it| it.get("closed").is_none());
        let state = states.find(|it| self.key_of(it) == *at)?;
        let ours = ours(&self.open.get(at)?.partition);
        let after = Shown::read(state);
        let is_loaded = !before.contains_key(at);
        let has_hole = with_hole.contains_key(at) || self.with_hole.contains_key(at);
        if (is_loaded || has_hole) && after.is_done_before(&ours) {
            return Some(Difference::HoleStays);
        }
        let before = before.get(at)?;
        explained(before, &after)
    }

    pub fn key_of(&self, shown: &Value) -> SharePartitionKey {
        let at = self.at(shown);
        SharePartitionKey::new(text(&shown["group"]), at.topic_id, at.partition)
    }
}

fn explained(before: &Shown, after: &Shown) -> Option<Difference> {
    if after.starts_before(before) {
        Some(Difference::StartGoesBack)
    } else if after.is_acquired_across_start() && !before.is_acquired_across_start() {
        Some(Difference::BeforeStart)
    } else {
        None
    }
}

/// The share partitions whose parts of an outcome differ.
pub fn different<T: PartialEq + Debug>(
    ours: &BTreeMap<SharePartitionKey, T>,
    kafkas: &BTreeMap<SharePartitionKey, T>,
) -> Vec<Differs> {
    let keys: BTreeSet<_> = ours.keys().chain(kafkas.keys()).collect();
    let pairs = keys.into_iter().map(|key| (key, ours.get(key), kafkas.get(key)));
    let differing = pairs.filter(|(_, ours, kafkas)| ours != kafkas);
    let what = |(key, ours, kafkas)| {
        let what = format!("{key:?}\n  muster has {ours:?}\n  Kafka has  {kafkas:?}");
        Differs::of(key, what)
    };
    differing.map(what).collect()
}

/// The compared parts of an answer.
fn answer_of(kafkas: &Value) -> Value {
    if let Some(error) = kafkas.get("error") {
        return json!({"error": error});
    }
    let mut partitions = kafkas["partitions"].clone();
    for partition in partitions.as_array_mut().unwrap() {
        partition.as_object_mut().unwrap().remove("message");
    }
    json!({"partitions": partitions})
}

/// All changes of a share partition, joined: the start offset of the first one, and the last state
/// of each offset. None if there are no changes. They are joined because Kafka writes the end of
/// each lock separately, and may move the start offset in between.
type Joined = Option<(i64, BTreeMap<i64, (i64, i64)>)>;

fn joined(changes: &[TakenChange]) -> Joined {
    let mut offsets = BTreeMap::new();
    for batch in changes.iter().flat_map(|it| &it.change.batches) {
        let state = (i64::from(batch.delivery_state), i64::from(batch.delivery_count));
        offsets.extend((batch.first..=batch.last).map(|offset| (offset, state)));
    }
    Some((changes.first()?.change.start_offset, offsets))
}

fn joined_calls(calls: &[&Value]) -> Joined {
    let mut offsets = BTreeMap::new();
    for batch in calls.iter().flat_map(|it| list(&it["batches"])) {
        let state = (int(&batch[2]), int(&batch[3]));
        offsets.extend((int(&batch[0])..=int(&batch[1])).map(|offset| (offset, state)));
    }
    Some((int(&calls.first()?["start_offset"]), offsets))
}
