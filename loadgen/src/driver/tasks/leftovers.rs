//! Finds topics and groups by the prefix of their names.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::{ListGroupsRequest, MetadataRequest};
use kafka_protocol::protocol::StrBytes;

use super::{any_server, failed, refused, version};
use crate::driver::channel::Channel;
use crate::driver::cluster::brokers;
use crate::driver::command::Leftovers;
use crate::driver::core::Shared;

/// The states of groups without members. Before version 4 of ListGroups they are not reported, and
/// the deletion of a group with members is refused.
const EMPTY: [&str; 3] = ["Empty", "Dead", ""];

/// # Errors
/// One sentence.
pub(super) async fn find(shared: &Shared, prefix: &StrBytes) -> Result<Leftovers, String> {
    let mut anyone = any_server(shared).await?;
    let of_topics = version::<MetadataRequest>(shared, "Metadata")?.max(1);
    let request =
        MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(of_topics < 4);
    let answer = anyone.call(of_topics, &request).await;
    let answer = answer.map_err(|error| failed("Metadata", &error))?;
    let names = answer.topics.iter().filter(|topic| !topic.is_internal);
    let names = names.filter_map(|topic| topic.name.as_ref().map(|name| name.0.clone()));
    let topics = names.filter(|name| name.starts_with(prefix.as_str()));
    let topics: BTreeSet<StrBytes> = topics.collect();
    let mut groups = BTreeMap::new();
    for (_, host, port) in brokers(&answer) {
        let mut broker = shared.dialer.channel(&host, port).await?;
        list_groups(shared, &mut broker, prefix, &mut groups).await?;
    }
    Ok(Leftovers { topics: topics.into_iter().collect(), groups: groups.into_iter().collect() })
}

/// Each broker knows the groups that it coordinates.
async fn list_groups(
    shared: &Shared,
    broker: &mut Channel,
    prefix: &StrBytes,
    groups: &mut BTreeMap<StrBytes, bool>,
) -> Result<(), String> {
    let version = version::<ListGroupsRequest>(shared, "ListGroups")?;
    let answer = broker.call(version, &ListGroupsRequest::default()).await;
    let answer = answer.map_err(|error| failed("ListGroups", &error))?;
    if answer.error_code != 0 {
        return Err(refused("groups cannot be listed", answer.error_code, None));
    }
    for group in answer.groups {
        let is_empty = EMPTY.contains(&group.group_state.as_str());
        if group.group_id.0.starts_with(prefix.as_str()) {
            groups.insert(group.group_id.0, is_empty);
        }
    }
    Ok(())
}
