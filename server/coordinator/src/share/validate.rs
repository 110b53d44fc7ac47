//! Checks of a ShareGroupHeartbeat that need neither the group nor the member.

use super::ShareGroup;
use super::member::Profile;
use crate::allowance::Allowance;
use crate::modern::validate::{JOIN, LEAVE, profile_refusal};
use crate::modern::{Refusal, refuse};
use muster_codec::ErrorCode;
use muster_codec::messages::ShareGroupHeartbeatRequest;

/// The longest member id, in UTF-16 units: the length of a UUID as text (`KafkaApis` in Kafka).
const MEMBER_ID_LENGTH_MAX: usize = 36;

/// Checks a request without looking at its group (`KafkaApis`, `GroupCoordinatorService`).
///
/// # Errors
/// INVALID_REQUEST.
pub(crate) fn validate(request: &ShareGroupHeartbeatRequest<'_>) -> Result<(), Refusal> {
    let invalid = |message| refuse(ErrorCode::InvalidRequest, message);
    let is_blank = |text: &str| text.trim().is_empty();
    let member_id = &request.member_id;
    if member_id.is_empty() || member_id.encode_utf16().count() > MEMBER_ID_LENGTH_MAX {
        return invalid("The member id must have 1 to 36 characters.");
    }
    if is_blank(member_id) {
        return invalid("The member id is empty.");
    }
    if is_blank(&request.group_id) {
        return invalid("The group id is empty.");
    }
    if request.rack_id.as_deref().is_some_and(is_blank) {
        return invalid("A rack id must not be empty.");
    }
    let has_topics = request.subscribed_topic_names.as_ref().is_some_and(|it| !it.is_empty());
    if request.member_epoch == JOIN && !has_topics {
        return invalid("A joining member must send its subscription.");
    }
    if request.member_epoch < LEAVE {
        return invalid("The member epoch is invalid.");
    }
    Ok(())
}

impl ShareGroup {
    /// # Errors
    /// UNKNOWN_SERVER_ERROR if the member's profile, or the group with it, is too large.
    /// COORDINATOR_NOT_AVAILABLE if the profile exceeds the budget for the members of all groups.
    pub(super) fn refuse_if_large(
        &self,
        members: &mut Allowance,
        before: &Profile,
        after: &Profile,
    ) -> Result<(), Refusal> {
        let added = after.own_bytes() + self.own.names.bytes_added_by(&after.topics);
        let of_group = self.member_bytes() + added;
        let added = added.saturating_sub(before.own_bytes());
        profile_refusal(after.bytes(), of_group, added, members, &after.client_host)
    }
}
