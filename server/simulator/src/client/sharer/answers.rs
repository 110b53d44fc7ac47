//! The answers to a consumer of a share group.

use super::{Delivery, Doing, Number, Sharer};
use crate::client::each_batch;
use crate::client::transactor::PARTITIONS;
use muster_codec::ErrorCode;
use muster_codec::messages::*;
use std::collections::BTreeMap;

/// The start offset of a share partition of which no record was acknowledged yet.
const NO_OFFSET: i64 = -1;

/// The effect of an error on the member.
enum Fate {
    Done,
    Again,
    /// Another shard leads the partition.
    Moved,
    /// The session, or the membership, is lost.
    Lost,
    /// The member no longer holds the records.
    Refused,
}

impl Sharer {
    /// Notes that no answer will come, because the connection is gone.
    pub(super) fn unanswered(&mut self) {
        self.acknowledgements_lost();
        match self.doing {
            Doing::Fetch { shard } => {
                // The member may have acquired records.
                (0..PARTITIONS).for_each(|it| self.reports.push(Delivery::Lost { partition: it }));
                self.end_session(shard, false);
            }
            Doing::Acknowledge { shard, .. } | Doing::Renew { shard } => {
                self.end_session(shard, false)
            }
            Doing::Join | Doing::Heartbeat | Doing::Leave | Doing::Describe => {}
        }
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        body: &ShareGroupHeartbeatResponse<'_>,
    ) -> Result<(), String> {
        match (fate(body.error_code)?, self.doing) {
            (Fate::Again | Fate::Moved | Fate::Refused, _) => {}
            (Fate::Lost, _) | (Fate::Done, Doing::Leave) => self.forget_membership(),
            (Fate::Done, _) => {
                self.member_epoch = body.member_epoch;
                self.is_unsure = false;
                if let Some(assignment) = &body.assignment {
                    self.assign(assignment);
                }
            }
        }
        Ok(())
    }

    fn assign(&mut self, assignment: &ConsumerGroupHeartbeatAssignment) {
        self.assigned.clear();
        for topic in &assignment.topic_partitions {
            self.topic_id = topic.topic_id;
            self.assigned.extend(&topic.partitions);
        }
    }

    pub(super) fn fetched(&mut self, body: &ShareFetchResponse<'_>) -> Result<(), String> {
        let Doing::Fetch { shard } = self.doing else { return Err("it fetched nothing".into()) };
        if !self.session_answered(shard, body.error_code)? {
            return Ok(());
        }
        let lock_ms = body.acquisition_lock_timeout_ms;
        for partition in body.responses.iter().flat_map(|topic| &topic.partitions) {
            let index = partition.partition_index;
            let is_done = is_acknowledged(partition.acknowledge_error_code)?;
            self.acknowledgements_answered(index, is_done);
            match fate(partition.error_code)? {
                Fate::Done => self.acquired((shard, partition), lock_ms)?,
                Fate::Moved => self.leaders[index as usize] += 1,
                Fate::Again | Fate::Lost | Fate::Refused => {}
            }
        }
        self.acknowledgements_lost();
        Ok(())
    }

    pub(super) fn acknowledged(
        &mut self,
        body: &ShareAcknowledgeResponse<'_>,
    ) -> Result<(), String> {
        let shard = match self.doing {
            Doing::Acknowledge { shard, .. } | Doing::Renew { shard } => shard,
            other => return Err(format!("{other:?} acknowledged nothing")),
        };
        if !self.session_answered(shard, body.error_code)? {
            return Ok(());
        }
        for partition in body.responses.iter().flat_map(|topic| &topic.partitions) {
            let is_done = is_acknowledged(partition.error_code)?;
            self.acknowledgements_answered(partition.partition_index, is_done);
        }
        self.acknowledgements_lost();
        Ok(())
    }

