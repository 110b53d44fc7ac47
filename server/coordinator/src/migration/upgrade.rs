//! From a classic group to a consumer group.

use super::embedded;
use crate::classic::{ClassicGroup, MovedMember};
use crate::config::Config;
use crate::consumer::classic_member::Immigrant;
use crate::consumer::member::Profile;
use crate::consumer::{ConsumerGroup, Draft, Refusal, refuse};
use crate::requests::group_tombstone;
use crate::text::Text;
use crate::turn::Turn;
use alloc::vec::Vec;
use hashbrown::HashSet;
use muster_codec::ErrorCode;
use muster_codec::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};

/// Makes a consumer group of a classic one that has members, or had until its rebalance under way.
/// Whoever waits there has to start anew.
///
/// # Errors
/// GROUP_ID_NOT_FOUND if the group may not become one, or if what its members wrote is not what
/// consumers write; UNKNOWN_SERVER_ERROR if it is in the middle of its first rebalance.
pub(crate) fn upgrade(
    turn: &mut Turn<'_, '_>,
    draft: &mut Draft<'_>,
    id: &Text,
    group: &mut ClassicGroup,
) -> Result<ConsumerGroup, Refusal> {
    validate(turn.config, group)?;
    group.dismiss_all(turn);
    draft.push(group_tombstone(id));
    let protocol = group.protocol().cloned();
    let mut members = Vec::new();
    for member in group.moved_members() {
        let Some(protocol) = &protocol else { return unsettled() };
        members.push(immigrant(turn, member, protocol)?);
    }
    let mut owned = HashSet::new();
    let mut all = members.iter().flat_map(|member| {
        let topics = member.assigned.iter();
        topics.flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, *it)))
    });
    if !all.all(|partition| owned.insert(partition)) {
        return refuse(ErrorCode::UnknownServerError, "Two classic members own one partition.");
    }
    Ok(ConsumerGroup::of_classic(turn, draft, id.clone(), group.generation(), members))
}

fn validate(config: &Config, group: &ClassicGroup) -> Result<(), Refusal> {
    let max = usize::try_from(config.group_consumer_max_size).unwrap_or(0);
    let refuse = |message| refuse(ErrorCode::GroupIdNotFound, message);
    if !config.group_consumer_migration_policy.allows_upgrade() {
        refuse("It is a classic group, which may not become a consumer group.")
    } else if !group.is_of_consumers() {
        refuse("It is a classic group, and not one of consumers.")
    } else if group.len() > max {
        refuse("It is a classic group with more members than a consumer group may have.")
    } else {
        Ok(())
    }
}

fn immigrant(
    turn: &Turn<'_, '_>,
    member: MovedMember,
    protocol: &str,
) -> Result<Immigrant, Refusal> {
    let assigned = match member.assignment.is_empty() {
        true => Vec::new(),
        false => match ConsumerProtocolAssignment::read(&member.assignment) {
            Ok(it) if it.user_data.as_ref().is_none_or(|data| data.is_empty()) => {
                embedded::partitions(turn.topics, &it.assigned_partitions)
            }
            Ok(_) => return malformed("A custom assignor of the group wrote what would be lost."),
            Err(_) => return malformed("An assignment of the classic group cannot be read."),
        },
    };
    let metadata = member.protocols.iter().find(|it| *it.name == *protocol);
    let Some(metadata) = metadata.map(|it| &it.metadata) else { return unsettled() };
    let Ok(subscription) = ConsumerProtocolSubscription::read(metadata) else {
        return malformed("A subscription of the classic group cannot be read.");
    };
    let identity = member.identity;
    let profile = Profile {
        instance_id: identity.instance_id,
        client_id: identity.client_id,
        client_host: identity.client_host,
        rebalance_timeout_ms: identity.rebalance_timeout_ms,
        ..Profile::default()
    };
    let session_ms = identity.session_timeout_ms;
    let profile = embedded::subscribed(profile, &subscription, session_ms, &member.protocols);
    Ok(Immigrant { id: identity.member_id, profile, assigned })
}

fn malformed<T>(message: &'static str) -> Result<T, Refusal> {
    refuse(ErrorCode::GroupIdNotFound, message)
}

fn unsettled<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::UnknownServerError, "The classic group has not chosen its protocol yet.")
}
