//! The five APIs of share state, each for one share partition: InitializeShareGroupState (83),
//! ReadShareGroupState (84), WriteShareGroupState (85), DeleteShareGroupState (86),
//! ReadShareGroupStateSummary (87). The checks are in the order of Kafka's `ShareCoordinatorShard`.

use super::{NO_COUNT, NO_EPOCH, NO_OFFSET, State, StateBatch, States, decide};
use crate::SharePartitionKey;
use crate::limits::STATE_BATCHES_MAX;
use alloc::vec::Vec;
use muster_codec::records::{ShareRecord, ShareValue};
use muster_codec::{ErrorCode, Uuid, Wall};

/// The topics of the cluster.
pub trait Topics {
    fn has(&self, topic_id: Uuid, partition: i32) -> bool;
}

/// The fields of InitializeShareGroupState.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Initialize {
    pub state_epoch: i32,
    /// [`NO_OFFSET`] if `share.auto.offset.reset` will decide it for the first reader.
    pub start_offset: i64,
}

/// The fields of WriteShareGroupState.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    pub leader_epoch: i32,
    pub state_epoch: i32,
    /// [`NO_OFFSET`] if it does not change.
    pub start_offset: i64,
    pub delivery_complete_count: i32,
    pub batches: &'a [StateBatch],
}

/// The answer of ReadShareGroupState.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub state_epoch: i32,
    pub start_offset: i64,
    pub batches: Vec<StateBatch>,
}

/// The answer of ReadShareGroupStateSummary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub state_epoch: i32,
    pub leader_epoch: i32,
    pub start_offset: i64,
    /// The number of records from the start offset on that are done. Answers have it only from
    /// version 1 on.
    pub delivery_complete_count: i32,
}

/// The reason why a request is refused for a share partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub error: ErrorCode,
    pub message: &'static str,
}

/// Whether the answer to a request has neither results nor an error, as in Kafka. This is so if the
/// request names no group, no topic, or a topic without partitions. (InitializeShareGroupState does
/// not check the latter.) `topics` has the number of partitions of each topic.
pub fn is_answered_empty(
    group_id: &str,
    topics: impl IntoIterator<Item = usize>,
    initializes: bool,
) -> bool {
    let mut topics = topics.into_iter().peekable();
    group_id.is_empty() || topics.peek().is_none() || !initializes && topics.any(|it| it == 0)
}

