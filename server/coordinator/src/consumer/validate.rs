//! Checks of a ConsumerGroupHeartbeat and of its sender.

use super::member::{Member, Profile};
use super::{ConsumerGroup, Refusal, refuse};
use crate::config::Config;
use crate::limits::{GROUP_MEMBERS_MAX, GROUP_PROTOCOLS_BYTES_MAX, MEMBER_PROFILE_BYTES_MAX};
use crate::modern::owned::Owned;
use crate::text::Text;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatTopicPartitions as Reported,
};

/// The first version in which members generate their own ids (KIP-1082).
const MEMBER_ID_FROM: i16 = 1;

/// The epoch of a member that joins.
pub(crate) const JOIN: i32 = 0;
/// The epoch of a member that leaves.
pub(crate) const LEAVE: i32 = -1;
/// The epoch of a static member that leaves and will return.
pub(crate) const LEAVE_STATIC: i32 = -2;

/// Checks a request without its group.
///
/// # Errors
/// INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
pub(crate) fn validate(
    config: &Config,
    api_version: i16,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) -> Result<(), Refusal> {
    let invalid = |message| refuse(ErrorCode::InvalidRequest, message);
    let is_blank = |text: Option<&str>| text.is_some_and(|text| text.trim().is_empty());
    let epoch = request.member_epoch;
    let needs_id = api_version >= MEMBER_ID_FROM || epoch > JOIN || epoch == LEAVE;
    if needs_id && is_blank(Some(&request.member_id)) {
        return invalid("The member id is empty.");
    }
    if is_blank(Some(&request.group_id)) {
        return invalid("The group id is empty.");
    }
    if is_blank(request.instance_id.as_deref()) || is_blank(request.rack_id.as_deref()) {
        return invalid("An instance id or rack id must not be empty.");
    }
    let is_subscriber =
        request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    if epoch == JOIN && request.rebalance_timeout_ms == -1 {
        return invalid("A joining member must send its rebalance timeout.");
    }
    if epoch == JOIN && request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
        return invalid("A joining member must not own partitions.");
    }
    if epoch == JOIN && !is_subscriber {
        return invalid("A joining member must send its subscription.");
    }
    if epoch == LEAVE_STATIC && request.instance_id.is_none() {
        return invalid("Only a static member may leave with this epoch.");
    }
    if epoch < LEAVE_STATIC {
        return invalid("The member epoch is invalid.");
    }
    let assignor = request.server_assignor.as_deref();
    let is_known = |name| config.group_consumer_assignors.iter().any(|it| it.name() == name);
    match assignor.is_none_or(is_known) {
        true => Ok(()),
        false => refuse(ErrorCode::UnsupportedAssignor, "The server does not have this assignor."),
    }
}

impl ConsumerGroup {
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED.
    pub(crate) fn refuse_if_full(&self, config: &Config, member_id: &str) -> Result<(), Refusal> {
        let max = usize::try_from(config.group_consumer_max_size).unwrap_or(0);
        let is_member = !member_id.is_empty() && self.members.get(member_id).is_some();
        match self.members.len() >= max.min(GROUP_MEMBERS_MAX) && !is_member {
            true => refuse(ErrorCode::GroupMaxSizeReached, "The group has its maximum of members."),
            false => Ok(()),
        }
    }

    /// # Errors
    /// UNKNOWN_SERVER_ERROR if the member's profile is too large, COORDINATOR_NOT_AVAILABLE if the
    /// budget for the members of all groups does not suffice.
    pub(super) fn refuse_if_large(
        &self,
        members_room: usize,
        before: &Profile,
        profile: &Profile,
    ) -> Result<(), Refusal> {
        let added = profile.own_bytes() + self.names.bytes_added_by(&profile.topics);
        let is_large = profile.bytes() > MEMBER_PROFILE_BYTES_MAX
            || self.profile_bytes + self.names.bytes() + added > GROUP_PROTOCOLS_BYTES_MAX;
        if is_large {
            refuse(ErrorCode::UnknownServerError, "The member's metadata is too large.")
        } else if added.saturating_sub(before.own_bytes()) > members_room {
            refuse(ErrorCode::CoordinatorNotAvailable, "The budget for members is used up.")
        } else {
            Ok(())
        }
    }

    /// The member of a request that is not a join.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn known(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<&Member, Refusal> {
        let Some(instance_id) = instance_id else {
            let member = self.members.get(member_id);
            return member.map_or_else(unknown_member, Ok);
        };
        match self.static_member(instance_id) {
            None => refuse(ErrorCode::UnknownMemberId, "No member has this instance id."),
            Some((holder, _)) if **holder != *member_id => {
                refuse(ErrorCode::FencedInstanceId, "Another member has this instance id.")
            }
            Some((_, member)) => Ok(member),
        }
    }

    /// The member that a joining static member replaces.
    ///
    /// # Errors
    /// UNRELEASED_INSTANCE_ID if that member has not left.
    pub(super) fn released(&self, instance_id: &str) -> Result<Option<(&Text, &Member)>, Refusal> {
        match self.static_member(instance_id) {
            Some((_, member)) if !member.is_classic() && member.current.epoch != LEAVE_STATIC => {
                refuse(ErrorCode::UnreleasedInstanceId, "A member still uses this instance id.")
            }
            former => Ok(former),
        }
    }
}

pub(super) fn unknown_member<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::UnknownMemberId, "The group has no such member.")
}

/// Whether a member sends its current epoch, or its previous one, as the answer with the current
/// epoch may have been lost.
///
/// # Errors
/// FENCED_MEMBER_EPOCH.
pub(super) fn validate_epoch(
    member: &Member,
    epoch: i32,
    reported: Option<&[Reported]>,
) -> Result<(), Refusal> {
    let current = &member.current;
    let missed_the_last = epoch < current.epoch
        && epoch == current.previous_epoch
        && reported.is_some_and(|reported| is_within(reported, &current.assigned));
    match epoch == JOIN || epoch == current.epoch || missed_the_last {
        true => Ok(()),
        false => refuse(
            ErrorCode::FencedMemberEpoch,
            "The member epoch is not current. The member must give up its partitions and rejoin.",
        ),
    }
}

fn is_within(reported: &[Reported], assigned: &Owned) -> bool {
    reported.iter().all(|topic| {
        !assigned.of_topic(topic.topic_id).is_empty()
            && topic.partitions.iter().all(|it| assigned.contains(topic.topic_id, *it))
    })
}
