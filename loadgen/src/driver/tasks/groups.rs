//! Tasks on groups: their configs, reading their committed offsets, and deleting them.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponsePartition as Single, OffsetFetchResponsePartitions as Grouped,
};
use kafka_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, FindCoordinatorRequest, GroupId,
    IncrementalAlterConfigsRequest, OffsetFetchRequest, OffsetFetchResponse, TopicName,
};
use kafka_protocol::protocol::{Request, StrBytes};
use tokio::time::sleep;

use super::{PATIENCE, RETRY_AFTER, any_server, failed, is, observe, refused, version};
use crate::driver::channel::Channel;
use crate::driver::core::Shared;
use crate::event::EventKind;
use crate::plan::{GroupIndex, Partition};
use crate::time::Time;

const PARTITIONS_A_REQUEST: usize = 5_000;
/// Errors after which the coordinator is looked up again and the request repeated.
const PASSING: &[ResponseError] = &[
    ResponseError::CoordinatorLoadInProgress,
    ResponseError::CoordinatorNotAvailable,
    ResponseError::NotCoordinator,
];
/// From this version of OffsetFetch on a request is for several groups.
const GROUPS_FROM: i16 = 8;
/// The resource type of a group, and the operation that sets a config.
const GROUP_RESOURCE: i8 = 32;
const SET: i8 = 0;
/// FindCoordinator's kinds of keys.
const GROUP: i8 = 0;
const TRANSACTIONS: i8 = 1;
/// From this version of FindCoordinator on a request has a list of keys.
const KEYS_FROM: i16 = 4;

/// Deletes a group. A group that does not exist is no error, and no event.
///
/// # Errors
/// One sentence.
pub(super) async fn delete(
    shared: &Shared,
    group: GroupIndex,
    id: &StrBytes,
) -> Result<(), String> {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(id.clone())]);
    let error = |answer: &DeleteGroupsResponse| {
        answer.results.first().map_or(-1, |result| result.error_code)
    };
    let (sent, _, code) = ask(shared, id, "DeleteGroups", &request, error).await?;
    match code {
        0 => observe(shared, group, EventKind::GroupDeleted { sent }),
        code if is(code, &[ResponseError::GroupIdNotFound]) => {}
        code => return Err(refused(&format!("group {id} cannot be deleted"), code, None)),
    }
    Ok(())
}

/// Reads the committed offsets of these partitions, as events.
///
/// # Errors
/// One sentence.
pub(super) async fn read_offsets(
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
    let version = version::<OffsetFetchRequest>(shared, "OffsetFetch")?;
    let request = offset_fetch(shared, version, id, partitions)?;
    let error = |answer: &OffsetFetchResponse| committed(shared, answer).err().unwrap_or(0);
    let (sent, answer, _) = ask(shared, id, "OffsetFetch", &request, error).await?;
    match committed(shared, &answer) {
        Ok(offsets) => {
            observe(shared, group, EventKind::Fetched { sent, offsets: offsets.into() });
            Ok(())
        }
        Err(code) => Err(refused(&format!("offsets of group {id} cannot be read"), code, None)),
    }
}

fn offset_fetch(
    shared: &Shared,
    version: i16,
    id: &StrBytes,
    partitions: &[Partition],
) -> Result<OffsetFetchRequest, String> {
    let mut by_topic: BTreeMap<_, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        by_topic.entry(partition.topic).or_default().push(partition.number as i32);
    }
    let core = shared.core.borrow();
    let mut topics = Vec::new();
    for (topic, numbers) in by_topic {
        let known = core.topics.get(topic).ok_or("offsets of an unknown topic are asked for")?;
        topics.push((TopicName(known.name.clone()), numbers));
    }
    let id = GroupId(id.clone());
    if version < GROUPS_FROM {
        let topic = |(name, numbers)| {
            OffsetFetchRequestTopic::default().with_name(name).with_partition_indexes(numbers)
        };
        let topics = topics.into_iter().map(topic).collect();
        return Ok(OffsetFetchRequest::default().with_group_id(id).with_topics(Some(topics)));
    }
    let topic = |(name, numbers)| {
        OffsetFetchRequestTopics::default().with_name(name).with_partition_indexes(numbers)
    };
    let topics = topics.into_iter().map(topic).collect();
    let group = OffsetFetchRequestGroup::default().with_group_id(id).with_topics(Some(topics));
    Ok(OffsetFetchRequest::default().with_groups(vec![group]))
}

