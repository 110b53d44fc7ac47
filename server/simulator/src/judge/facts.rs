//! The facts that were durable at some time, read back from the simulated disk. The facts in an
//! answer must be durable when the answer leaves.

use super::acknowledged::check_acknowledged;
use crate::client::{each_batch, read_response};
use crate::coverage::{Coverage, Seen};
use crate::net::Asked;
use muster_codec::header::RequestHeader;
use muster_codec::messages::{
    ConsumerGroupHeartbeatResponse, CreateTopicsResponse, DeleteGroupsResponse, FetchResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, OffsetCommitRequest,
    OffsetCommitRequestTopic, OffsetCommitResponse, OffsetCommitResponseTopic, OffsetFetchRequest,
    OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse,
};
use muster_codec::record_batch::TransactionOutcome;
use muster_codec::records::{ClusterRecord, GroupRecord, TransactionRecord};
use muster_codec::{DecodeError, Reader, Request, Response, Uuid};
use muster_coordinator::Producer;
use muster_server::cluster::OFFSETS_TOPIC;
use muster_shares::States;
use muster_transactions::State;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::Xxh3;

/// Facts that became durable, by hash.
#[derive(Default)]
pub(crate) struct Facts {
    known: BTreeSet<u64>,
    /// The time when a group, or a part of it, was last removed.
    gone: BTreeMap<String, u64>,
    /// The groups that were removed since the last query.
    ended: Vec<String>,
    /// Counts of what became durable.
    pub(crate) coverage: Coverage,
}

/// A fact that must be durable before an answer reports it; a decision about a transaction must be
/// durable before its markers are written.
enum Fact<'a> {
    Commit { group: &'a str, topic: &'a str, partition: i32, offset: i64 },
    Generation { group: &'a str, generation: i32 },
    MemberEpoch { group: &'a str, member: &'a str, epoch: i32 },
    Topic { id: Uuid },
    Config { resource: i8, name: &'a str, key: &'a str, value: Option<&'a str> },
    Decision { producer: Producer, outcome: TransactionOutcome },
}

impl Facts {
    /// Notes a durable record of a group.
    pub(super) fn group_record(&mut self, record: &GroupRecord<'_>, now: u64) {
        if let Some(fact) = Fact::of(record) {
            self.add(&fact);
        }
        match record {
            GroupRecord::OffsetCommit(_, Some(_)) => self.coverage.saw(Seen::Committed),
            GroupRecord::GroupMetadata(_, None)
            | GroupRecord::ConsumerGroupMetadata(_, None)
            | GroupRecord::StreamsGroupMetadata(_, None) => {
                self.coverage.saw(Seen::GroupDeleted);
                self.ended.push(record.group_id().to_owned());
            }
            _ => {}
        }
        if record.is_tombstone() {
            self.gone.insert(record.group_id().to_owned(), now);
        }
    }

    /// Notes a durable record of a transactional id.
    pub(super) fn transaction_record(&mut self, record: &TransactionRecord<'_>) {
        let Some(value) = &record.value else { return };
        let producer = Producer { id: value.producer_id, epoch: value.producer_epoch };
        let state = State::ALL.into_iter().find(|it| *it as i8 == value.transaction_status);
        if let Some(outcome) = state.and_then(State::prepared) {
            self.add(&Fact::Decision { producer, outcome });
        }
    }

    /// # Errors
    /// No durable record has this decision for the producer.
    pub(super) fn require_decision(
        &self,
        producer: Producer,
        outcome: TransactionOutcome,
    ) -> Result<(), String> {
        self.require(&Fact::Decision { producer, outcome })
    }

    /// Notes a durable record of the cluster.
    pub(super) fn cluster_record(&mut self, record: &ClusterRecord<'_>) {
        match record {
            ClusterRecord::Topic(key, Some(_)) => {
                self.coverage.saw(Seen::TopicCreated);
                self.add(&Fact::Topic { id: key.topic_id });
            }
            ClusterRecord::Config(key, value) => {
                let value = value.as_ref().map(|value| &*value.value);
                let (resource, name) = (key.resource_type, &*key.resource_name);
                self.add(&Fact::Config { resource, name, key: &key.name, value });
            }
            ClusterRecord::Topic(_, None) => self.coverage.saw(Seen::TopicDeleted),
            ClusterRecord::ProducerIds(..)
            | ClusterRecord::DeletedTopic(..)
            | ClusterRecord::ScramCredential(..)
            | ClusterRecord::Acl(..)
            | ClusterRecord::ClientQuota(..)
            | ClusterRecord::ClusterId(..) => {}
        }
    }

    pub(crate) fn take_ended(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ended)
    }

    /// Whether a group, or a part of it, was deleted at `time` or later.
    pub(crate) fn went_since(&self, group: &str, time: u64) -> bool {
        self.gone.get(group).is_some_and(|at| *at >= time)
    }

    fn add(&mut self, fact: &Fact<'_>) {
        self.known.insert(fact.hash());
    }

    /// # Errors
    /// The fact is not known to be durable. The error describes the fact.
    fn require(&self, fact: &Fact<'_>) -> Result<(), String> {
        match self.known.contains(&fact.hash()) {
            true => Ok(()),
            false => Err(fact.text()),
        }
    }
}