    /// Notes which partitions have no lag, and which have no start offset yet. Only while the run
    /// is at rest: all faults have ended, and no records are added.
    pub(super) fn described(
        &mut self,
        body: &DescribeShareGroupOffsetsResponse<'_>,
    ) -> Result<(), String> {
        let [group] = &body.groups[..] else { return Err("it asked for one group".into()) };
        if !matches!(fate(group.error_code)?, Fate::Done) {
            return Ok(());
        }
        let is_resting = self.is_resting;
        let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
        let known = || partitions.clone().filter(|it| is_resting && it.error_code == 0);
        self.done = known().filter(|it| it.lag == 0).map(|it| it.partition_index).collect();
        let unstarted = known().filter(|it| it.start_offset == NO_OFFSET);
        self.unstarted = unstarted.map(|it| it.partition_index).collect();
        Ok(())
    }

    /// Whether the session continues. If not, the outcome of acknowledgements is unknown.
    fn session_answered(&mut self, shard: u32, error: i16) -> Result<bool, String> {
        match fate(error)? {
            Fate::Done => {
                if let Some(session) = self.sessions.get_mut(&shard) {
                    session.epoch += 1;
                    self.reports.push(Delivery::Answered { session: session.number });
                }
                Ok(true)
            }
            Fate::Again | Fate::Moved | Fate::Lost | Fate::Refused => {
                self.acknowledgements_lost();
                let session = self.sessions.get(&shard).cloned().unwrap_or_default();
                self.end_session(shard, false);
                // Yet the session's records may still be held, so the next session has to have
                // these partitions, too. The end of that session releases them.
                self.forgotten.extend(session.partitions);
                Ok(false)
            }
        }
    }

    fn acquired(
        &mut self,
        (shard, data): (u32, &ShareFetchPartitionResponse<'_>),
        lock_ms: i32,
    ) -> Result<(), String> {
        let partition = data.partition_index;
        let session = self.sessions.get(&shard).map_or(0, |it| it.number);
        let mut numbers = BTreeMap::new();
        each_batch(data.records.as_deref().unwrap_or_default(), |batch| {
            if batch.header.is_control() {
                return Ok(());
            }
            let records = batch.records().map_err(|error| error.to_string())?;
            for (offset, record) in (batch.header.base_offset..).zip(records) {
                let record = record.map_err(|error| error.to_string())?;
                numbers.insert(offset, Number::read(record.key, record.value)?);
            }
            Ok(())
        })?;
        for range in &data.acquired_records {
            for offset in range.first_offset..=range.last_offset {
                let number = numbers.get(&offset).copied();
                self.held.insert((partition, offset), number);
                let count = range.delivery_count;
                let it = Delivery::Acquired { session, partition, offset, number, count, lock_ms };
                self.reports.push(it);
            }
        }
        Ok(())
    }
}

/// Whether acknowledgements were accepted. INVALID_REQUEST is not: after a restart the server may
/// no longer know the records. It is an answer that a correct server may give.
fn is_acknowledged(error: i16) -> Result<bool, String> {
    match ErrorCode::from_code(error) {
        Some(ErrorCode::InvalidRequest) => Ok(false),
        _ => Ok(matches!(fate(error)?, Fate::Done)),
    }
}

fn fate(error: i16) -> Result<Fate, String> {
    let Some(error) = ErrorCode::from_code(error) else {
        return Err(format!("error {error} is unknown"));
    };
    match error {
        ErrorCode::None => Ok(Fate::Done),
        ErrorCode::NotCoordinator
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::GroupMaxSizeReached
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::RequestTimedOut
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::FencedStateEpoch
        | ErrorCode::KafkaStorageError => Ok(Fate::Again),
        ErrorCode::NotLeaderOrFollower => Ok(Fate::Moved),
        ErrorCode::ShareSessionNotFound
        | ErrorCode::InvalidShareSessionEpoch
        | ErrorCode::UnknownMemberId
        | ErrorCode::FencedMemberEpoch => Ok(Fate::Lost),
        ErrorCode::InvalidRecordState => Ok(Fate::Refused),
        error => Err(format!("it is refused with {error:?}")),
    }
}
