//! What of a transcript is compared: what muster serves, on groups of the classic protocol.

use crate::forms;
use crate::transcript::Line;
use muster_codec::ApiKey;
use serde_json::Value;
use std::collections::BTreeSet;

/// The groups that are out of the comparison.
#[derive(Debug, Default)]
pub struct Scope {
    foreign: BTreeSet<String>,
    lost: BTreeSet<String>,
}

/// A request that is compared, without the groups that are not.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: String,
    pub api: ApiKey,
    pub version: i16,
    pub body: Value,
    /// The groups that it names; none for ListGroups.
    pub groups: Vec<String>,
    /// Its answer is expected, but not compared: a read while commits are held.
    pub answer_only: bool,
}

impl Scope {
    pub fn has(&self, group: &str) -> bool {
        !self.foreign.contains(group) && !self.lost.contains(group)
    }

    /// A group leaves the comparison, until the coordinator is loaded again.
    pub fn lose(&mut self, group: &str) {
        self.lost.insert(group.to_owned());
    }

    pub fn is_lost(&self, group: &str) -> bool {
        self.lost.contains(group) && !self.foreign.contains(group)
    }

    pub fn reloaded(&mut self) {
        self.lost.clear();
    }

    /// A group leaves the comparison for good with the first record that Kafka writes for it of
    /// another protocol or in a transaction. Gives the groups that do.
    pub fn observe(&mut self, line: &Line) -> Vec<String> {
        let mut left = Vec::new();
        for batch in line.output["batches"].as_array().into_iter().flatten() {
            let transactional = batch.get("producer_id").is_some();
            for record in batch["records"].as_array().into_iter().flatten() {
                let group = group_of(record);
                let foreign = transactional || !is_classic(record);
                if foreign && self.foreign.insert(group.to_owned()) {
                    left.push(group.to_owned());
                }
            }
        }
        left
    }

    /// The part of a request that is compared, if any is.
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

    /// Drops from a response the groups that are not compared.
    pub fn narrow(&self, asked: &Asked, response: &mut Value) {
        for list in ["groups", "results"] {
            if let Some(Value::Array(groups)) = response.get_mut(list) {
                groups.retain(|group| self.compares(asked, name_of(group)));
            }
        }
    }

    fn compares(&self, asked: &Asked, group: &str) -> bool {
        let named = asked.groups.is_empty() || asked.groups.iter().any(|other| other == group);
        named && self.has(group)
    }
}

/// The group of a record that Kafka printed.
pub fn group_of(record: &Value) -> &str {
    let key = &record["key"]["data"];
    key["group"].as_str().or(key["groupId"].as_str()).unwrap_or_default()
}

fn is_classic(record: &Value) -> bool {
    matches!(record["type"].as_str(), Some("OFFSET_COMMIT" | "GROUP_METADATA"))
}

fn group_list(api: ApiKey, body: &mut Value) -> Option<&mut Vec<Value>> {
    let list = match api {
        ApiKey::DeleteGroups => "groupsNames",
        ApiKey::DescribeGroups | ApiKey::OffsetFetch => "groups",
        _ => return None,
    };
    body.get_mut(list)?.as_array_mut()
}

fn name_of(group: &Value) -> &str {
    group.as_str().or(group["groupId"].as_str()).unwrap_or_default()
}
