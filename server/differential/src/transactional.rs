//! The transactional ids of a history, according to Kafka's answers.

use std::collections::BTreeMap;

pub type TopicPartition = (String, i32);

/// A transactional id, and the clients that have sent InitProducerId for it.
#[derive(Debug, Clone, Default)]
pub struct TransactionalId {
    pub name: String,
    /// The clients in the order of their InitProducerId. All but the last are fenced.
    pub instances: Vec<Instance>,
}

/// A client with a transactional id.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    pub producer_id: i64,
    pub epoch: i16,
    /// Whether the client uses transaction version 2.
    pub is_v2: bool,
    /// The next sequence number of each partition.
    pub next: BTreeMap<TopicPartition, i32>,
    /// The partitions that were added to its transaction.
    pub added: Vec<TopicPartition>,
}

/// The most instances of an id. The oldest are forgotten.
const INSTANCES: usize = 4;

impl TransactionalId {
    pub fn new(name: String) -> Self {
        Self { name, instances: Vec::new() }
    }

    /// Notes the producer id and epoch in an answer. If the request named the producer id of a
    /// known client, they belong to this client from now on; else to a new client.
    pub fn initialized(&mut self, named: i64, given: Instance) {
        match self.instances.iter_mut().find(|known| known.producer_id == named) {
            Some(known) => *known = Instance { is_v2: known.is_v2, ..given },
            None => self.instances.push(given),
        }
        if self.instances.len() > INSTANCES {
            self.instances.remove(0);
        }
    }
}

impl Instance {
    pub fn new(producer_id: i64, epoch: i16, is_v2: bool) -> Self {
        Self { producer_id, epoch, is_v2, next: BTreeMap::new(), added: Vec::new() }
    }

    pub fn next(&self, partition: &TopicPartition) -> i32 {
        self.next.get(partition).copied().unwrap_or(0)
    }

    pub fn add(&mut self, partition: TopicPartition) {
        if !self.added.contains(&partition) {
            self.added.push(partition);
        }
    }
}
