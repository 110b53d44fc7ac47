//! Converts a classic group to a consumer group.

use super::protocol_metadata;
use crate::classic::{self, ClassicGroup, MigratedMember};
use crate::config::Config;
use crate::consumer::ConsumerGroup;
use crate::consumer::classic_member::MigratingMember;
use crate::consumer::member::Profile;
use crate::modern::{Draft, Refusal, refuse};
use crate::text::Text;
use crate::turn::Turn;
use alloc::vec::Vec;
use hashbrown::HashSet;
use muster_codec::ErrorCode;
use muster_codec::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};

/// Converts a classic group that has members, or had members before its current rebalance. Members
/// with parked requests must join again.
///
/// # Errors
/// GROUP_ID_NOT_FOUND if the policy, or the kind or size of the group, forbids it, or if the
/// metadata of a member is not a consumer's. UNKNOWN_SERVER_ERROR in the group's first rebalance,
/// and if two members own the same partition.
pub(crate) fn upgrade(
    turn: &mut Turn<'_, '_>,
    draft: &mut Draft<'_>,
    id: &Text,
    group: &mut ClassicGroup,
) -> Result<ConsumerGroup, Refusal> {
    validate(turn.config, group)?;
    group.dismiss_all(turn, ErrorCode::RebalanceInProgress);
    draft.push(classic::tombstone(id));
    let protocol = group.protocol().cloned();
    let mut members = Vec::new();
    for member in group.migrated_members() {
        let Some(protocol) = &protocol else { return unsettled() };
        members.push(migrating_member(turn, member, protocol)?);
    }
    let mut owned = HashSet::new();
    let mut all = members.iter().flat_map(|member| {
        let topics = member.assigned.iter();
        topics.flat_map(|topic| topic.partitions.iter().map(|it| (topic.key, *it)))
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
        refuse("The migration policy does not let this classic group become a consumer group.")
    } else if !group.is_of_consumers() {
        refuse("The group is a classic group, and not one of consumers.")
    } else if group.len() > max {
        refuse("The classic group has more members than a consumer group may have.")
    } else {
        Ok(())
    }
}

fn migrating_member(
    turn: &Turn<'_, '_>,
    member: MigratedMember,
    protocol: &str,
) -> Result<MigratingMember, Refusal> {
    let assigned = if member.assignment.is_empty() {
        Vec::new()
    } else {
        match ConsumerProtocolAssignment::read(&member.assignment) {
            Ok(it) if it.user_data.as_ref().is_none_or(|data| data.is_empty()) => {
                protocol_metadata::partitions(turn.topics, &it.assigned_partitions)
            }
            Ok(_) => return malformed("Data of the group's custom assignor would be lost."),
            Err(_) => return malformed("An assignment of the classic group cannot be read."),
        }
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
    let profile =
        protocol_metadata::subscribed(profile, &subscription, session_ms, &member.protocols);
    Ok(MigratingMember { id: identity.member_id, profile, assigned })
}

fn malformed<T>(message: &'static str) -> Result<T, Refusal> {
    refuse(ErrorCode::GroupIdNotFound, message)
}

fn unsettled<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::UnknownServerError, "The classic group has not chosen its protocol yet.")
}
