//! Descriptions of topologies. Kafka's broker passes them to a plugin, and the group's record says
//! which of them the plugin has. The oracle's plugin can fail, wait or lose a description. muster
//! keeps a description in the record of the topology. Only the behavior that both servers can have
//! is compared.

use crate::forms;
use crate::outcome::{Outcome, Pending, kafka_records};
use crate::scope::{Scope, group_of};
use crate::transcript::Line;
use muster_codec::ApiKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The fields about descriptions, in the records of groups and topologies.
const FIELDS: [(&str, &[&str]); 2] = [
    (METADATA, &["storedDescriptionTopologyEpoch", "failedDescriptionTopologyEpoch"]),
    ("STREAMS_GROUP_TOPOLOGY", &["description"]),
];

const METADATA: &str = "STREAMS_GROUP_METADATA";
const PUSH: &str = "StreamsGroupTopologyDescriptionUpdate";
const REQUIRED: &str = "topologyDescriptionRequired";

/// The errors with which both Kafka and muster refuse a description: UNKNOWN_MEMBER_ID,
/// INVALID_REQUEST, GROUP_ID_NOT_FOUND.
const REFUSED: [i64; 3] = [25, 42, 69];

/// The errors if the plugin fails to delete: UNKNOWN_SERVER_ERROR (old versions),
/// GROUP_DELETION_FAILED.
const UNDELETED: [i64; 2] = [-1, 134];
const REBALANCE_IN_PROGRESS: i64 = 27;

/// In a group's record: nothing is stored.
const NOTHING: i64 = -1;

/// The descriptions that Kafka's plugin has, and whether muster has the same.
#[derive(Debug, Default)]
pub struct Descriptions {
    has_plugin: bool,
    is_held: bool,
    /// Whether the plugin cannot read.
    get_fails: bool,
    /// The epoch of the description that the plugin has, by group.
    stored: BTreeMap<String, i64>,
    /// The groups whose description perhaps only one of the two servers has.
    apart: BTreeSet<String>,
    /// The last records of groups and topologies, without [`FIELDS`].
    last: BTreeMap<(String, &'static str), Value>,
}

impl Descriptions {
    /// The groups of a request, if its outcome depends on Kafka's plugin: the plugin failed, or the
    /// answer waits for it. muster has no plugin.
    pub fn decided_by_plugin(&self, line: &Line) -> Vec<String> {
        let (body, response) = (&line.input["body"], &line.output["response"]);
        let waits = self.is_held && line.output["deferred"] == true;
        let code = response["errorCode"].as_i64().unwrap_or_default();
        let own = || vec![body["groupId"].as_str().unwrap_or_default().to_owned()];
        let has_stored = |all: Vec<String>| -> Vec<String> {
            all.into_iter().filter(|it| self.stored(it) != NOTHING).collect()
        };
        match line.input["api"].as_str() {
            Some(PUSH) if waits || code != 0 && !REFUSED.contains(&code) => own(),
            Some("JoinGroup") if waits || code == REBALANCE_IN_PROGRESS => has_stored(own()),
            Some("DeleteGroups") if waits => names(&body["groupsNames"]),
            Some("StreamsGroupDescribe") if waits => names(&body["groupIds"]),
            Some("DeleteGroups") => {
                let results = response["results"].as_array().into_iter().flatten();
                let failed = |it: &&Value| UNDELETED.iter().any(|code| it["errorCode"] == *code);
                let failed = results.filter(failed).map(|it| it["groupId"].clone());
                has_stored(names(&failed.collect()))
            }
            _ => Vec::new(),
        }
    }

    /// Removes from an outcome the parts that are not compared: the fields which only say whether a
    /// description is stored, and the descriptions of groups in `apart`.
    pub fn narrow(&self, outcome: &mut Outcome, pending: &Pending) {
        if !self.has_plugin {
            return;
        }
        let mut last = self.last.clone();
        for ((_, group), records) in &mut outcome.records {
            records.retain_mut(|record| {
                let Some(name) = strip(record) else { return true };
                last.insert((group.clone(), name), record.clone()).as_ref() != Some(&*record)
            });
        }
        outcome.records.retain(|_, records| !records.is_empty());
        let is_describe = |id: &str| pending[id].api == ApiKey::StreamsGroupDescribe;
        let described = outcome.answers.iter_mut().filter(|(id, _)| is_describe(id));
        let groups = described.filter_map(|(_, answer)| answer["groups"].as_array_mut()).flatten();
        for group in groups {
            let group_id = group["groupId"].as_str().unwrap_or_default();
            if self.apart.contains(group_id) || self.get_fails {
                group["topologyDescription"] = Value::Null;
                group["topologyDescriptionStatus"] = Value::Null;
            }
        }
    }

