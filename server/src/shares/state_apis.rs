//! The five APIs of share state for clients: each partition of a request is an operation of its
//! own. Group coordinators send the same requests as messages: see `state_calls.rs`.

use super::opening::locate;
use super::{Inputs, Shares};
use crate::cluster::ClusterImage;
use crate::net::{Reply, VisibleAt};
use crate::placement::Slot;
use muster_codec::messages::*;
use muster_codec::records::ShareRecord;
use muster_codec::{ErrorCode, ShareRequest, Str, Uuid};
use muster_coordinator::RequestId;
use muster_shares::SharePartitionKey;
use muster_shares::state::{
    Initialize, Reading, Refusal, StateBatch, Summary, Topics, Write, is_answered_empty,
};
use std::collections::BTreeMap;

/// The topics of the cluster.
struct TopicsOf<'i>(&'i ClusterImage);

impl Topics for TopicsOf<'_> {
    fn has(&self, topic_id: Uuid, partition: i32) -> bool {
        let topic = self.0.topic_by_id(topic_id);
        topic.is_some_and(|topic| (0..topic.partitions).contains(&partition))
    }
}

/// The results of the partitions of each topic. If a request names a partition twice, only the last
/// of its results is in the answer, as in Kafka.
type Results<T> = Vec<(Uuid, Vec<T>)>;

/// A request about share state.
struct Job<'j, 'i> {
    shares: &'j mut Shares,
    inputs: &'j mut Inputs<'i>,
    group_id: &'j str,
    visible_at: VisibleAt,
}

impl Shares {
    /// Handles a request about share state.
    ///
    /// # Panics
    /// The request is of another kind.
    pub(crate) fn state_request(
        &mut self,
        inputs: &mut Inputs<'_>,
        request: RequestId,
        body: &ShareRequest<'_>,
    ) {
        let (response, visible_at) = match body {
            ShareRequest::InitializeShareGroupState(body) => {
                let mut job = Job::new(self, inputs, &body.group_id);
                (job.initialize(body).into(), job.visible_at)
            }
            ShareRequest::ReadShareGroupState(body) => {
                let mut job = Job::new(self, inputs, &body.group_id);
                (job.read(body).into(), job.visible_at)
            }
            ShareRequest::WriteShareGroupState(body) => {
                let mut job = Job::new(self, inputs, &body.group_id);
                (job.write(body).into(), job.visible_at)
            }
            ShareRequest::DeleteShareGroupState(body) => {
                let mut job = Job::new(self, inputs, &body.group_id);
                (job.delete(body).into(), job.visible_at)
            }
            ShareRequest::ReadShareGroupStateSummary(body) => {
                let mut job = Job::new(self, inputs, &body.group_id);
                (job.summaries(body).into(), job.visible_at)
            }
            ShareRequest::ShareFetch(_) | ShareRequest::ShareAcknowledge(_) => {
                unreachable!("they are about records")
            }
        };
        self.answers.push(Reply { request, response, visible_at });
    }

    /// Creates or replaces the state of a share partition.
    pub(super) fn initialize(
        &mut self,
        inputs: &mut Inputs<'_>,
        key: &SharePartitionKey,
        request: Initialize,
    ) -> Result<VisibleAt, Refusal> {
        let slot = slot_of(inputs, key)?;
        let (topics, wall) = (TopicsOf(inputs.image), inputs.times.wall);
        let record = self.states.of(slot).ok_or(MOVED)?.initialize(key, request, &topics, wall)?;
        self.replace_state(inputs, slot, key, record)
    }

    /// Deletes the state of a share partition.
    pub(super) fn delete(
        &mut self,
        inputs: &mut Inputs<'_>,
        key: &SharePartitionKey,
    ) -> Result<VisibleAt, Refusal> {
        let slot = slot_of(inputs, key)?;
        let topics = TopicsOf(inputs.image);
        let record = self.states.of(slot).ok_or(MOVED)?.delete(key, &topics)?;
        self.replace_state(inputs, slot, key, record)
    }

    /// Writes a record that replaces or deletes the state of a share partition. Acknowledgements
    /// fail if they are in no record yet. (Kafka, too, fences the old state.)
    fn replace_state(
        &mut self,
        inputs: &mut Inputs<'_>,
        slot: Slot,
        key: &SharePartitionKey,
        record: Option<ShareRecord<'static>>,
    ) -> Result<VisibleAt, Refusal> {
        let is_replaced = record.is_some();
        let written = self.write_state(inputs, slot, record)?;
        if is_replaced {
            self.drop_partition(key, ErrorCode::NotLeaderOrFollower);
        }
        Ok(written)
    }

    /// A summary of the state of a share partition.
    pub(super) fn summary(
        &mut self,
        inputs: &mut Inputs<'_>,
        key: &SharePartitionKey,
    ) -> Result<(Summary, VisibleAt), Refusal> {
        let slot = slot_of(inputs, key)?;
        let topics = TopicsOf(inputs.image);
        let summary = self.states.of(slot).ok_or(MOVED)?.summary(key, &topics)?;
        Ok((summary, self.write_state(inputs, slot, None)?))
    }
}

