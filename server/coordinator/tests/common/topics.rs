//! Topics that are created, extended and deleted.

use muster_codec::Uuid;
use muster_coordinator::Topics;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct World {
    topics: BTreeMap<&'static str, (Uuid, i32)>,
    version: i64,
    version_of_newest: i64,
}

impl World {
    /// Creates a topic, unless it exists.
    pub fn make(&mut self, name: &'static str, partitions: i32) {
        if self.topics.contains_key(name) {
            return;
        }
        self.version += 1;
        self.version_of_newest = self.version;
        let mut id = [1; 16];
        id[..8].copy_from_slice(&self.version.to_be_bytes());
        self.topics.insert(name, (Uuid(id), partitions));
    }

    pub fn grow(&mut self, name: &str) {
        if let Some((_, partitions)) = self.topics.get_mut(name) {
            self.version += 1;
            *partitions += 1;
        }
    }

    /// Extends a topic to at least `count` partitions.
    pub fn grow_to(&mut self, name: &str, count: i32) {
        if let Some((_, partitions)) = self.topics.get_mut(name) {
            self.version += 1;
            *partitions = count.max(*partitions);
        }
    }

    /// Deletes a topic. Returns its id if it existed.
    pub fn delete(&mut self, name: &str) -> Option<Uuid> {
        let (id, _) = self.topics.remove(name)?;
        self.version += 1;
        Some(id)
    }

    /// All partitions of a topic.
    pub fn partitions_of(&self, name: &str) -> impl Iterator<Item = (Uuid, i32)> {
        let topic = self.topics.get(name).copied();
        topic.into_iter().flat_map(|(id, count)| (0..count).map(move |partition| (id, partition)))
    }
}

impl Topics for World {
    fn id(&self, name: &str) -> Option<Uuid> {
        self.topics.get(name).map(|(id, _)| *id)
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|(_, (it, _))| *it == id).map(|(name, _)| *name)
    }

    fn partitions(&self, name: &str) -> Option<i32> {
        self.topics.get(name).map(|(_, partitions)| *partitions)
    }

    fn version(&self) -> i64 {
        self.version
    }

    fn version_of_newest(&self) -> i64 {
        self.version_of_newest
    }

    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
        let names: Vec<&str> =
            self.topics.keys().copied().filter(|it| name.is_none_or(|name| *it > name)).collect();
        Box::new(names.into_iter())
    }
}
