//! Opens share partitions from their state when a member fetches them.

use super::config::Reset;
use super::table::Located;
use super::{Inputs, ReadFor, Shares};
use crate::cluster::state_slot;
use crate::limit_gauges::Limit;
use crate::limit_refusals::Refused;
use crate::partitions::RecordReadEnd;
use crate::placement::Slot;
use muster_codec::ErrorCode;
use muster_fairness::Address;
use muster_shares::partition::UnknownState;
use muster_shares::state::{NO_OFFSET, State};
use muster_shares::{SharePartition, SharePartitionKey, TopicPartition};

/// The maximum number of open share partitions on a shard.
pub(super) const OPEN_MAX: usize = 200_000;

/// The result of opening a share partition for a member.
#[derive(Debug, Clone, Copy)]
pub(super) enum Opening {
    Open(Located),
    /// The partition is not open yet. Requests for it are tried again.
    Later,
}

/// The reason why a partition is not fetched, and if another shard leads it, that shard's number.
pub(super) type NotOpened = (ErrorCode, Option<u32>);

impl Shares {
    /// Opens a share partition for a member at an address, unless it is open.
    ///
    /// # Errors
    /// The errors of Kafka. A problem with the partition's state is UNKNOWN_SERVER_ERROR.
    pub(super) fn open_partition(
        &mut self,
        inputs: &mut Inputs<'_>,
        key: &SharePartitionKey,
        address: Address,
    ) -> Result<Opening, NotOpened> {
        let located = locate(inputs, key)?;
        if self.open.get(key).is_some() {
            return Ok(Opening::Open(located));
        }
        let unknown = (ErrorCode::UnknownServerError, None);
        let Slot(log) = located.slot;
        let start_offset = self.state(located.slot, key).ok_or(unknown)?.start_offset;
        if self.open.is_unflushed(key, log) {
            return Ok(Opening::Later);
        }
        if let Err(exceeded) = self.open.admit(address, OPEN_MAX) {
            self.refused.push(Refused { limit: Limit::OpenShares, exceeded, address });
            return Err(unknown);
        }
        let start = match start_offset {
            NO_OFFSET => match self.first_offset(inputs, key, &located, address)? {
                Some(start) => start,
                None => return Ok(Opening::Later),
            },
            start => start,
        };
        let state = self.state(located.slot, key).ok_or(unknown)?;
        let opened = SharePartition::open(state, start).map_err(|UnknownState(id)| {
            tracing::debug!("{key:?} has records of the unknown state {id}, and is not opened");
            unknown
        })?;
        self.open.insert(key.clone(), log, opened, address);
        Ok(Opening::Open(located))
    }

    /// The durable state of a share partition.
    fn state(&self, slot: Slot, key: &SharePartitionKey) -> Option<&State> {
        self.states.of(slot)?.get(key)
    }

    /// The offset at which a new share partition starts; None while this offset is looked up.
    fn first_offset(
        &mut self,
        inputs: &mut Inputs<'_>,
        key: &SharePartitionKey,
        located: &Located,
        address: Address,
    ) -> Result<Option<i64>, NotOpened> {
        let ms = match self.config(inputs, &key.group_id).reset {
            Reset::Earliest => return Ok(Some(located.bounds.log_start)),
            Reset::Latest => return Ok(Some(located.bounds.high_watermark)),
            Reset::ByDuration(ms) => ms,
        };
        if let Some(found) = self.found.remove(key) {
            return found.map(Some).map_err(|error| (error, None));
        }
        if self.looked_up.insert(key.clone(), address).is_none() {
            self.last_read += 1;
            self.reads.insert(self.last_read, ReadFor::Start(key.clone()));
            let time = inputs.times.wall.0.saturating_sub(ms);
            inputs.partitions.first_offset_since(self.last_read, located.id, time, inputs.effects);
        }
        Ok(None)
    }

    /// Handles the end of the look-up of a share partition's start.
    pub(super) fn start_found(
        &mut self,
        inputs: &mut Inputs<'_>,
        key: &SharePartitionKey,
        end: RecordReadEnd,
    ) {
        let found = match end {
            RecordReadEnd::Offset(Some(offset)) => Ok(offset),
            RecordReadEnd::Offset(None) => Err(ErrorCode::OffsetNotAvailable),
            RecordReadEnd::Records { .. } | RecordReadEnd::Nothing | RecordReadEnd::Failed => {
                Err(ErrorCode::KafkaStorageError)
            }
        };
        let address = self.looked_up.remove(key).unwrap_or_default();
        self.found.insert(key.clone(), found);
        // Opens the partition even if no request waits: otherwise the next request would look the
        // start up again.
        if !self.waiters.contains_key(key) {
            let _opened = self.open_partition(inputs, key, address);
        }
        self.wake(inputs, key);
        self.found.remove(key);
    }
}

/// Finds a partition that this shard leads, and the slot of its share state.
///
/// # Errors
/// The partition does not exist, or another shard leads it.
pub(super) fn locate(inputs: &Inputs<'_>, key: &SharePartitionKey) -> Result<Located, NotOpened> {
    let topic = inputs.image.topic_by_id(key.topic_id).ok_or((ErrorCode::UnknownTopicId, None))?;
    let SharePartitionKey { partition, .. } = *key;
    let unknown = (ErrorCode::UnknownTopicOrPartition, None);
    if topic.is_internal() || !(0..topic.partitions).contains(&partition) {
        return Err(unknown);
    }
    let found = inputs.partitions.share_partition(topic, partition);
    let (id, bounds) = found.map_err(|missing| (missing.error, missing.leader))?;
    let slot = state_slot(topic, partition, inputs.placement).ok_or(unknown)?;
    Ok(Located { id, bounds, slot })
}

/// The topic partition of a share partition.
pub(super) fn topic_partition(key: &SharePartitionKey) -> TopicPartition {
    TopicPartition { topic_id: key.topic_id, partition: key.partition }
}
