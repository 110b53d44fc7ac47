//! OffsetCommit and OffsetFetch, in all versions that contain topic names. From version 10 on, they
//! contain topic ids instead.

use std::sync::Arc;

use muster_codec::Str;
use muster_codec::messages::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic,
    OffsetFetchRequestTopics, OffsetFetchResponse,
};

use super::owned::by_topic;
use super::text::text;
use crate::plan::{MemberPlan, Partition, Protocol, TopicIndex};
use crate::topics::Topics;

/// The first version in which OffsetCommit has `group.instance.id`.
pub(super) const STATIC_COMMIT: i16 = 7;
/// The first version in which OffsetFetch has a list of groups.
const GROUPS: i16 = 8;
/// The first version in which OffsetFetch names the member. Members of consumer groups set it.
const FETCH_BY_MEMBER: i16 = 9;

/// The member id and the generation or member epoch of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    pub(super) member_id: &'a str,
    pub(super) epoch: i32,
}

/// Builds a commit. `offsets` are sorted by partition.
pub(super) fn commit_request(
    offsets: &[(Partition, i64)],
    identity: Identity<'_>,
    plan: &MemberPlan,
    topics: &Topics,
) -> OffsetCommitRequest<'static> {
    let partition = |(partition, offset): &(Partition, i64)| OffsetCommitRequestPartition {
        partition_index: partition.number as i32,
        committed_offset: *offset,
        ..OffsetCommitRequestPartition::default()
    };
    let topic = |run: &[(Partition, i64)]| {
        let name = name(topics, run[0].0.topic)?;
        let partitions = run.iter().map(partition).collect();
        Some(OffsetCommitRequestTopic { name, partitions, ..Default::default() })
    };
    let runs = offsets.chunk_by(|a, b| a.0.topic == b.0.topic);
    OffsetCommitRequest {
        group_id: text(&plan.group.id),
        generation_id_or_member_epoch: identity.epoch,
        member_id: text(identity.member_id),
        group_instance_id: plan.instance_id.as_deref().map(text),
        topics: runs.filter_map(topic).collect(),
        ..OffsetCommitRequest::default()
    }
}

pub(super) fn fetch_request(
    partitions: &[Partition],
    identity: Identity<'_>,
    plan: &MemberPlan,
    version: i16,
    topics: &Topics,
) -> OffsetFetchRequest<'static> {
    let numbers = |run: &[Partition]| run.iter().map(|one| one.number as i32).collect::<Vec<_>>();
    let (group_id, request) = (text(&plan.group.id), OffsetFetchRequest::default());
    if version < GROUPS {
        let topic = |(topic, run)| {
            let (name, partition_indexes) = (name(topics, topic)?, numbers(run));
            Some(OffsetFetchRequestTopic { name, partition_indexes })
        };
        let topics = Some(by_topic(partitions).filter_map(topic).collect());
        return OffsetFetchRequest { group_id, topics, ..request };
    }
    let topic = |(topic, run)| {
        let (name, partition_indexes) = (name(topics, topic)?, numbers(run));
        Some(OffsetFetchRequestTopics { name, partition_indexes, ..Default::default() })
    };
    let topics = Some(by_topic(partitions).filter_map(topic).collect());
    let mut of_group = OffsetFetchRequestGroup { group_id, topics, ..Default::default() };
    if version >= FETCH_BY_MEMBER && matches!(plan.group.protocol, Protocol::Consumer { .. }) {
        of_group.member_id = Some(text(identity.member_id));
        of_group.member_epoch = identity.epoch;
    }
    OffsetFetchRequest { groups: vec![of_group], ..request }
}

/// The partitions of a commit that were not accepted, sorted.
pub(super) fn refused(
    response: &OffsetCommitResponse<'_>,
    topics: &Topics,
) -> Arc<[(Partition, i16)]> {
    let mut refused = Vec::new();
    for topic in &response.topics {
        let errors = topic.partitions.iter().filter(|partition| partition.error_code != 0);
        for partition in errors {
            if let Some(one) = read(topics, &topic.name, partition.partition_index) {
                refused.push((one, partition.error_code));
            }
        }
    }
    refused.sort_unstable();
    refused.into()
}

/// The committed offsets, sorted, with -1 for a partition without a commit; or the first error.
pub(super) fn fetched(
    response: &OffsetFetchResponse<'_>,
    topics: &Topics,
) -> Result<Vec<(Partition, i64)>, i16> {
    let mut read_all = Read { topics, offsets: Vec::new(), error: response.error_code };
    for topic in &response.topics {
        for one in &topic.partitions {
            let (number, offset) = (one.partition_index, one.committed_offset);
            read_all.one(&topic.name, number, offset, one.error_code);
        }
    }
    for group in &response.groups {
        read_all.fail(group.error_code);
        for topic in &group.topics {
            for one in &topic.partitions {
                let (number, offset) = (one.partition_index, one.committed_offset);
                read_all.one(&topic.name, number, offset, one.error_code);
            }
        }
    }
    if read_all.error != 0 {
        return Err(read_all.error);
    }
    read_all.offsets.sort_unstable();
    Ok(read_all.offsets)
}

struct Read<'a> {
    topics: &'a Topics,
    offsets: Vec<(Partition, i64)>,
    error: i16,
}

impl Read<'_> {
    fn one(&mut self, name: &str, number: i32, offset: i64, error: i16) {
        self.fail(error);
        if let Some(partition) = read(self.topics, name, number) {
            self.offsets.push((partition, offset));
        }
    }

    fn fail(&mut self, error: i16) {
        if self.error == 0 {
            self.error = error;
        }
    }
}

fn name(topics: &Topics, topic: TopicIndex) -> Option<Str<'static>> {
    topics.get(topic).map(|topic| text(&topic.name))
}

fn read(topics: &Topics, name: &str, number: i32) -> Option<Partition> {
    let topic = topics.named(name)?;
    Some(Partition { topic, number: u32::try_from(number).ok()? })
}
