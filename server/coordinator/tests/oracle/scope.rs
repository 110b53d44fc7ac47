//! The part of a transcript that is compared: APIs that muster serves, on groups of the classic and
//! the consumer protocol.

use crate::forms::{self, error_codes};
use crate::transcript::Line;
use muster_codec::ApiKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_ID
const NOTHING_COMMITTED: [i64; 3] = [0, 12, 100];

/// The groups that are not compared.
#[derive(Debug, Default)]
pub struct Scope {
    foreign: BTreeSet<String>,
    lost: BTreeMap<String, &'static str>,
    unrecorded: BTreeSet<String>,
}

/// A compared request, without the groups that are not compared.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: String,
    pub api: ApiKey,
    pub version: i16,
    pub body: Value,
    /// The groups that it names; none for ListGroups.
    pub groups: Vec<String>,
    /// Its answer is expected but not compared: a read while commits are held.
    pub answer_only: bool,
}

impl Scope {
    pub fn has(&self, group: &str) -> bool {
        !self.foreign.contains(group) && !self.lost.contains_key(group)
    }

    /// Whether reads of the group are compared.
    pub fn shows(&self, group: &str) -> bool {
        self.has(group) && !self.unrecorded.contains(group)
    }

    /// A commit without a member that commits nothing creates a group without a record. Kafka's
    /// reads see it only after a later record of any group. Returns whether that is the case at
    /// this line.
    pub fn observe_unrecorded(&mut self, line: &Line) -> bool {
        if line.output["batches"].is_array() {
            self.unrecorded.clear();
            return false;
        }
        let body = &line.input["body"];
        let generation = body["generationIdOrMemberEpoch"].as_i64().unwrap_or(-1);
        let codes = error_codes(&line.output["response"]);
        let empty = codes.iter().all(|code| NOTHING_COMMITTED.contains(code));
        let makes = line.input["api"] == "OffsetCommit" && generation < 0 && empty;
        let group = body["groupId"].as_str().unwrap_or_default();
        makes && self.unrecorded.insert(group.to_owned())
    }

    /// The groups created without a record that reads do not show yet.
    pub fn unrecorded(&self) -> impl Iterator<Item = &str> {
        self.unrecorded.iter().map(String::as_str)
    }

    /// Removes a group from the comparison until the next load, for an argued difference.
    pub fn lose(&mut self, group: &str, difference: &'static str) {
        self.lost.insert(group.to_owned(), difference);
    }

    /// The difference for which a group was removed until the next load.
    pub fn lost(&self, group: &str) -> Option<&'static str> {
        self.lost.get(group).copied().filter(|_| !self.foreign.contains(group))
    }

    pub fn reloaded(&mut self) {
        self.lost.clear();
    }

    /// Removes groups for good at the first record that Kafka writes for them in another protocol
    /// or a transaction. Returns the removed groups.
    pub fn observe(&mut self, line: &Line) -> Vec<String> {
        let mut left = Vec::new();
        for batch in line.output["batches"].as_array().into_iter().flatten() {
            let transactional = batch.get("producer_id").is_some();
            for record in batch["records"].as_array().into_iter().flatten() {
                let group = group_of(record);
                let foreign = transactional || !is_served(record);
                if foreign && self.foreign.insert(group.to_owned()) {
                    left.push(group.to_owned());
                }
            }
        }
        left
    }

    /// The difference for which no part of a request is compared.
    pub fn why_not(&self, input: &Value) -> &'static str {
        let Some(api) = input["api"].as_str().and_then(forms::api) else {
            return "other-protocol-request";
        };
        let mut body = input["body"].clone();
        let list = group_list(api, &mut body).cloned();
        let mut groups = list.unwrap_or_else(|| vec![body["groupId"].clone()]).into_iter();
        groups.find_map(|group| self.lost(name_of(&group))).unwrap_or("other-protocol-group")
    }

    /// The compared part of a request, if there is any.
    pub fn ask(&self, input: &Value) -> Option<Asked> {
        let api = forms::api(input["api"].as_str()?)?;
        let mut body = input["body"].clone();
        let groups = match group_list(api, &mut body) {
            Some(list) => {
                let named = list.len();
                list.retain(|item| self.has(name_of(item)));
                if list.is_empty() && named > 0 {
                    return None;
                }
                list.iter().map(|item| name_of(item).to_owned()).collect()
            }
            None if api == ApiKey::ListGroups => Vec::new(),
            None => {
                let group = body["groupId"].as_str().unwrap_or_default();
                self.has(group).then(|| vec![group.to_owned()])?
            }
        };
        let version = input["version"].as_i64().map(|version| version as i16);
        let version = version.unwrap_or(*api.versions().end());
        let id = input["id"].as_str()?.to_owned();
        Some(Asked { id, api, version, body, groups, answer_only: false })
    }

    /// Drops the groups that are not compared from a response.
    pub fn narrow(&self, asked: &Asked, response: &mut Value) {
        if let Some(Value::Array(groups)) = response.get_mut("groups") {
            groups.retain(|group| asked.names(name_of(group)) && self.shows(name_of(group)));
        }
        if let Some(Value::Array(groups)) = response.get_mut("results") {
            groups.retain(|group| asked.names(name_of(group)) && self.has(name_of(group)));
        }
    }
}

impl Asked {
    fn names(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|other| other == group)
    }
}

/// The group of a record in Kafka's JSON.
pub fn group_of(record: &Value) -> &str {
    let key = &record["key"]["data"];
    key["group"].as_str().or(key["groupId"].as_str()).unwrap_or_default()
}

fn is_served(record: &Value) -> bool {
    record["type"].as_str().is_some_and(forms::serves)
}

fn group_list(api: ApiKey, body: &mut Value) -> Option<&mut Vec<Value>> {
    let list = match api {
        ApiKey::DeleteGroups => "groupsNames",
        ApiKey::DescribeGroups | ApiKey::OffsetFetch => "groups",
        ApiKey::ConsumerGroupDescribe => "groupIds",
        _ => return None,
    };
    body.get_mut(list)?.as_array_mut()
}

fn name_of(group: &Value) -> &str {
    group.as_str().or(group["groupId"].as_str()).unwrap_or_default()
}