    /// If one server may lack the description, Kafka's decision whether to ask a member for it
    /// replaces muster's. Returns how often the two decisions differed.
    pub fn adopt_asking(&self, kafka: &Outcome, muster: &mut Outcome, pending: &Pending) -> usize {
        let mut adopted = 0;
        for (id, ours) in &mut muster.answers {
            let group = pending[id].body["groupId"].as_str().unwrap_or_default();
            let both_have = !self.apart.contains(group) && self.stored(group) != NOTHING;
            let kafkas = kafka.answers.get(id).and_then(|it| it.get(REQUIRED));
            let Some(kafkas) = kafkas.filter(|_| self.has_plugin && !both_have) else { continue };
            if ours["errorCode"] == 0 && ours[REQUIRED] != *kafkas {
                ours[REQUIRED] = kafkas.clone();
                adopted += 1;
            }
        }
        adopted
    }

    /// The groups that muster deletes before Kafka does: in Kafka, the plugin first deletes the
    /// description.
    pub fn deleted_early(&self, kafka: &Outcome, muster: &Outcome) -> Vec<String> {
        let is_end = |it: &Value| it["type"] == METADATA && it["value"].is_null();
        let ends = |outcome: &Outcome| -> BTreeSet<String> {
            let ending = outcome.records.iter().filter(|(_, all)| all.iter().any(is_end));
            ending.map(|((_, group), _)| group.clone()).collect()
        };
        let early = &ends(muster) - &ends(kafka);
        early.into_iter().filter(|it| self.stored(it) != NOTHING).collect()
    }

    /// Notes the changes that a line makes.
    pub fn observe(&mut self, line: &Line, scope: &Scope) {
        match line.input["op"].as_str() {
            Some("new") => self.has_plugin = line.input["topology_plugin"] == true,
            Some("topology_plugin") => self.observe_plugin(&line.input),
            _ => {}
        }
        for record in kafka_records(line) {
            self.observe_record(record, line.input["api"] == PUSH);
        }
        let group = line.input["body"]["groupId"].as_str().unwrap_or_default();
        let response = &line.output["response"];
        if line.input["api"] == PUSH && response["errorCode"] == 0 {
            self.apart.remove(group);
        }
        self.apart.extend(scope.all_lost().map(str::to_owned));
    }

    fn observe_plugin(&mut self, op: &Value) {
        self.is_held = op["hold"].as_bool().unwrap_or(self.is_held);
        self.get_fails = op["get"].as_str().map_or(self.get_fails, |it| it != "ok");
        self.apart.extend(op["lose"].as_str().map(str::to_owned));
    }

    fn observe_record(&mut self, record: &Value, is_push: bool) {
        let group = group_of(record).to_owned();
        if record["type"] == METADATA {
            let stored = record["value"]["data"]["storedDescriptionTopologyEpoch"].as_i64();
            let stored = stored.unwrap_or(NOTHING);
            let before = self.stored.insert(group.clone(), stored);
            if record["value"].is_null() {
                self.apart.remove(&group);
            } else if !is_push && before.is_some_and(|before| stored < before) {
                self.apart.insert(group.clone());
            }
        }
        let mut record = forms::kafka_record_json(record).unwrap_or_default();
        if let Some(name) = strip(&mut record) {
            self.last.insert((group, name), record);
        }
    }

    fn stored(&self, group: &str) -> i64 {
        self.stored.get(group).copied().unwrap_or(NOTHING)
    }
}

/// Removes [`FIELDS`] from a record. Returns the record's type if it is one of those there.
fn strip(record: &mut Value) -> Option<&'static str> {
    let (name, fields) = FIELDS.into_iter().find(|(name, _)| record["type"] == *name)?;
    let data = record.pointer_mut("/value/data").and_then(Value::as_object_mut);
    data.into_iter().for_each(|data| fields.iter().for_each(|it| drop(data.remove(*it))));
    Some(name)
}

fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|it| Some(it.as_str()?.to_owned())).collect()
}
