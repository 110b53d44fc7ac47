//! Kafka leaves topics without partitions in the assignments of share groups. These empty topics
//! are removed from its records and answers. A record that then equals the previous one is removed,
//! too.

use crate::outcome::kafka_records;
use crate::transcript::Line;
use muster_codec::ApiKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const TARGET: &str = "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER";
const CURRENT: &str = "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT";

/// The last records of share members' assignments in Kafka's log.
#[derive(Debug, Default)]
pub struct Empties {
    /// The values without empty topics, by type, group and member.
    last: BTreeMap<[String; 3], Value>,
    /// The records of the current line that repeat the last one, by their index.
    repeated: BTreeSet<usize>,
    /// The group and the member of each repeated assignment.
    unchanged: BTreeSet<[String; 2]>,
}

impl Empties {
    pub fn observe(&mut self, line: &Line) {
        self.repeated.clear();
        self.unchanged.clear();
        for (index, record) in kafka_records(line).enumerate() {
            if record["type"] != TARGET && record["type"] != CURRENT {
                continue;
            }
            let data = &record["key"]["data"];
            let [kind, group, member] = [&record["type"], &data["groupId"], &data["memberId"]]
                .map(|it| it.as_str().unwrap_or_default().to_owned());
            let value = without_empty(record["value"].clone());
            let key = [kind, group.clone(), member.clone()];
            let before = self.last.insert(key, value.clone());
            if !value.is_null() && before == Some(value) {
                self.repeated.insert(index);
                if record["type"] == CURRENT {
                    self.unchanged.insert([group, member]);
                }
            }
        }
    }

    /// Whether a record of the line repeats the last one, except for empty topics.
    pub fn repeats(&self, index: usize) -> bool {
        self.repeated.contains(&index)
    }

    /// The number of records of the line that repeat the last one.
    pub fn count(&self) -> usize {
        self.repeated.len()
    }

    /// A response without empty topics. If a member's assignment has changed only in empty topics,
    /// the response to a heartbeat that does not ask for the assignment has none.
    pub fn answer(&self, api: ApiKey, body: &Value, response: Value) -> Value {
        if ![ApiKey::ShareGroupHeartbeat, ApiKey::ShareGroupDescribe].contains(&api) {
            return response;
        }
        let mut response = without_empty(response);
        let member = [&body["groupId"], &body["memberId"]];
        let member = member.map(|it| it.as_str().unwrap_or_default().to_owned());
        let is_partial = body["subscribedTopicNames"].is_null() && body["memberEpoch"] != 0;
        if is_partial && self.unchanged.contains(&member) {
            response["assignment"] = Value::Null;
        }
        response
    }
}

/// The value without topics that have no partitions.
pub fn without_empty(value: Value) -> Value {
    match value {
        Value::Array(mut items) => {
            items.retain(|item| item["partitions"].as_array().is_none_or(|it| !it.is_empty()));
            Value::Array(items.into_iter().map(without_empty).collect())
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, field)| (name, without_empty(field)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}
