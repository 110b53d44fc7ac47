//! Messages between the coordinators of share groups and the leaders of share partitions, and dead
//! letters.

use crate::partitions::LettersEnd;
use muster_codec::Uuid;
use muster_coordinator::{StateRequest, StateResult};
use muster_fairness::Address;
use std::sync::Arc;

/// A message to the share groups of a shard.
#[derive(Debug)]
pub enum ToShares {
    /// From the coordinator of a share group: a request about share state on this shard.
    StateQuestion(StateQuestion),
    /// The answer to a `StateQuestion`.
    StateAnswer(StateAnswer),
    /// From the leader of a share partition: records for a partition of the group's dead letter
    /// queue. This shard leads that partition.
    DeadLetters(DeadLetters),
    /// The answer to `DeadLetters`.
    DeadLettersAdded(DeadLettersAdded),
}

/// A request of the coordinator of a share group, for the leader of some of its partitions.
#[derive(Debug)]
pub struct StateQuestion {
    /// The shard of the coordinator. It distinguishes its requests by `number`.
    pub(crate) from: u32,
    pub(crate) number: u64,
    pub(crate) group_id: Arc<str>,
    pub(crate) request: StateRequest,
}

/// Results of a [`StateQuestion`].
#[derive(Debug)]
pub struct StateAnswer {
    pub(crate) to: u32,
    pub(crate) number: u64,
    pub(crate) results: Vec<StateResult>,
    /// Whether no results of this shard follow.
    pub(crate) is_last: bool,
}

/// A batch of dead letters. The leader of a partition of the dead letter queue appends it.
#[derive(Debug)]
pub struct DeadLetters {
    /// The shard of the share partition. It distinguishes its batches by `number`.
    pub(crate) from: u32,
    pub(crate) number: u64,
    /// The address of the member that opened the share partition. The batch counts against its
    /// share of limits.
    pub(crate) address: Address,
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    pub(crate) batch: Vec<u8>,
}

/// The answer to [`DeadLetters`].
#[derive(Debug)]
pub struct DeadLettersAdded {
    pub(crate) number: u64,
    pub(crate) end: LettersEnd,
}
