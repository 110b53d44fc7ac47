//! Tasks on groups: setting their configs, reading their committed offsets, and deleting them.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_codec::messages::{
    AlterConfigsResource, AlterableConfig, DeleteGroupsRequest, DeleteGroupsResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, IncrementalAlterConfigsRequest,
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse, OffsetFetchResponsePartition as Single,
    OffsetFetchResponsePartitions as Grouped,
};
use muster_codec::{ApiKey, ErrorCode, Str};
use tokio::time::sleep;

use super::{PATIENCE, RETRY_AFTER, any_server, call, is, observe, refused, version};
use crate::driver::channel::Channel;
use crate::driver::core::Shared;
use crate::event::EventKind;
use crate::plan::{GroupIndex, Partition};
use crate::time::Time;
use crate::wire::Call;

const PARTITIONS_A_REQUEST: usize = 5_000;
/// Errors after which the coordinator is looked up again and the request is repeated.
const PASSING: &[ErrorCode] = &[
    ErrorCode::CoordinatorLoadInProgress,
    ErrorCode::CoordinatorNotAvailable,
    ErrorCode::NotCoordinator,
];
/// The first version of OffsetFetch with a list of groups.
const GROUPS_FROM: i16 = 8;
/// The resource type of a group, for IncrementalAlterConfigs.
const GROUP_RESOURCE: i8 = 32;
/// The operation that sets a config.
const SET: i8 = 0;
/// The key types of FindCoordinator.
const GROUP: i8 = 0;
const TRANSACTIONS: i8 = 1;
/// The first version of FindCoordinator with a list of keys.
const KEYS_FROM: i16 = 4;

/// Deletes a group and reports this as an event. If the group does not exist, this is no error, and
/// there is no event.
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn delete(
    shared: &Shared,
    group: GroupIndex,
    id: &Arc<str>,
) -> Result<(), String> {
    let request = DeleteGroupsRequest { groups_names: vec![(&**id).into()] };
    let read = |answer: DeleteGroupsResponse<'_>| match answer
        .results
        .first()
        .map_or(-1, |result| result.error_code)
    {
        0 => Ok(()),
        code => Err(code),
    };
    match ask(shared, id, &request, read).await? {
        (sent, Ok(())) => observe(shared, group, EventKind::GroupDeleted { sent }),
        (_, Err(code)) if is(code, &[ErrorCode::GroupIdNotFound]) => {}
        (_, Err(code)) => {
            return Err(refused(&format!("group {id} cannot be deleted"), code, None));
        }
    }
    Ok(())
}

/// Reads the committed offsets of these partitions, and reports them as events.
///
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn read_offsets(
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
    let request = offset_fetch(shared, id, partitions)?;
    match ask(shared, id, &request, |answer| committed(shared, &answer)).await? {
        (sent, Ok(offsets)) => {
            observe(shared, group, EventKind::Fetched { sent, offsets: offsets.into() });
            Ok(())
        }
        (_, Err(code)) => {
            Err(refused(&format!("offsets of group {id} cannot be read"), code, None))
        }
    }
}

fn offset_fetch<'a>(
    shared: &Shared,
    id: &'a Arc<str>,
    partitions: &[Partition],
) -> Result<OffsetFetchRequest<'a>, String> {
    let topics = by_topic(shared, partitions)?.into_iter();
    let (id, request) = (Str::from(&**id), OffsetFetchRequest::default());
    if version(shared, ApiKey::OffsetFetch)? < GROUPS_FROM {
        let topic = |(name, partition_indexes)| OffsetFetchRequestTopic { name, partition_indexes };
        let topics = Some(topics.map(topic).collect());
        return Ok(OffsetFetchRequest { group_id: id, topics, ..request });
    }
    let topic = |(name, partition_indexes)| OffsetFetchRequestTopics {
        name,
        partition_indexes,
        ..OffsetFetchRequestTopics::default()
    };
    let topics = Some(topics.map(topic).collect());
    let group = OffsetFetchRequestGroup { group_id: id, topics, ..Default::default() };
    Ok(OffsetFetchRequest { groups: vec![group], ..request })
}

/// The partition numbers, by topic name.
pub(super) fn by_topic(
    shared: &Shared,
    partitions: &[Partition],
) -> Result<Vec<(Str<'static>, Vec<i32>)>, String> {
    let mut by_topic: BTreeMap<_, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        by_topic.entry(partition.topic).or_default().push(partition.number as i32);
    }
    let core = shared.core.borrow();
    let named = by_topic.into_iter().map(|(topic, numbers)| {
        let known = core.topics.get(topic).ok_or("offsets of an unknown topic are asked for")?;
        Ok((known.name.to_string().into(), numbers))
    });
    named.collect()
}

