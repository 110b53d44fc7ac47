//! What was durable at some time, as read back from the simulated disk; and what answers tell,
//! which has to be among it when they leave.

use crate::client::{each_batch, read_response};
use crate::coverage::{Coverage, Seen};
use crate::net::Asked;
use crate::world::World;
use muster_codec::header::RequestHeader;
use muster_codec::messages::{
    ConsumerGroupHeartbeatResponse, CreateTopicsResponse, DeleteGroupsResponse, FetchResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest,
    SyncGroupResponse,
};
use muster_codec::records::{ClusterRecord, GroupRecord};
use muster_codec::{Reader, Request, Response, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::Xxh3;

/// Things that became durable, by a hash of what they are.
#[derive(Default)]
pub(crate) struct Facts {
    known: BTreeSet<u64>,
    /// When a group, or what is left of it, was last known to go.
    gone: BTreeMap<String, u64>,
    /// The groups that went since somebody asked.
    ended: Vec<String>,
    /// What became durable, counted.
    pub(super) coverage: Coverage,
}

/// One thing that an answer may tell.
enum Fact<'a> {
    Commit { group: &'a str, topic: &'a str, partition: i32, offset: i64 },
    Generation { group: &'a str, generation: i32 },
    MemberEpoch { group: &'a str, member: &'a str, epoch: i32 },
    Topic { id: Uuid },
    Config { resource: i8, name: &'a str, key: &'a str, value: Option<&'a str> },
}

impl Facts {
    /// Records of a group became durable.
    pub(super) fn group_record(&mut self, record: &GroupRecord<'_>, now: u64) {
        if let Some(fact) = Fact::of(record) {
            self.add(&fact);
        }
        match record {
            GroupRecord::OffsetCommit(_, Some(_)) => self.coverage.saw(Seen::Committed),
            GroupRecord::GroupMetadata(_, None) | GroupRecord::ConsumerGroupMetadata(_, None) => {
                self.coverage.saw(Seen::GroupDeleted);
                self.ended.push(record.group_id().to_owned());
            }
            _ => {}
        }
        if record.is_tombstone() {
            self.gone.insert(record.group_id().to_owned(), now);
        }
    }

    /// Records of the cluster became durable.
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
            ClusterRecord::ProducerIds(..) | ClusterRecord::DeletedTopic(..) => {}
        }
    }

    pub(super) fn take_ended(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ended)
    }

    /// Whether a group was deleted, or what is left of it, since some time.
    pub(crate) fn went_since(&self, group: &str, time: u64) -> bool {
        self.gone.get(group).is_some_and(|at| *at >= time)
    }

    fn add(&mut self, fact: &Fact<'_>) {
        self.known.insert(fact.hash());
    }

    /// # Errors
    /// It is not known to be durable; the words say what.
    fn require(&self, fact: &Fact<'_>) -> Result<(), String> {
        match self.known.contains(&fact.hash()) {
            true => Ok(()),
            false => Err(fact.tell()),
        }
    }
}

impl<'a> Fact<'a> {
    /// What a record is about, if it is one of the facts.
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
            _ => None,
        }
    }

    fn hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(self.tell().as_bytes());
        hash.digest()
    }

    fn tell(&self) -> String {
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
        }
    }
}

impl World {
    /// An answer leaves a shard: everything that it tells must be durable now.
    pub(crate) fn judge_answer(&mut self, asked: &Asked, frame: &[u8]) {
        let number = frame.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes));
        if number != Some(asked.correlation) {
            return self
                .violate(format_args!("answer {number:?} where {} was due", asked.correlation));
        }
        let response = match read_response(asked.api, asked.version, frame) {
            Ok(response) => response,
            Err(error) => {
                return self.violate(format_args!("an answer that cannot be read: {error}"));
            }
        };
        let mut reader = Reader::new(&asked.frame);
        let request = RequestHeader::read(&mut reader).and_then(|header| {
            let api = header.api().ok_or(muster_codec::DecodeError::UnknownApiKey(header.api_key));
            Request::read(api?, header.api_version, &mut reader)
        });
        let Ok(request) = request else {
            return self.violate(format_args!("an answer to a request that cannot be read"));
        };
        if has_records(&response) {
            self.coverage.saw(Seen::OffsetsRead);
        }
        if let Err(what) = self.judge.facts.judge(asked, &request, &response) {
            self.violate(format_args!("told before it is durable: {what}"));
        }
    }
}

