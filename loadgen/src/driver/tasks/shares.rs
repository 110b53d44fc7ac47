//! A task on share groups: the start offsets of their partitions.

use std::sync::Arc;

use muster_codec::ErrorCode;
use muster_codec::messages::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup as DescribedGroup,
    DescribeShareGroupOffsetsRequestTopic as DescribedTopic, DescribeShareGroupOffsetsResponse,
};

use super::{groups, is, observe, refused};
use crate::driver::core::Shared;
use crate::event::EventKind;
use crate::plan::{GroupIndex, Partition};

const PARTITIONS_A_REQUEST: usize = 5_000;

/// Reads the start offsets of these partitions, and reports them as events.
///
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn read_start_offsets(
    shared: &Shared,
    group: GroupIndex,
    id: &Arc<str>,
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
    id: &Arc<str>,
    partitions: &[Partition],
) -> Result<(), String> {
    let request = describe(shared, id, partitions)?;
    let read = |answer: DescribeShareGroupOffsetsResponse<'_>| match answer
        .groups
        .first()
        .map_or(0, |group| group.error_code)
    {
        0 => Ok(start_offsets(shared, &answer)),
        code => Err(code),
    };
    let (sent, answer) = groups::ask(shared, id, &request, read).await?;
    match answer {
        Ok(offsets) => {
            let offsets = offsets.into();
            observe(shared, group, EventKind::StartOffsets { sent, offsets });
            Ok(())
        }
        Err(code) if is(code, &[ErrorCode::GroupIdNotFound]) => Ok(()),
        Err(code) => {
            Err(refused(&format!("start offsets of group {id} cannot be read"), code, None))
        }
    }
}

fn describe<'a>(
    shared: &Shared,
    id: &'a Arc<str>,
    partitions: &[Partition],
) -> Result<DescribeShareGroupOffsetsRequest<'a>, String> {
    let topic = |(name, partitions)| DescribedTopic { topic_name: name, partitions };
    let topics = groups::by_topic(shared, partitions)?.into_iter().map(topic).collect();
    let group = DescribedGroup { group_id: (&**id).into(), topics: Some(topics) };
    Ok(DescribeShareGroupOffsetsRequest { groups: vec![group] })
}

fn start_offsets(
    shared: &Shared,
    answer: &DescribeShareGroupOffsetsResponse<'_>,
) -> Vec<(Partition, i64)> {
    let core = shared.core.borrow();
    let topics = answer.groups.iter().flat_map(|group| &group.topics);
    let each = topics.flat_map(|topic| {
        let index = core.topics.named(&topic.topic_name);
        topic.partitions.iter().filter_map(move |read| {
            let number = u32::try_from(read.partition_index).ok()?;
            Some((Partition { topic: index?, number }, read.start_offset))
        })
    });
    each.collect()
}
