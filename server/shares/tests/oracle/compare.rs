//! The comparison of share partitions with Kafka's after each operation.

use crate::argued::Difference;
use crate::broker::{Broker, TakenChange, same};
use crate::json::{int, int32, list, text};
use crate::shown::{Shown, ours};
use crate::state::Check;
use muster_codec::Wall;
use muster_shares::partition::Change;
use muster_shares::{SharePartitionKey, StateBatch};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

impl Broker {
    pub fn compare_answers(&mut self, op: &Value, out: &Value) -> Check {
        let own =
            (out.get("deferred").is_none() && op.get("id").is_some() && op["op"] != "request")
                .then_some(out);
        let completions = list(&out["completions"]);
        for kafkas in own.into_iter().chain(completions) {
            let id = text(&kafkas["id"]);
            let ours = self.answers.remove(id).ok_or(format!("muster has no answer to {id}"))?;
            same(&ours, &answer_of(kafkas))?;
            for partition in list(&kafkas["partitions"]) {
                self.counts.acquired += list(&partition["acquired"]).len();
            }
        }
        match self.answers.first_key_value() {
            Some((id, ours)) => Err(format!("only muster has answered {id}: {ours}")),
            None => Ok(()),
        }
    }

    /// The changes of each share partition must be the sum of those that Kafka wrote.
    pub fn compare_changes(&mut self, out: &Value) -> Check {
        let mut calls: BTreeMap<SharePartitionKey, Vec<&Value>> = BTreeMap::new();
        let writes = list(&out["persister"]).iter().filter(|it| it["kind"] == "write");
        for call in writes {
            let at = self.at(call);
            let key = SharePartitionKey::new(text(&call["group"]), at.topic_id, at.partition);
            calls.entry(key).or_default().push(call);
        }
        let keys: BTreeSet<_> = calls.keys().chain(self.changes.keys()).cloned().collect();
        for key in keys {
            let ours = self.changes.get(&key).map(|all| joined(all));
            let kafkas = calls.get(&key).map(|all| joined_calls(all));
            if ours != kafkas {
                return Err(format!("muster wrote {ours:?}\n  Kafka wrote  {kafkas:?}"));
            }
            if let ([ours], [kafkas]) = (&self.changes[&key][..], &calls[&key][..]) {
                let count = i64::from(ours.change.delivery_complete_count);
                let kafkas = int(&kafkas["delivery_complete_count"]);
                if kafkas < count && count <= kafkas + ours.without_records {
                    self.coordinator.argued.note(Difference::WithoutRecords);
                } else {
                    same(&json!(count), &json!(kafkas))?;
                }
            }
            for call in &calls[&key] {
                self.write(&key, call);
            }
            self.counts.changes += 1;
        }
        Ok(())
    }

    /// Writes a part of a change in the same pieces as Kafka. The pieces become batches of a share
    /// partition that is opened later.
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

    pub fn compare_states(&mut self, out: &Value) -> Check {
        for state in list(&out["states"]) {
            if let Some(closed) = state.get("closed") {
                let (group, name) = text(closed).split_once(' ').unwrap();
                let (topic, partition) = name.rsplit_once('-').unwrap();
                let topic_id = self.coordinator.world.id(topic);
                self.shown.remove(&SharePartitionKey::new(
                    group,
                    topic_id,
                    partition.parse().unwrap(),
                ));
            } else {
                self.shown.insert(self.key_of(state), Shown::read(state));
            }
            self.counts.states += 1;
        }
        let ours = self.open.iter().map(|(key, open)| (key.clone(), ours(&open.partition)));
        let ours: BTreeMap<_, _> = ours.collect();
        for key in ours.keys().chain(self.shown.keys()) {
            let (ours, kafkas) = (ours.get(key), self.shown.get(key));
            if ours != kafkas {
                return Err(format!("{key:?}\n  muster holds {ours:?}\n  Kafka holds  {kafkas:?}"));
            }
        }
        Ok(())
    }

    /// The intended difference that explains why muster's outcome is not Kafka's. `before` is what
    /// Kafka had before the operation.
    pub fn explained(
        &self,
        before: &BTreeMap<SharePartitionKey, Shown>,
        out: &Value,
    ) -> Option<Difference> {
        if out["message"].as_str().is_some_and(|it| it.starts_with("Cannot invoke")) {
            return Some(Difference::Exception);
        }
        let states = list(&out["states"]).iter().filter(|it| it.get("closed").is_none());
        let explained = |it: &Value| {
            let key = self.key_of(it);
            let ours = ours(&self.open.get(&key)?.partition);
            let (before, after) = (before.get(&key)?, Shown::read(it));
            if it.get("gap").is_some() && after.is_done_before(&ours) {
                return Some(Difference::HoleStays);
            }
            explained(before, &after)
        };
        states.filter_map(explained).next()
    }

    fn key_of(&self, shown: &Value) -> SharePartitionKey {
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

/// The start offset of the first change, and the state of each offset. Kafka writes each ended lock
/// separately, and moves the start in between.
type Joined = (i64, BTreeMap<i64, (i64, i64)>);

fn joined(changes: &[TakenChange]) -> Joined {
    let mut offsets = BTreeMap::new();
    for batch in changes.iter().flat_map(|it| &it.change.batches) {
        let state = (i64::from(batch.delivery_state), i64::from(batch.delivery_count));
        offsets.extend((batch.first..=batch.last).map(|offset| (offset, state)));
    }
    (changes[0].change.start_offset, offsets)
}

fn joined_calls(calls: &[&Value]) -> Joined {
    let mut offsets = BTreeMap::new();
    for batch in calls.iter().flat_map(|it| list(&it["batches"])) {
        let state = (int(&batch[2]), int(&batch[3]));
        offsets.extend((int(&batch[0])..=int(&batch[1])).map(|offset| (offset, state)));
    }
    (int(&calls[0]["start_offset"]), offsets)
}