/// The committed offsets, or the first error code.
fn committed(
    shared: &Shared,
    answer: &OffsetFetchResponse<'_>,
) -> Result<Vec<(Partition, i64)>, i16> {
    let group = answer.groups.first();
    let code = group.map_or(answer.error_code, |group| group.error_code);
    if code != 0 {
        return Err(code);
    }
    let single = answer.topics.iter().flat_map(|topic| {
        let fetched = |at: &Single<'_>| (at.partition_index, at.committed_offset, at.error_code);
        topic.partitions.iter().map(move |at| (&topic.name, fetched(at)))
    });
    let grouped = group.iter().flat_map(|group| &group.topics).flat_map(|topic| {
        let fetched = |at: &Grouped<'_>| (at.partition_index, at.committed_offset, at.error_code);
        topic.partitions.iter().map(move |at| (&topic.name, fetched(at)))
    });
    let core = shared.core.borrow();
    let mut offsets = Vec::new();
    for (name, (number, offset, code)) in single.chain(grouped) {
        if code != 0 {
            return Err(code);
        }
        // Topics that were not requested are ignored.
        if let (Some(topic), Ok(number)) = (core.topics.named(name), u32::try_from(number)) {
            offsets.push((Partition { topic, number }, offset));
        }
    }
    Ok(offsets)
}

/// Sends a request to the group's coordinator. Repeats it while the coordinator is loading or
/// moving. Returns the time when the last one was sent, and what `read` returned for its answer: a
/// value or an error code.
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn ask<R: Call, T>(
    shared: &Shared,
    id: &Arc<str>,
    request: &R,
    read: impl Fn(R::Response<'_>) -> Result<T, i16>,
) -> Result<(Time, Result<T, i16>), String> {
    let version = version(shared, R::API)?;
    let now = || shared.core.borrow().clock.now();
    let until = now() + PATIENCE;
    loop {
        let mut coordinator = coordinator(shared, id).await?;
        let sent = now();
        match call(&mut coordinator, version, request, &read).await? {
            Err(code) if is(code, PASSING) && now() < until => sleep(RETRY_AFTER).await,
            answer => return Ok((sent, answer)),
        }
    }
}

/// Sets configs of a group, which need not exist yet.
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn configure(
    shared: &Shared,
    id: &Arc<str>,
    configs: &[(String, String)],
) -> Result<(), String> {
    let version = version(shared, ApiKey::IncrementalAlterConfigs)?;
    let resource = AlterConfigsResource {
        resource_type: GROUP_RESOURCE,
        resource_name: (&**id).into(),
        configs: configs.iter().map(set).collect(),
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let mut server = any_server(shared).await?;
    let answer = call(&mut server, version, &request, |answer| {
        match answer.responses.first().filter(|it| it.error_code != 0) {
            None => Ok(()),
            Some(it) => {
                let what = format!("configs of group {id} cannot be set");
                Err(refused(&what, it.error_code, it.error_message.as_deref()))
            }
        }
    });
    answer.await?
}

fn set((name, value): &(String, String)) -> AlterableConfig<'_> {
    AlterableConfig { name: name.into(), config_operation: SET, value: Some(value.into()) }
}

/// Opens a channel to the group's coordinator, once there is one.
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn coordinator(shared: &Shared, id: &Arc<str>) -> Result<Channel, String> {
    find(shared, id, GROUP).await
}

/// Opens a channel to the coordinator of a transactional id, once there is one.
/// # Errors
/// The error is a sentence for the user.
pub(super) async fn of_transactions(shared: &Shared, id: &Arc<str>) -> Result<Channel, String> {
    find(shared, id, TRANSACTIONS).await
}

async fn find(shared: &Shared, id: &Arc<str>, kind: i8) -> Result<Channel, String> {
    let version = version(shared, ApiKey::FindCoordinator)?;
    let mut request = FindCoordinatorRequest { key_type: kind, ..Default::default() };
    if version < KEYS_FROM {
        request.key = (&**id).into();
    } else {
        request.coordinator_keys = vec![(&**id).into()];
    }
    let found = |answer: FindCoordinatorResponse<'_>| match answer.coordinators.first() {
        Some(found) => (found.error_code, found.host.to_string(), found.port),
        None => (answer.error_code, answer.host.into_owned(), answer.port),
    };
    let until = shared.core.borrow().clock.now() + PATIENCE;
    loop {
        let mut anyone = any_server(shared).await?;
        let (code, host, port) = call(&mut anyone, version, &request, found).await?;
        match (code, u16::try_from(port)) {
            (0, Ok(port)) => return shared.dialer.channel(&host, port).await,
            (code, _) if is(code, PASSING) && shared.core.borrow().clock.now() < until => {}
            (code, _) => {
                let of = if kind == GROUP { "group" } else { "producer" };
                return Err(refused(&format!("coordinator of {of} {id}"), code, None));
            }
        }
        sleep(RETRY_AFTER).await;
    }
}
