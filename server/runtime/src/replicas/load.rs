//! The start of a node in a cluster: its machines replay what is known to be committed.

use super::settle::{FOREIGN, each_partition, forget, halted};
use super::values::RecoveredReplicas;
use crate::TopicSet;
use muster_codec::DecodeError;
use muster_replication::Group;
use muster_storage::node_state::NodeState;
use muster_storage::{LogPartition, Recovered, RecoveredBatch, RecoveredItem, Recovery};
use std::collections::BTreeMap;

/// The machines and the replicas of a node, while its log is read. The node leads no slot yet, so
/// no timer fires.
#[derive(Debug)]
pub struct ReplicatedLoad<T> {
    pub topics: T,
    node: NodeState,
    slots: u32,
    /// The groups with a record that the machines cannot apply.
    halted: BTreeMap<u16, DecodeError>,
}

/// The reason why a node's replicas cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incomplete {
    /// Entries or members of this group are missing.
    Entries(u16),
    /// This group has no replica: the log lacks the block of its formation.
    Replica(u16),
}

impl<T: TopicSet> ReplicatedLoad<T> {
    /// Begins with machines without records.
    pub fn new(mut topics: T, slots: u32) -> Self {
        let mut next = topics.next(None);
        while let Some(partition @ LogPartition { topic, index }) = next {
            topics.get(topic).into_iter().for_each(|it| it.set_timers(index, false));
            next = topics.next(Some(partition));
        }
        Self { topics, node: NodeState::default(), slots, halted: BTreeMap::new() }
    }

    /// The recovery of the log.
    pub fn recovery(&self) -> Recovery {
        Recovery::new(self.topics.rules()).replicated(self.slots)
    }

    /// Applies the next part of the log.
    ///
    /// # Errors
    /// This version cannot read a record of the node itself.
    pub fn replay(&mut self, item: RecoveredItem<'_>) -> Result<(), DecodeError> {
        let (group, index, found) = match item {
            RecoveredItem::Batch { group, index, found } => (group, index, found),
            RecoveredItem::Marker { group, .. } => {
                self.halted.remove(&group);
                let reset = |topics: &mut dyn TopicSet, LogPartition { topic, index }| {
                    topics.get(topic).into_iter().for_each(|it| it.reset(index));
                };
                each_partition(&mut self.topics, (Group(group), self.slots), reset);
                return Ok(());
            }
        };
        let RecoveredBatch { partition, batch, .. } = found;
        if partition == LogPartition::NODE {
            return self.node.replay(&batch);
        }
        if self.halted.contains_key(&group) {
            return Ok(());
        }
        let topic = self.topics.get(partition.topic);
        let replayed = topic.and_then(|it| it.replay(partition.index, &batch, index));
        if let Err(why) = replayed.unwrap_or(Err(FOREIGN)) {
            self.halted.insert(group, why);
        }
        Ok(())
    }

    /// Ends the load, once the whole log was read. The shard has these groups. Machines of replicas
    /// that are gone or halted have nothing.
    ///
    /// # Errors
    /// The log has lost records.
    pub fn finish(
        mut self,
        found: &mut Recovered,
        groups: &[Group],
    ) -> Result<(T, RecoveredReplicas), Incomplete> {
        let mut replicas = RecoveredReplicas::of(&self.node, found).map_err(Incomplete::Entries)?;
        if let Some(missing) = groups.iter().find(|group| !replicas.has(**group)) {
            return Err(Incomplete::Replica(missing.0));
        }
        self.halted.retain(|group, _| !replicas.gone.contains(group));
        for (group, why) in &self.halted {
            halted(Group(*group), why);
        }
        replicas.halted = self.halted.into_keys().collect();
        for group in replicas.gone.iter().chain(&replicas.halted) {
            forget(&mut self.topics, (Group(*group), self.slots));
        }
        let mut next = self.topics.next(None);
        while let Some(partition) = next {
            replicas.partitions.insert(partition);
            next = self.topics.next(next);
        }
        Ok((self.topics, replicas))
    }
}