impl States {
    /// Initializes or replaces the state of a share partition. No record is written if the state
    /// has this epoch and this start offset already: messages and requests may be repeated. (Kafka
    /// after 4.4 does the same.)
    ///
    /// # Errors
    /// The partition or the epoch is negative, the epoch is too old, or the partition does not
    /// exist.
    pub fn initialize(
        &self,
        key: &SharePartitionKey,
        request: Initialize,
        topics: &dyn Topics,
        now: Wall,
    ) -> Result<Option<ShareRecord<'static>>, Refusal> {
        check_name(key)?;
        let state = self.states.get(key);
        let Initialize { state_epoch, start_offset } = request;
        check_given(state_epoch, Refusal::NEGATIVE_STATE_EPOCH)?;
        check_state_epoch(state, state_epoch)?;
        check_topic(key, topics)?;
        if state.is_some_and(|it| (it.state_epoch, it.start_offset) == (state_epoch, start_offset))
        {
            return Ok(None);
        }
        let snapshot = decide::initialized(state, state_epoch, start_offset, now);
        Ok(Some(record(key, ShareValue::Snapshot(snapshot))))
    }

    /// The state for a leader that begins to use it. If its leader epoch is new, also returns a
    /// record of this epoch, which fences off older leaders.
    ///
    /// # Errors
    /// The partition or the epoch is negative, the state is not initialized, the epoch is too old,
    /// or the partition does not exist.
    pub fn read(
        &self,
        key: &SharePartitionKey,
        leader_epoch: i32,
        topics: &dyn Topics,
        now: Wall,
    ) -> Result<(Reading, Option<ShareRecord<'static>>), Refusal> {
        check_name(key)?;
        check_given(leader_epoch, Refusal::NEGATIVE_LEADER_EPOCH)?;
        let state = self.states.get(key).ok_or(Refusal::READ_UNINITIALIZED)?;
        check_leader_epoch(state, leader_epoch)?;
        check_topic(key, topics)?;
        let is_new = leader_epoch != state.fence.leader_epoch;
        let fences = || record(key, self.led_from(state, leader_epoch, now));
        Ok((state.reading(), is_new.then(fences)))
    }

    /// Writes changes of records.
    ///
    /// # Errors
    /// The partition or an epoch is negative, the state is not initialized, an epoch is too old,
    /// the partition does not exist, or the state would have too many batches ([`Self::fits`]).
    pub fn write(
        &self,
        key: &SharePartitionKey,
        request: &Write<'_>,
        topics: &dyn Topics,
        now: Wall,
    ) -> Result<ShareRecord<'static>, Refusal> {
        check_name(key)?;
        check_given(request.leader_epoch, Refusal::NEGATIVE_LEADER_EPOCH)?;
        check_given(request.state_epoch, Refusal::NEGATIVE_STATE_EPOCH)?;
        let state = self.states.get(key).ok_or(Refusal::WRITE_UNINITIALIZED)?;
        check_leader_epoch(state, request.leader_epoch)?;
        check_state_epoch(Some(state), request.state_epoch)?;
        check_topic(key, topics)?;
        if !state.fits(request) {
            return Err(Refusal::TOO_LARGE);
        }
        Ok(record(key, state.change(request, self.updates_per_snapshot, now)))
    }

    /// Whether a change keeps within [`STATE_BATCHES_MAX`].
    pub fn fits(&self, key: &SharePartitionKey, change: &Write<'_>) -> bool {
        self.states.get(key).is_none_or(|state| state.fits(change))
    }

    /// The record of changes that the share partition itself makes. They have no epoch, so they
    /// cannot be fenced off. None if the state was deleted. The caller has checked [`Self::fits`].
    pub fn change(
        &self,
        key: &SharePartitionKey,
        change: &Write<'_>,
        now: Wall,
    ) -> Option<ShareRecord<'static>> {
        let state = self.states.get(key)?;
        Some(record(key, state.change(change, self.updates_per_snapshot, now)))
    }

    /// Deletes the state. Without a state, no record is written.
    ///
    /// # Errors
    /// The partition is negative or does not exist.
    pub fn delete(
        &self,
        key: &SharePartitionKey,
        topics: &dyn Topics,
    ) -> Result<Option<ShareRecord<'static>>, Refusal> {
        check_name(key)?;
        check_topic(key, topics)?;
        Ok(self.states.contains_key(key).then(|| record(key, ShareValue::Deleted)))
    }

    /// The summary of a state, for administrators.
    ///
    /// # Errors
    /// The partition is negative or does not exist.
    pub fn summary(
        &self,
        key: &SharePartitionKey,
        topics: &dyn Topics,
    ) -> Result<Summary, Refusal> {
        check_name(key)?;
        check_topic(key, topics)?;
        Ok(self.states.get(key).map_or(Summary::UNINITIALIZED, State::summary))
    }

    fn led_from(&self, state: &State, leader_epoch: i32, now: Wall) -> ShareValue {
        let write = Write {
            leader_epoch,
            state_epoch: NO_EPOCH,
            start_offset: state.start_offset,
            delivery_complete_count: state.delivery_complete_count,
            batches: &[],
        };
        let mut value = state.change(&write, self.updates_per_snapshot, now);
        match &mut value {
            ShareValue::Snapshot(snapshot) => snapshot.leader_epoch = leader_epoch,
            ShareValue::Update(update) => update.leader_epoch = leader_epoch,
            ShareValue::Deleted => {}
        }
        value
    }
}