impl<'j, 'i> Job<'j, 'i> {
    fn new(shares: &'j mut Shares, inputs: &'j mut Inputs<'i>, group_id: &'j str) -> Self {
        Self { shares, inputs, group_id, visible_at: VisibleAt::Now }
    }

    fn initialize(
        &mut self,
        body: &InitializeShareGroupStateRequest<'_>,
    ) -> InitializeShareGroupStateResponse<'static> {
        let sizes = body.topics.iter().map(|it| it.partitions.len());
        if is_answered_empty(self.group_id, sizes, true) {
            return InitializeShareGroupStateResponse::default();
        }
        let topics = body.topics.iter().map(|it| (it.topic_id, &*it.partitions));
        let results = self.each(topics, |job, topic_id, it| {
            let key = job.key(topic_id, it.partition);
            let request = Initialize { state_epoch: it.state_epoch, start_offset: it.start_offset };
            let done = job.shares.initialize(job.inputs, &key, request);
            let (error_code, error_message) = job.result(done);
            let result = InitializeStatePartitionResult {
                partition: it.partition,
                error_code,
                error_message,
            };
            (it.partition, result)
        });
        let topic = |(topic_id, partitions)| InitializeStateResult { topic_id, partitions };
        InitializeShareGroupStateResponse { results: results.into_iter().map(topic).collect() }
    }

    fn read(
        &mut self,
        body: &ReadShareGroupStateRequest<'_>,
    ) -> ReadShareGroupStateResponse<'static> {
        let sizes = body.topics.iter().map(|it| it.partitions.len());
        if is_answered_empty(self.group_id, sizes, false) {
            return ReadShareGroupStateResponse::default();
        }
        let topics = body.topics.iter().map(|it| (it.topic_id, &*it.partitions));
        let results = self.each(topics, |job, topic_id, it| {
            let key = job.key(topic_id, it.partition);
            let mut reading = Reading { state_epoch: 0, start_offset: 0, batches: Vec::new() };
            let done = slot_of(job.inputs, &key).and_then(|slot| {
                let (topics, wall) = (TopicsOf(job.inputs.image), job.inputs.times.wall);
                let states = job.shares.states.of(slot).ok_or(MOVED)?;
                let (found, record) = states.read(&key, it.leader_epoch, &topics, wall)?;
                reading = found;
                job.shares.write_state(job.inputs, slot, record)
            });
            let (error_code, error_message) = job.result(done);
            let Reading { state_epoch, start_offset, batches } = reading;
            let result = ReadStatePartitionResult {
                partition: it.partition,
                error_code,
                error_message,
                state_epoch,
                start_offset,
                state_batches: batches.into_iter().map(to_message).collect(),
            };
            (it.partition, result)
        });
        let topic = |(topic_id, partitions)| ReadStateResult { topic_id, partitions };
        ReadShareGroupStateResponse { results: results.into_iter().map(topic).collect() }
    }

    fn write(
        &mut self,
        body: &WriteShareGroupStateRequest<'_>,
    ) -> WriteShareGroupStateResponse<'static> {
        let sizes = body.topics.iter().map(|it| it.partitions.len());
        if is_answered_empty(self.group_id, sizes, false) {
            return WriteShareGroupStateResponse::default();
        }
        let topics = body.topics.iter().map(|it| (it.topic_id, &*it.partitions));
        let results = self.each(topics, |job, topic_id, it| {
            let key = job.key(topic_id, it.partition);
            let batches: Vec<_> = it.state_batches.iter().map(of_message).collect();
            let write = Write {
                leader_epoch: it.leader_epoch,
                state_epoch: it.state_epoch,
                start_offset: it.start_offset,
                delivery_complete_count: it.delivery_complete_count,
                batches: &batches,
            };
            let done = slot_of(job.inputs, &key).and_then(|slot| {
                let (topics, wall) = (TopicsOf(job.inputs.image), job.inputs.times.wall);
                let states = job.shares.states.of(slot).ok_or(MOVED)?;
                let record = states.write(&key, &write, &topics, wall)?;
                job.shares.replace_state(job.inputs, slot, &key, Some(record))
            });
            let (error_code, error_message) = job.result(done);
            let result =
                WriteStatePartitionResult { partition: it.partition, error_code, error_message };
            (it.partition, result)
        });
        let topic = |(topic_id, partitions)| WriteStateResult { topic_id, partitions };
        WriteShareGroupStateResponse { results: results.into_iter().map(topic).collect() }
    }

    fn delete(
        &mut self,
        body: &DeleteShareGroupStateRequest<'_>,
    ) -> DeleteShareGroupStateResponse<'static> {
        let sizes = body.topics.iter().map(|it| it.partitions.len());
        if is_answered_empty(self.group_id, sizes, false) {
            return DeleteShareGroupStateResponse::default();
        }
        let topics = body.topics.iter().map(|it| (it.topic_id, &*it.partitions));
        let results = self.each(topics, |job, topic_id, it| {
            let key = job.key(topic_id, it.partition);
            let done = job.shares.delete(job.inputs, &key);
            let (error_code, error_message) = job.result(done);
            let result =
                DeleteStatePartitionResult { partition: it.partition, error_code, error_message };
            (it.partition, result)
        });
        let topic = |(topic_id, partitions)| DeleteStateResult { topic_id, partitions };
        DeleteShareGroupStateResponse { results: results.into_iter().map(topic).collect() }
    }

    fn summaries(
        &mut self,
        body: &ReadShareGroupStateSummaryRequest<'_>,
    ) -> ReadShareGroupStateSummaryResponse<'static> {
        let sizes = body.topics.iter().map(|it| it.partitions.len());
        if is_answered_empty(self.group_id, sizes, false) {
            return ReadShareGroupStateSummaryResponse::default();
        }
        let topics = body.topics.iter().map(|it| (it.topic_id, &*it.partitions));
        let results = self.each(topics, |job, topic_id, it| {
            let key = job.key(topic_id, it.partition);
            let found = job.shares.summary(job.inputs, &key);
            let summary = found.as_ref().ok().map(|(summary, _)| *summary);
            let (error_code, error_message) = job.result(found.map(|(_, at)| at));
            let result = ReadStateSummaryPartitionResult {
                partition: it.partition,
                error_code,
                error_message,
                state_epoch: summary.map_or(0, |it| it.state_epoch),
                leader_epoch: summary.map_or(0, |it| it.leader_epoch),
                start_offset: summary.map_or(0, |it| it.start_offset),
                delivery_complete_count: summary.map_or(-1, |it| it.delivery_complete_count),
            };
            (it.partition, result)
        });
        let topic = |(topic_id, partitions)| ReadStateSummaryResult { topic_id, partitions };
        ReadShareGroupStateSummaryResponse { results: results.into_iter().map(topic).collect() }
    }

    fn key(&self, topic_id: Uuid, partition: i32) -> SharePartitionKey {
        SharePartitionKey::new(self.group_id, topic_id, partition)
    }

    /// Performs the operation of each partition, in the order of the request. A topic without
    /// partitions has no result.
    fn each<'t, P: 't, T>(
        &mut self,
        topics: impl Iterator<Item = (Uuid, &'t [P])>,
        act: impl Fn(&mut Self, Uuid, &P) -> (i32, T),
    ) -> Results<T> {
        let mut results: BTreeMap<Uuid, BTreeMap<i32, T>> = BTreeMap::new();
        for (topic_id, partitions) in topics.filter(|(_, partitions)| !partitions.is_empty()) {
            let of_topic = results.entry(topic_id).or_default();
            of_topic.extend(partitions.iter().map(|it| act(self, topic_id, it)));
        }
        let of_topic = |(topic_id, of_topic): (_, BTreeMap<i32, T>)| {
            (topic_id, of_topic.into_values().collect())
        };
        results.into_iter().map(of_topic).collect()
    }

    /// The error code and message of an operation. Has the answer wait for the operation's record.
    fn result(&mut self, done: Result<VisibleAt, Refusal>) -> (i16, Option<Str<'static>>) {
        match done {
            Ok(visible_at) => {
                self.visible_at.join(visible_at);
                (0, None)
            }
            Err(Refusal { error, message }) => (error.code(), Some(Str::Borrowed(message))),
        }
    }
}

