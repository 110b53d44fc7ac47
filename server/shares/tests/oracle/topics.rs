//! The topics of a run, with the ids that the oracle assigns.

use crate::json::{int32, list, text, uuid};
use muster_codec::Uuid;
use muster_shares::state::Topics;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct World {
    by_name: BTreeMap<String, (Uuid, i32)>,
    /// The names of all ids, including deleted ones.
    names: BTreeMap<Uuid, String>,
    made: u64,
}

impl Topics for World {
    fn has(&self, topic_id: Uuid, partition: i32) -> bool {
        let found = self.by_name.values().find(|(id, _)| *id == topic_id);
        found.is_some_and(|(_, partitions)| (0..*partitions).contains(&partition))
    }
}

impl World {
    /// Applies `topics` and `delete` of an operation. Returns the deleted ids.
    pub fn change(&mut self, op: &Value) -> Vec<Uuid> {
        let deleted = list(&op["delete"]).iter().filter_map(|it| self.by_name.remove(text(it)));
        let gone = deleted.map(|(id, _)| id).collect();
        for topic in list(&op["topics"]) {
            let (name, partitions) = (text(&topic["name"]), int32(&topic["partitions"]));
            match self.by_name.get_mut(name) {
                Some(known) => known.1 = known.1.max(partitions),
                None => self.create(name, partitions, topic.get("id").map(uuid)),
            }
        }
        gone
    }

    fn create(&mut self, name: &str, partitions: i32, id: Option<Uuid>) {
        let id = id.unwrap_or_else(|| {
            self.made += 1;
            let mut bytes = *b"\0\0\0topic\0\0\0\0\0\0\0\0";
            bytes[8..].copy_from_slice(&self.made.to_be_bytes());
            Uuid(bytes)
        });
        self.by_name.insert(name.to_owned(), (id, partitions));
        self.names.insert(id, name.to_owned());
    }

    pub fn id(&self, name: &str) -> Uuid {
        let known = self.by_name.get(name).map(|(id, _)| *id);
        known.or_else(|| self.names.iter().find(|(_, it)| *it == name).map(|(id, _)| *id)).unwrap()
    }

    pub fn name(&self, id: Uuid) -> &str {
        self.names.get(&id).map_or("", String::as_str)
    }
}
