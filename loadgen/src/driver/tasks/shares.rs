//! Tasks on share groups: their configs, and the start offsets of their partitions.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup as DescribedGroup,
    DescribeShareGroupOffsetsRequestTopic as DescribedTopic,
};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, GroupId,
    IncrementalAlterConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tokio::time::sleep;

use super::{PATIENCE, RETRY_AFTER, any_server, failed, groups, is, observe, refused, version};
use crate::driver::core::Shared;
use crate::event::EventKind;
use crate::plan::{GroupIndex, Partition};

/// The resource type of a group, and the operation that sets a config.
const GROUP: i8 = 32;
const SET: i8 = 0;
const PARTITIONS_A_REQUEST: usize = 5_000;

/// Sets configs of a group, which need not exist.
///
/// # Errors
/// One sentence.
pub(super) async fn configure(
    shared: &Shared,
    id: &StrBytes,
    configs: &[(String, String)],
) -> Result<(), String> {
    let version = version::<IncrementalAlterConfigsRequest>(shared, "IncrementalAlterConfigs")?;
    let set = |(name, value): &(String, String)| {
        AlterableConfig::default()
            .with_name(name.clone().into())
            .with_config_operation(SET)
            .with_value(Some(value.clone().into()))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(GROUP)
        .with_resource_name(id.clone())
        .with_configs(configs.iter().map(set).collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let mut server = any_server(shared).await?;
    let answer = server.call(version, &request).await;
    let answer = answer.map_err(|error| failed("IncrementalAlterConfigs", &error))?;
    match answer.responses.first().filter(|it| it.error_code != 0) {
        None => Ok(()),
        Some(it) => {
            let what = format!("configs of group {id} cannot be set");
            Err(refused(&what, it.error_code, it.error_message.as_ref()))
        }
    }
}

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
    let name = "DescribeShareGroupOffsets";
    let version = version::<DescribeShareGroupOffsetsRequest>(shared, name)?;
    let request = describe(shared, id, partitions)?;
    let until = shared.core.borrow().clock.now() + PATIENCE;
    loop {
        let mut coordinator = groups::coordinator(shared, id).await?;
        let sent = shared.core.borrow().clock.now();
        let answer = coordinator.call(version, &request).await;
        let answer = answer.map_err(|error| failed(name, &error))?;
        let code = answer.groups.first().map_or(0, |group| group.error_code);
        match code {
            0 => {
                let offsets = start_offsets(shared, &answer).into();
                observe(shared, group, EventKind::StartOffsets { sent, offsets });
                return Ok(());
            }
            code if is(code, groups::PASSING) && shared.core.borrow().clock.now() < until => {}
            code if is(code, &[ResponseError::GroupIdNotFound]) => return Ok(()),
            code => {
                let what = format!("start offsets of group {id} cannot be read");
                return Err(refused(&what, code, None));
            }
        }
        sleep(RETRY_AFTER).await;
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