impl<'a> Fact<'a> {
    /// The fact that a record states, if it states one.
    fn of(record: &'a GroupRecord<'_>) -> Option<Self> {
        match record {
            GroupRecord::OffsetCommit(key, Some(value)) => Some(Self::Commit {
                group: &key.group,
                topic: &key.topic,
                partition: key.partition,
                offset: value.offset,
            }),
            GroupRecord::GroupMetadata(key, Some(value)) => {
                Some(Self::Generation { group: &key.group, generation: value.generation })
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, Some(value)) => {
                let (group, member) = (&*key.group_id, &*key.member_id);
                Some(Self::MemberEpoch { group, member, epoch: value.member_epoch })
            }
            GroupRecord::StreamsGroupCurrentMemberAssignment(key, Some(value)) => {
                let (group, member) = (&*key.group_id, &*key.member_id);
                Some(Self::MemberEpoch { group, member, epoch: value.member_epoch })
            }
            _ => None,
        }
    }

    fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.text().as_bytes());
        hash.digest()
    }

    fn text(&self) -> String {
        match self {
            Self::Commit { group, topic, partition, offset } => {
                format!("offset {offset} of {group} for {topic}-{partition}")
            }
            Self::Generation { group, generation } => format!("generation {generation} of {group}"),
            Self::MemberEpoch { group, member, epoch } => {
                format!("epoch {epoch} of {member} in {group}")
            }
            Self::Topic { id } => format!("topic {id:?}"),
            Self::Config { resource, name, key, value } => {
                format!("config {key}={value:?} of {resource} {name}")
            }
            Self::Decision { producer: Producer { id, epoch }, outcome } => {
                format!("{outcome:?} of producer {id}, epoch {epoch}")
            }
        }
    }
}

