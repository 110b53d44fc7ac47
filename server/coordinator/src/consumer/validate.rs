//! Checks of a ConsumerGroupHeartbeat that need neither the group nor the member.

use super::ConsumerGroup;
use super::member::Profile;
use crate::allowance::Allowance;
use crate::config::Config;
use crate::modern::static_members::LEAVE_STATIC;
use crate::modern::validate::{JOIN, LEAVE, profile_refusal};
use crate::modern::{Refusal, refuse};
use muster_codec::ErrorCode;
use muster_codec::messages::ConsumerGroupHeartbeatRequest;

/// From this version on, members generate their own ids (KIP-1082).
const MEMBER_ID_FROM: i16 = 1;

/// Checks a request without looking at its group.
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
    if assignor.is_none_or(is_known) {
        Ok(())
    } else {
        refuse(ErrorCode::UnsupportedAssignor, "The server does not have this assignor.")
    }
}

impl ConsumerGroup {
    /// # Errors
    /// UNKNOWN_SERVER_ERROR if the member's profile, or the group with it, is too large.
    /// COORDINATOR_NOT_AVAILABLE if the profile exceeds the budget for the members of all groups.
    pub(super) fn refuse_if_large(
        &self,
        members: &mut Allowance,
        before: &Profile,
        profile: &Profile,
    ) -> Result<(), Refusal> {
        let added = profile.own_bytes() + self.own.names.bytes_added_by(&profile.topics);
        let of_group = self.own.profile_bytes + self.own.names.bytes() + added;
        let added = added.saturating_sub(before.own_bytes());
        profile_refusal(profile.bytes(), of_group, added, members, &profile.client_host)
    }
}