/// The offsets, or the first error code.
fn committed(shared: &Shared, answer: &OffsetFetchResponse) -> Result<Vec<(Partition, i64)>, i16> {
    let group = answer.groups.first();
    let code = group.map_or(answer.error_code, |group| group.error_code);
    if code != 0 {
        return Err(code);
    }
    let single = answer.topics.iter().flat_map(|topic| {
        let fetched = |at: &Single| (at.partition_index, at.committed_offset, at.error_code);
        topic.partitions.iter().map(move |at| (&topic.name, fetched(at)))
    });
    let grouped = group.iter().flat_map(|group| &group.topics).flat_map(|topic| {
        let fetched = |at: &Grouped| (at.partition_index, at.committed_offset, at.error_code);
        topic.partitions.iter().map(move |at| (&topic.name, fetched(at)))
    });
    let core = shared.core.borrow();
    let mut offsets = Vec::new();
    for (name, (number, offset, code)) in single.chain(grouped) {
        if code != 0 {
            return Err(code);
        }
        // Topics that were not asked for are ignored.
        if let (Some(topic), Ok(number)) = (core.topics.named(&name.0), u32::try_from(number)) {
            offsets.push((Partition { topic, number }, offset));
        }
    }
    Ok(offsets)
}

/// Asks the group's coordinator, and again as long as it is about to be one. Returns when the
/// request was sent, and the answer with its error, which `error` reads.
///
/// # Errors
/// One sentence.
pub(super) async fn ask<R: Request>(
    shared: &Shared,
    id: &StrBytes,
    name: &str,
    request: &R,
    error: impl Fn(&R::Response) -> i16,
) -> Result<(Time, R::Response, i16), String> {
    let version = version::<R>(shared, name)?;
    let now = || shared.core.borrow().clock.now();
    let until = now() + PATIENCE;
    loop {
        let mut coordinator = coordinator(shared, id).await?;
        let sent = now();
        let answer = coordinator.call(version, request).await;
        let answer = answer.map_err(|error| failed(name, &error))?;
        let code = error(&answer);
        if !is(code, PASSING) || now() >= until {
            return Ok((sent, answer, code));
        }
        sleep(RETRY_AFTER).await;
    }
}

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
        .with_resource_type(GROUP_RESOURCE)
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

/// Opens a channel to the group's coordinator, as soon as there is one.
///
/// # Errors
/// One sentence.
pub(super) async fn coordinator(shared: &Shared, id: &StrBytes) -> Result<Channel, String> {
    find(shared, id, GROUP).await
}

/// Opens a channel to the coordinator of a transactional id, as soon as there is one.
///
/// # Errors
/// One sentence.
pub(super) async fn of_transactions(shared: &Shared, id: &StrBytes) -> Result<Channel, String> {
    find(shared, id, TRANSACTIONS).await
}

async fn find(shared: &Shared, id: &StrBytes, kind: i8) -> Result<Channel, String> {
    let version = version::<FindCoordinatorRequest>(shared, "FindCoordinator")?;
    let request = FindCoordinatorRequest::default().with_key_type(kind);
    let request = if version < KEYS_FROM {
        request.with_key(id.clone())
    } else {
        request.with_coordinator_keys(vec![id.clone()])
    };
    let until = shared.core.borrow().clock.now() + PATIENCE;
    loop {
        let mut anyone = any_server(shared).await?;
        let answer = anyone.call(version, &request).await;
        let answer = answer.map_err(|error| failed("FindCoordinator", &error))?;
        let (code, host, port) = match answer.coordinators.first() {
            Some(found) => (found.error_code, &found.host, found.port),
            None => (answer.error_code, &answer.host, answer.port),
        };
        match (code, u16::try_from(port)) {
            (0, Ok(port)) => return shared.dialer.channel(host, port).await,
            (code, _) if is(code, PASSING) && shared.core.borrow().clock.now() < until => {}
            (code, _) => {
                let of = if kind == GROUP { "group" } else { "producer" };
                return Err(refused(&format!("coordinator of {of} {id}"), code, None));
            }
        }
        sleep(RETRY_AFTER).await;
    }
}