fn has_records(response: &Response<'_>) -> bool {
    let Response::Fetch(response) = response else { return false };
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    partitions.any(|partition| partition.records.as_ref().is_some_and(|it| !it.is_empty()))
}

impl Facts {
    fn judge(
        &self,
        asked: &Asked,
        request: &Request<'_>,
        response: &Response<'_>,
    ) -> Result<(), String> {
        match (request, response) {
            (Request::OffsetCommit(asked), Response::OffsetCommit(told)) => {
                self.committed(asked, told)
            }
            (Request::OffsetFetch(asked), Response::OffsetFetch(told)) => self.fetched(asked, told),
            (Request::SyncGroup(asked), Response::SyncGroup(told)) => self.synced(asked, told),
            (Request::ConsumerGroupHeartbeat(asked), Response::ConsumerGroupHeartbeat(told)) => {
                self.heartbeat(&asked.group_id, told)
            }
            (Request::DeleteGroups(_), Response::DeleteGroups(told)) => {
                self.groups_deleted(asked.sent, told)
            }
            (Request::CreateTopics(_), Response::CreateTopics(told)) => self.created(told),
            (Request::IncrementalAlterConfigs(asked), Response::IncrementalAlterConfigs(told)) => {
                self.configured(asked, told)
            }
            (Request::Fetch(_), Response::Fetch(told)) => self.read(told),
            _ => Ok(()),
        }
    }

    /// Only `__consumer_offsets` has records in this world.
    fn read(&self, told: &FetchResponse<'_>) -> Result<(), String> {
        for partition in told.responses.iter().flat_map(|topic| &topic.partitions) {
            each_batch(partition.records.as_deref().unwrap_or_default(), |batch| {
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
        told: &OffsetCommitResponse<'_>,
    ) -> Result<(), String> {
        for (topic, answer) in asked.topics.iter().zip(&told.topics) {
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
        told: &OffsetFetchResponse<'_>,
    ) -> Result<(), String> {
        let single = told.topics.iter().flat_map(|topic| {
            let of = move |at: &muster_codec::messages::OffsetFetchResponsePartition<'_>| {
                (at.partition_index, at.committed_offset)
            };
            topic.partitions.iter().map(move |at| (&*asked.group_id, &*topic.name, of(at)))
        });
        let grouped = told.groups.iter().flat_map(|group| {
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
        told: &SyncGroupResponse<'_>,
    ) -> Result<(), String> {
        if told.error_code != 0 {
            return Ok(());
        }
        self.require(&Fact::Generation { group: &asked.group_id, generation: asked.generation_id })
    }

    fn heartbeat(
        &self,
        group: &str,
        told: &ConsumerGroupHeartbeatResponse<'_>,
    ) -> Result<(), String> {
        let epoch = told.member_epoch;
        match &told.member_id {
            Some(member) if told.error_code == 0 && epoch > 0 => {
                self.require(&Fact::MemberEpoch { group, member, epoch })
            }
            _ => Ok(()),
        }
    }

    fn groups_deleted(&self, sent: u64, told: &DeleteGroupsResponse<'_>) -> Result<(), String> {
        for result in told.results.iter().filter(|result| result.error_code == 0) {
            if self.gone.get(&*result.group_id).is_none_or(|at| *at < sent) {
                return Err(format!("deletion of {}", result.group_id));
            }
        }
        Ok(())
    }

    fn created(&self, told: &CreateTopicsResponse<'_>) -> Result<(), String> {
        for topic in told.topics.iter().filter(|topic| topic.error_code == 0) {
            if !topic.topic_id.is_zero() {
                self.require(&Fact::Topic { id: topic.topic_id })?;
            }
        }
        Ok(())
    }

    fn configured(
        &self,
        asked: &IncrementalAlterConfigsRequest<'_>,
        told: &IncrementalAlterConfigsResponse<'_>,
    ) -> Result<(), String> {
        for (resource, answer) in asked.resources.iter().zip(&told.responses) {
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