impl Facts {
    /// Checks an answer that leaves a shard: everything that the answer reports must be durable
    /// now. `states` are the durable share states of the shard.
    ///
    /// # Errors
    /// A reported fact is not durable, an earlier request has to be answered first, or the answer
    /// or its request cannot be read.
    pub(super) fn check_frame(
        &mut self,
        asked: &Asked,
        frame: &[u8],
        states: &States,
    ) -> Result<(), String> {
        let number = frame.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes));
        if number != Some(asked.correlation) {
            return Err(format!("answer {number:?} where {} was due", asked.correlation));
        }
        let response = read_response(asked.api, asked.version, frame)
            .map_err(|error| format!("an answer that cannot be read: {error}"))?;
        let request = read_request(&asked.frame)
            .map_err(|_| "an answer to a request that cannot be read".to_owned())?;
        if has_records(&response) {
            self.coverage.saw(Seen::OffsetsRead);
        }
        let checked = self
            .check_answer(asked, &request, &response)
            .and_then(|()| check_acknowledged(states, &request, &response));
        checked.map_err(|what| format!("reported before it is durable: {what}"))
    }

    fn check_answer(
        &self,
        asked: &Asked,
        request: &Request<'_>,
        response: &Response<'_>,
    ) -> Result<(), String> {
        match (request, response) {
            (Request::OffsetCommit(asked), Response::OffsetCommit(answer)) => {
                self.committed(asked, answer)
            }
            (Request::OffsetFetch(asked), Response::OffsetFetch(answer)) => {
                self.fetched(asked, answer)
            }
            (Request::SyncGroup(asked), Response::SyncGroup(answer)) => self.synced(asked, answer),
            (Request::ConsumerGroupHeartbeat(asked), Response::ConsumerGroupHeartbeat(answer)) => {
                self.heartbeat(&asked.group_id, answer)
            }
            (Request::StreamsGroupHeartbeat(asked), Response::StreamsGroupHeartbeat(answer))
                if answer.error_code == 0 && answer.member_epoch > 0 =>
            {
                let (group, member) = (&*asked.group_id, &*answer.member_id);
                self.require(&Fact::MemberEpoch { group, member, epoch: answer.member_epoch })
            }
            (Request::DeleteGroups(_), Response::DeleteGroups(answer)) => {
                self.groups_deleted(asked.sent, answer)
            }
            (Request::CreateTopics(_), Response::CreateTopics(answer)) => self.created(answer),
            (
                Request::IncrementalAlterConfigs(asked),
                Response::IncrementalAlterConfigs(answer),
            ) => self.configured(asked, answer),
            (Request::Fetch(_), Response::Fetch(answer)) => self.read(answer),
            _ => Ok(()),
        }
    }

    /// Checks the records of `__consumer_offsets` in a fetch answer.
    fn read(&self, answer: &FetchResponse<'_>) -> Result<(), String> {
        let of_groups = answer.responses.iter().filter(|it| it.topic == OFFSETS_TOPIC);
        for partition in of_groups.flat_map(|topic| &topic.partitions) {
            each_batch(partition.records.as_deref().unwrap_or_default(), |batch| {
                if batch.header.is_control() {
                    return Ok(());
                }
                for record in batch.records().map_err(|error| error.to_string())? {
                    let record = record.map_err(|error| error.to_string())?;
                    let read = GroupRecord::read(record.key.unwrap_or_default(), record.value);
                    if let Some(record) = read.map_err(|error| error.to_string())?
                        && let Some(fact) = Fact::of(&record)
                    {
                        self.require(&fact)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn committed(
        &self,
        asked: &OffsetCommitRequest<'_>,
        answer: &OffsetCommitResponse<'_>,
    ) -> Result<(), String> {
        // The answer may list refused topics at another place.
        let of = |topic: &OffsetCommitRequestTopic<'_>| {
            let is_of = |it: &&OffsetCommitResponseTopic<'_>| {
                it.name == topic.name && it.topic_id == topic.topic_id
            };
            answer.topics.iter().find(is_of)
        };
        for (topic, answer) in asked.topics.iter().filter_map(|topic| Some((topic, of(topic)?))) {
            for (partition, answer) in topic.partitions.iter().zip(&answer.partitions) {
                if answer.error_code == 0 {
                    self.require(&Fact::Commit {
                        group: &asked.group_id,
                        topic: &topic.name,
                        partition: partition.partition_index,
                        offset: partition.committed_offset,
                    })?;
                }
            }
        }
        Ok(())
    }

    fn fetched(
        &self,
        asked: &OffsetFetchRequest<'_>,
        answer: &OffsetFetchResponse<'_>,
    ) -> Result<(), String> {
        let single = answer.topics.iter().flat_map(|topic| {
            let of = move |at: &muster_codec::messages::OffsetFetchResponsePartition<'_>| {
                (at.partition_index, at.committed_offset)
            };
            topic.partitions.iter().map(move |at| (&*asked.group_id, &*topic.name, of(at)))
        });
        let grouped = answer.groups.iter().flat_map(|group| {
            let topics = group.topics.iter().map(move |topic| (&*group.group_id, topic));
            topics.flat_map(|(group, topic)| {
                let of = move |at: &muster_codec::messages::OffsetFetchResponsePartitions<'_>| {
                    (at.partition_index, at.committed_offset)
                };
                topic.partitions.iter().map(move |at| (group, &*topic.name, of(at)))
            })
        });
        for (group, topic, (partition, offset)) in single.chain(grouped) {
            if offset >= 0 {
                self.require(&Fact::Commit { group, topic, partition, offset })?;
            }
        }
        Ok(())
    }

    fn synced(
        &self,
        asked: &SyncGroupRequest<'_>,
        answer: &SyncGroupResponse<'_>,
    ) -> Result<(), String> {
        if answer.error_code != 0 {
            return Ok(());
        }
        // For a classic member of a consumer group, the member epoch is the generation.
        let (group, generation) = (&*asked.group_id, asked.generation_id);
        let epoch = Fact::MemberEpoch { group, member: &asked.member_id, epoch: generation };
        self.require(&epoch).or_else(|_| self.require(&Fact::Generation { group, generation }))
    }

    fn heartbeat(
        &self,
        group: &str,
        answer: &ConsumerGroupHeartbeatResponse<'_>,
    ) -> Result<(), String> {
        let epoch = answer.member_epoch;
        match &answer.member_id {
            Some(member) if answer.error_code == 0 && epoch > 0 => {
                self.require(&Fact::MemberEpoch { group, member, epoch })
            }
            _ => Ok(()),
        }
    }

    fn groups_deleted(&self, sent: u64, answer: &DeleteGroupsResponse<'_>) -> Result<(), String> {
        for result in answer.results.iter().filter(|result| result.error_code == 0) {
            if self.gone.get(&*result.group_id).is_none_or(|at| *at < sent) {
                return Err(format!("deletion of {}", result.group_id));
            }
        }
        Ok(())
    }

    fn created(&self, answer: &CreateTopicsResponse<'_>) -> Result<(), String> {
        for topic in answer.topics.iter().filter(|topic| topic.error_code == 0) {
            if !topic.topic_id.is_zero() {
                self.require(&Fact::Topic { id: topic.topic_id })?;
            }
        }
        Ok(())
    }

    fn configured(
        &self,
        asked: &IncrementalAlterConfigsRequest<'_>,
        answer: &IncrementalAlterConfigsResponse<'_>,
    ) -> Result<(), String> {
        for (resource, answer) in asked.resources.iter().zip(&answer.responses) {
            for config in resource.configs.iter().filter(|_| answer.error_code == 0) {
                let is_set = config.config_operation == 0;
                if let Some(value) = config.value.as_deref().filter(|_| is_set) {
                    self.require(&Fact::Config {
                        resource: resource.resource_type,
                        name: &resource.resource_name,
                        key: &config.name,
                        value: Some(value),
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn read_request(frame: &[u8]) -> Result<Request<'_>, DecodeError> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::read(&mut reader)?;
    let api = header.api().ok_or(DecodeError::UnknownApiKey(header.api_key))?;
    Request::read(api, header.api_version, &mut reader)
}

fn has_records(response: &Response<'_>) -> bool {
    let Response::Fetch(response) = response else { return false };
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.any(|partition| partition.records.as_ref().is_some_and(|it| !it.is_empty()))
}
