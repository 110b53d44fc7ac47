//! A task on share groups: the start offsets of their partitions.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup as DescribedGroup,
    DescribeShareGroupOffsetsRequestTopic as DescribedTopic,
};
use kafka_protocol::messages::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, GroupId, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::{groups, is, observe, refused};
use crate::driver::core::Shared;
use crate::event::EventKind;
use crate::plan::{GroupIndex, Partition};

const PARTITIONS_A_REQUEST: usize = 5_000;

/// Reads the start offsets of these partitions, as events.
///
/// # Errors
/// One sentence.
pub(super) async fn read_start_offsets(
    shared: &Shared,
    group: GroupIndex,
    id: &StrBytes,
    partitions: &[Partition],
) -> Result<(), String> {
    for partitions in partitions.chunks(PARTITIONS_A_REQUEST) {
        read_some(shared, group, id, partitions).await?;
    }
    Ok(())
}

async fn read_some(
    shared: &Shared,
    group: GroupIndex,
    id: &StrBytes,
    partitions: &[Partition],
) -> Result<(), String> {
    let request = describe(shared, id, partitions)?;
    let error = |answer: &DescribeShareGroupOffsetsResponse| {
        answer.groups.first().map_or(0, |group| group.error_code)
    };
    let name = "DescribeShareGroupOffsets";
    let (sent, answer, code) = groups::ask(shared, id, name, &request, error).await?;
    match code {
        0 => {
            let offsets = start_offsets(shared, &answer).into();
            observe(shared, group, EventKind::StartOffsets { sent, offsets });
            Ok(())
        }
        code if is(code, &[ResponseError::GroupIdNotFound]) => Ok(()),
        code => Err(refused(&format!("start offsets of group {id} cannot be read"), code, None)),
    }
}

fn describe(
    shared: &Shared,
    id: &StrBytes,
    partitions: &[Partition],
) -> Result<DescribeShareGroupOffsetsRequest, String> {
    let mut by_topic: BTreeMap<_, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        by_topic.entry(partition.topic).or_default().push(partition.number as i32);
    }
    let core = shared.core.borrow();
    let mut topics = Vec::new();
    for (topic, numbers) in by_topic {
        let known = core.topics.get(topic).ok_or("offsets of an unknown topic are asked for")?;
        let name = TopicName(known.name.clone());
        topics.push(DescribedTopic::default().with_topic_name(name).with_partitions(numbers));
    }
    let group = DescribedGroup::default().with_group_id(GroupId(id.clone()));
    let groups = vec![group.with_topics(Some(topics))];
    Ok(DescribeShareGroupOffsetsRequest::default().with_groups(groups))
}

fn start_offsets(
    shared: &Shared,
    answer: &DescribeShareGroupOffsetsResponse,
) -> Vec<(Partition, i64)> {
    let core = shared.core.borrow();
    let topics = answer.groups.iter().flat_map(|group| &group.topics);
    let each = topics.flat_map(|topic| {
        let index = core.topics.named(&topic.topic_name.0);
        topic.partitions.iter().filter_map(move |read| {
            let number = u32::try_from(read.partition_index).ok()?;
            Some((Partition { topic: index?, number }, read.start_offset))
        })
    });
    each.collect()
}
