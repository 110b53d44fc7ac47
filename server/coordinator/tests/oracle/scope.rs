//! The compared part of a transcript: all groups except those that are left out because of an
//! intended difference.

use crate::forms::{self, Result, error_codes};
use crate::transactional;
use crate::transcript::Line;
use muster_codec::ApiKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// NONE, OFFSET_METADATA_TOO_LARGE, UNKNOWN_TOPIC_ID
const NOTHING_COMMITTED: [i64; 3] = [0, 12, 100];

const UNKNOWN_TOPIC_ID: i64 = 100;

/// Which groups and requests are compared.
#[derive(Debug, Default)]
pub struct Scope {
    lost: BTreeMap<String, &'static str>,
    unrecorded: BTreeSet<String>,
    /// Whether the next verification of a transaction fails.
    pub verification_fails: bool,
}

/// A compared request. It names only groups that are compared.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: String,
    /// The API; OffsetCommit for TxnOffsetCommit.
    pub api: ApiKey,
    pub is_transactional: bool,
    pub version: i16,
    pub body: Value,
    /// The groups that the request names. ListGroups names none.
    pub groups: Vec<String>,
    /// Whether only the presence of an answer is compared, as for a read while commits are held.
    pub answer_only: bool,
}

impl Scope {
    pub fn has(&self, group: &str) -> bool {
        !self.lost.contains_key(group)
    }

    /// Whether reads of the group are compared.
    pub fn shows(&self, group: &str) -> bool {
        self.has(group) && !self.unrecorded.contains(group)
    }

    /// Notes a group that a commit creates without writing a record: the commit names no member,
    /// and commits no offset. Kafka's reads do not show the group before the next record of any
    /// group. Returns whether the line has such a commit.
    pub fn observe_unrecorded(&mut self, line: &Line) -> bool {
        if line.output["batches"].is_array() {
            self.unrecorded.clear();
            return false;
        }
        let body = &line.input["body"];
        let generation = body["generationIdOrMemberEpoch"].as_i64();
        let generation = generation.or(body["generationId"].as_i64()).unwrap_or(-1);
        let codes = error_codes(&line.output["response"]);
        let empty = codes.iter().all(|code| NOTHING_COMMITTED.contains(code));
        let is_commit = line.input["api"] == "OffsetCommit" || is_transactional(&line.input);
        let makes = is_commit && generation < 0 && empty;
        let group = body["groupId"].as_str().unwrap_or_default();
        makes && self.unrecorded.insert(group.to_owned())
    }

    /// The groups without a record that reads do not show yet.
    pub fn unrecorded(&self) -> impl Iterator<Item = &str> {
        self.unrecorded.iter().map(String::as_str)
    }

    /// Stops comparing a group until the next load, because of an intended difference.
    pub fn lose(&mut self, group: &str, difference: &'static str) {
        self.lost.insert(group.to_owned(), difference);
    }

    /// The groups that are not compared.
    pub fn all_lost(&self) -> impl Iterator<Item = &str> {
        self.lost.keys().map(String::as_str)
    }

    /// The intended difference because of which a group is not compared.
    pub fn lost(&self, group: &str) -> Option<&'static str> {
        self.lost.get(group).copied()
    }

    pub fn reloaded(&mut self) {
        self.lost.clear();
    }

    /// The intended difference because of which no part of a request is compared.
    pub fn why_not(&self, line: &Line) -> Option<&'static str> {
        let input = &line.input;
        if commits_to_unknown_topics_alone(line) {
            return Some("unknown-topics");
        }
        if self.verification_fails && is_transactional(input) {
            return Some("failed-verification");
        }
        let mut body = input["body"].clone();
        let list = group_list(api_of(input)?, &mut body).cloned();
        let groups = list.unwrap_or_else(|| vec![body["groupId"].clone()]);
        groups.iter().find_map(|group| self.lost(name_of(group)))
    }

    /// Called for a request that is not compared at all.
    pub fn skipped(&mut self, input: &Value) {
        self.verification_fails &= !is_transactional(input);
    }

    /// The compared part of a request, if there is any.
    pub fn ask(&self, line: &Line) -> Option<Asked> {
        let input = &line.input;
        let (api, is_transactional) = (api_of(input)?, is_transactional(input));
        let is_unverified = is_transactional && self.verification_fails;
        if is_unverified || commits_to_unknown_topics_alone(line) {
            return None;
        }
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
        let newest = if is_transactional { transactional::NEWEST } else { *api.versions().end() };
        let version = version.unwrap_or(newest);
        let id = input["id"].as_str()?.to_owned();
        Some(Asked { id, api, is_transactional, version, body, groups, answer_only: false })
    }

    /// Drops groups that are not compared from a response.
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
    pub fn name(&self) -> &str {
        if self.is_transactional { transactional::NAME } else { self.api.name() }
    }

    /// Whether Kafka answers the request from the committed state.
    pub fn reads(&self) -> bool {
        let stable = self.body["requireStable"] == true;
        let describes = [
            ApiKey::ListGroups,
            ApiKey::DescribeGroups,
            ApiKey::ConsumerGroupDescribe,
            ApiKey::ShareGroupDescribe,
            ApiKey::StreamsGroupDescribe,
        ];
        describes.contains(&self.api) || self.api == ApiKey::OffsetFetch && !stable
    }

    pub fn request_bytes(&self) -> Result<Vec<u8>> {
        if self.is_transactional {
            return transactional::request_bytes(self.version, &self.body);
        }
        forms::request_bytes(self.api, self.version, &self.body)
    }

    /// Kafka's response in the form that is compared.
    pub fn kafka_response(&self, response: &Value) -> Result<Value> {
        if self.is_transactional {
            return transactional::kafka_response(self.version, response);
        }
        forms::kafka_response(self.api, self.version, response)
    }

    fn names(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|other| other == group)
    }
}

fn commits_to_unknown_topics_alone(line: &Line) -> bool {
    let codes = error_codes(&line.output["response"]);
    let is_commit = line.input["api"] == "OffsetCommit" || is_transactional(&line.input);
    is_commit && !codes.is_empty() && codes.iter().all(|code| *code == UNKNOWN_TOPIC_ID)
}

fn is_transactional(input: &Value) -> bool {
    input["api"] == transactional::NAME
}

fn api_of(input: &Value) -> Option<ApiKey> {
    if is_transactional(input) {
        return Some(ApiKey::OffsetCommit);
    }
    forms::api(input["api"].as_str()?)
}

/// The group of a record in Kafka's JSON.
pub fn group_of(record: &Value) -> &str {
    let key = &record["key"]["data"];
    key["group"].as_str().or(key["groupId"].as_str()).unwrap_or_default()
}

fn group_list(api: ApiKey, body: &mut Value) -> Option<&mut Vec<Value>> {
    let list = match api {
        ApiKey::DeleteGroups => "groupsNames",
        ApiKey::DescribeGroups | ApiKey::OffsetFetch | ApiKey::DescribeShareGroupOffsets => {
            "groups"
        }
        ApiKey::ConsumerGroupDescribe
        | ApiKey::ShareGroupDescribe
        | ApiKey::StreamsGroupDescribe => "groupIds",
        _ => return None,
    };
    body.get_mut(list)?.as_array_mut()
}

fn name_of(group: &Value) -> &str {
    group.as_str().or(group["groupId"].as_str()).unwrap_or_default()
}
