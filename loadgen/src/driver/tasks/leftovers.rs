//! Finds topics and groups by the prefix of their names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_codec::ApiKey;
use muster_codec::messages::{ListGroupsRequest, MetadataRequest};

use super::{any_server, call, refused, version};
use crate::driver::channel::Channel;
use crate::driver::cluster::brokers;
use crate::driver::command::Leftovers;
use crate::driver::core::Shared;

/// The states of groups without members. "" stands for an unknown state, because ListGroups reports
/// states only from version 4 on. A group in an unknown state may have members: then the cluster
/// refuses its deletion.
const EMPTY: [&str; 3] = ["Empty", "Dead", ""];

/// # Errors
/// The error is a sentence for the user.
pub(super) async fn find(shared: &Shared, prefix: &Arc<str>) -> Result<Leftovers, String> {
    let mut anyone = any_server(shared).await?;
    let of_topics = version(shared, ApiKey::Metadata)?.max(1);
    let request = MetadataRequest {
        topics: None,
        allow_auto_topic_creation: of_topics < 4,
        ..MetadataRequest::default()
    };
    let found = call(&mut anyone, of_topics, &request, |answer| {
        let names = answer.topics.iter().filter(|topic| !topic.is_internal);
        let names = names.filter_map(|topic| topic.name.as_deref());
        let topics = names.filter(|name| name.starts_with(&**prefix));
        let topics: BTreeSet<Arc<str>> = topics.map(Arc::from).collect();
        (topics, brokers(&answer))
    });
    let (topics, brokers) = found.await?;
    let mut groups = BTreeMap::new();
    for (_, host, port) in brokers {
        let mut broker = shared.dialer.channel(&host, port).await?;
        list_groups(shared, &mut broker, prefix, &mut groups).await?;
    }
    Ok(Leftovers { topics: topics.into_iter().collect(), groups: groups.into_iter().collect() })
}

/// Adds the groups of this broker whose names have the prefix. A broker lists only the groups that
/// it coordinates.
async fn list_groups(
    shared: &Shared,
    broker: &mut Channel,
    prefix: &Arc<str>,
    groups: &mut BTreeMap<Arc<str>, bool>,
) -> Result<(), String> {
    let version = version(shared, ApiKey::ListGroups)?;
    let request = ListGroupsRequest::default();
    let code = call(broker, version, &request, |answer| {
        let ours = answer.groups.into_iter().filter(|it| it.group_id.starts_with(&**prefix));
        groups.extend(ours.map(|group| {
            let is_empty = EMPTY.contains(&&*group.group_state);
            (Arc::from(group.group_id.into_owned()), is_empty)
        }));
        answer.error_code
    });
    match code.await? {
        0 => Ok(()),
        code => Err(refused("groups cannot be listed", code, None)),
    }
}