const MOVED: Refusal =
    Refusal { error: ErrorCode::NotCoordinator, message: "This is not the correct coordinator." };

const UNKNOWN: Refusal = Refusal {
    error: ErrorCode::UnknownTopicOrPartition,
    message: "This server does not host this topic-partition.",
};

/// The slot of the state of a share partition that this shard leads. If the partition does not
/// exist, returns some slot of the shard. Each request then refuses the partition, at the place of
/// this check among its own checks.
///
/// # Errors
/// Another shard leads the partition, or the partition cannot have share state.
fn slot_of(inputs: &Inputs<'_>, key: &SharePartitionKey) -> Result<Slot, Refusal> {
    if !TopicsOf(inputs.image).has(key.topic_id, key.partition) {
        return inputs.placement.slots_of(inputs.shard).next().ok_or(UNKNOWN);
    }
    match locate(inputs, key) {
        Ok(located) => Ok(located.slot),
        Err((ErrorCode::NotLeaderOrFollower, _)) => Err(MOVED),
        Err(_) => Err(UNKNOWN),
    }
}

fn to_message(batch: StateBatch) -> ShareGroupStateBatch {
    ShareGroupStateBatch {
        first_offset: batch.first,
        last_offset: batch.last,
        delivery_state: batch.delivery_state,
        delivery_count: batch.delivery_count,
    }
}

fn of_message(batch: &ShareGroupStateBatch) -> StateBatch {
    StateBatch {
        first: batch.first_offset,
        last: batch.last_offset,
        delivery_state: batch.delivery_state,
        delivery_count: batch.delivery_count,
    }
}