pub(super) fn record(key: &SharePartitionKey, value: ShareValue) -> ShareRecord<'static> {
    ShareRecord { key: key.to_record(), value }
}

fn check_name(key: &SharePartitionKey) -> Result<(), Refusal> {
    if key.partition < 0 { Err(Refusal::NEGATIVE_PARTITION) } else { Ok(()) }
}

/// Checks that a request has an epoch. Only changes by share partitions of this shard have none.
fn check_given(epoch: i32, refusal: Refusal) -> Result<(), Refusal> {
    if epoch < 0 { Err(refusal) } else { Ok(()) }
}

fn check_leader_epoch(state: &State, given: i32) -> Result<(), Refusal> {
    let is_fenced = given < state.fence.leader_epoch;
    if is_fenced { Err(Refusal::FENCED_LEADER_EPOCH) } else { Ok(()) }
}

fn check_state_epoch(state: Option<&State>, given: i32) -> Result<(), Refusal> {
    let is_fenced = state.is_some_and(|it| given < it.fence.state_epoch);
    if is_fenced { Err(Refusal::FENCED_STATE_EPOCH) } else { Ok(()) }
}

fn check_topic(key: &SharePartitionKey, topics: &dyn Topics) -> Result<(), Refusal> {
    if topics.has(key.topic_id, key.partition) { Ok(()) } else { Err(Refusal::UNKNOWN_PARTITION) }
}

impl State {
    fn fits(&self, change: &Write<'_>) -> bool {
        if self.batches.len() + change.batches.len() <= STATE_BATCHES_MAX {
            return true;
        }
        let after = self.clone().merged(change).batches.len();
        after <= STATE_BATCHES_MAX || after <= self.batches.len()
    }

    fn reading(&self) -> Reading {
        Reading {
            state_epoch: self.state_epoch,
            start_offset: self.start_offset,
            batches: self.batches.clone(),
        }
    }

    fn summary(&self) -> Summary {
        Summary {
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            delivery_complete_count: self.delivery_complete_count,
        }
    }
}

impl Summary {
    const UNINITIALIZED: Self = Self {
        state_epoch: 0,
        leader_epoch: 0,
        start_offset: NO_OFFSET,
        delivery_complete_count: NO_COUNT,
    };
}

impl Refusal {
    const NEGATIVE_PARTITION: Self = Self {
        error: ErrorCode::InvalidRequest,
        message: "The partition id cannot be a negative number.",
    };
    const NEGATIVE_LEADER_EPOCH: Self = Self {
        error: ErrorCode::InvalidRequest,
        message: "The leader epoch cannot be a negative number.",
    };
    const NEGATIVE_STATE_EPOCH: Self = Self {
        error: ErrorCode::InvalidRequest,
        message: "The state epoch cannot be a negative number.",
    };
    const READ_UNINITIALIZED: Self = Self {
        error: ErrorCode::InvalidRequest,
        message: "Read operation on uninitialized share partition not allowed.",
    };
    const WRITE_UNINITIALIZED: Self = Self {
        error: ErrorCode::InvalidRequest,
        message: "Write operation on uninitialized share partition not allowed.",
    };
    const FENCED_LEADER_EPOCH: Self = Self {
        error: ErrorCode::FencedLeaderEpoch,
        message: "The leader epoch in the request is older than the epoch on the broker.",
    };
    const FENCED_STATE_EPOCH: Self = Self {
        error: ErrorCode::FencedStateEpoch,
        message: "The coordinator rejected the request because the state epoch did not match.",
    };
    const TOO_LARGE: Self = Self {
        error: ErrorCode::UnknownServerError,
        message: "The share partition has too many batches.",
    };
    const UNKNOWN_PARTITION: Self = Self {
        error: ErrorCode::UnknownTopicOrPartition,
        message: "This server does not host this topic-partition.",
    };
}
