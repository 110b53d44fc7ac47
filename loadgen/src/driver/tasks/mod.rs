//! Requests of muster-load itself to the cluster, about topics, groups and committed offsets. They
//! are sent where any client sends them: to the controller, to the group's coordinator, to each
//! broker (ListGroups), or to any server (Metadata).

mod groups;
mod leftovers;
mod shares;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use muster_codec::messages::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use muster_codec::{ApiKey, ErrorCode};

use super::channel::Channel;
use super::cluster::{brokers, required};
use super::command::{Task, TaskOutcome};
use super::core::Shared;
use crate::event::{Event, EventKind, OBSERVER};
use crate::plan::GroupIndex;
use crate::wire::Call;

/// How long leader elections, the deletion of a topic, or loading a coordinator may take.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// # Errors
/// The error is a sentence for the user.
pub(super) async fn carry_out(shared: &Shared, task: Task) -> Result<TaskOutcome, String> {
    match task {
        Task::EnsureTopics { topics, replication } => {
            let wanted = topics.into_iter().collect();
            topics::ensure(shared, &wanted, replication).await.map(TaskOutcome::Topics)
        }
        Task::AwaitCoordinator { id, transactions } => {
            groups::coordinator(shared, &id).await?;
            if transactions {
                groups::of_transactions(shared, &id).await?;
            }
            Ok(TaskOutcome::Found)
        }
        Task::FindLeftovers { prefix } => {
            leftovers::find(shared, &prefix).await.map(TaskOutcome::Leftovers)
        }
        Task::DeleteTopics { topics } => {
            topics::delete(shared, &topics).await.map(|()| TaskOutcome::Deleted)
        }
        Task::DeleteGroup { group, id } => {
            groups::delete(shared, group, &id).await.map(|()| TaskOutcome::Deleted)
        }
        Task::ReadOffsets { group, id, partitions } => {
            groups::read_offsets(shared, group, &id, &partitions).await.map(|()| TaskOutcome::Read)
        }
        Task::ReadStartOffsets { group, id, partitions } => {
            let read = shares::read_start_offsets(shared, group, &id, &partitions).await;
            read.map(|()| TaskOutcome::Read)
        }
        Task::ConfigureGroup { id, configs } => {
            groups::configure(shared, &id, &configs).await.map(|()| TaskOutcome::Configured)
        }
    }
}

/// Opens a channel to the first bootstrap server or broker that answers.
async fn any_server(shared: &Shared) -> Result<Channel, String> {
    let servers = shared.core.borrow().servers();
    let mut reason = "no bootstrap server is given".to_owned();
    for (host, port) in servers {
        match shared.dialer.channel(&host, port).await {
            Ok(channel) => return Ok(channel),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

/// Opens a channel to the controller, or to any server if the controller is unknown.
async fn controller(shared: &Shared) -> Result<Channel, String> {
    let mut anyone = any_server(shared).await?;
    let known = |answer: MetadataResponse<'_>| {
        brokers(&answer).into_iter().find(|(id, ..)| *id == answer.controller_id)
    };
    match metadata(shared, &mut anyone, &[], known).await? {
        Some((_, host, port)) => shared.dialer.channel(&host, port).await,
        None => Ok(anyone),
    }
}

/// The metadata of these topics. From version 4 on, the request does not create them.
async fn metadata<T>(
    shared: &Shared,
    channel: &mut Channel,
    names: &[&Arc<str>],
    read: impl FnOnce(MetadataResponse<'_>) -> T,
) -> Result<T, String> {
    let version = version(shared, ApiKey::Metadata)?;
    let topic = |name: &&Arc<str>| MetadataRequestTopic {
        name: Some(name.to_string().into()),
        ..MetadataRequestTopic::default()
    };
    let request = MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        // Before version 4 the brokers' configuration decides whether the request creates topics.
        allow_auto_topic_creation: version < 4,
        ..MetadataRequest::default()
    };
    call(channel, version, &request, read).await
}

/// # Errors
/// The cluster does not have the API. The error is a sentence for the user.
fn version(shared: &Shared, api: ApiKey) -> Result<i16, String> {
    required(&shared.core.borrow().versions, api)
}

/// Sends a request and returns the result of `read` on its answer.
/// # Errors
/// The error is a sentence for the user.
async fn call<R: Call, T>(
    channel: &mut Channel,
    version: i16,
    request: &R,
    read: impl FnOnce(R::Response<'_>) -> T,
) -> Result<T, String> {
    let answer = channel.call(version, request, read).await;
    answer.map_err(|error| format!("{} failed: {error}", R::API.name()))
}

/// A sentence about an error code, with the remedy if it is known.
fn refused(what: &str, code: i16, message: Option<&str>) -> String {
    let error = ErrorCode::from_code(code);
    let name = error.map_or_else(|| format!("error code {code}"), |error| format!("{error:?}"));
    let advice = match error {
        Some(ErrorCode::TopicAuthorizationFailed) => {
            ": the user lacks a permission on the topic (Create, Alter, Describe or Delete)"
        }
        Some(ErrorCode::ClusterAuthorizationFailed) => {
            ": the user lacks Create or Alter on the cluster"
        }
        Some(ErrorCode::GroupAuthorizationFailed) => {
            ": the user lacks Read, Describe or Delete on the group"
        }
        _ => "",
    };
    let message = message.map_or_else(String::new, |message| format!(" ({message})"));
    format!("{what}: {name}{message}{advice}")
}

fn is(code: i16, errors: &[ErrorCode]) -> bool {
    ErrorCode::from_code(code).is_some_and(|error| errors.contains(&error))
}

fn observe(shared: &Shared, group: GroupIndex, kind: EventKind) {
    let core = &mut *shared.core.borrow_mut();
    core.events.push(Event { at: core.clock.now(), group, member: OBSERVER, kind });
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
