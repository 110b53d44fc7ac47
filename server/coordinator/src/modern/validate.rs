//! Checks of the member that sent a heartbeat.

use super::kind::{Kind, Report};
use super::member::Current;
use super::{Group, Refusal, refuse};
use crate::allowance::Allowance;
use crate::budget::{Limited, Refusal as BudgetRefusal};
use crate::config::Config;
use crate::limits::{GROUP_MEMBERS_MAX, GROUP_PROTOCOLS_BYTES_MAX, MEMBER_PROFILE_BYTES_MAX};
use muster_codec::ErrorCode;
use muster_fairness::Exceeded;

/// The member epoch in the heartbeat of a member that joins.
pub(crate) const JOIN: i32 = 0;
/// The member epoch in the heartbeat of a member that leaves.
pub(crate) const LEAVE: i32 = -1;

impl<K: Kind> Group<K> {
    /// Refuses a new member if the group is full.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED.
    pub(crate) fn refuse_if_full(
        &self,
        config: &Config,
        is_known: impl FnOnce() -> bool,
    ) -> Result<(), Refusal> {
        let max = usize::try_from(K::members_max(config)).unwrap_or(0);
        if self.members.len() >= max.min(GROUP_MEMBERS_MAX) && !is_known() {
            return refuse(ErrorCode::GroupMaxSizeReached, "The group has its maximum of members.");
        }
        Ok(())
    }
}

/// Refuses a profile of `bytes` bytes if it exceeds a limit. `of_group` are the bytes of the group
/// with the profile, `added` are the bytes that the profile adds. The client is at `host`.
///
/// # Errors
/// UNKNOWN_SERVER_ERROR if the profile or the group is too large. COORDINATOR_NOT_AVAILABLE if the
/// budget for the members of all groups is used up.
pub(crate) fn profile_refusal(
    bytes: usize,
    of_group: usize,
    added: usize,
    members: &mut Allowance,
    host: &str,
) -> Result<(), Refusal> {
    if bytes > MEMBER_PROFILE_BYTES_MAX || of_group > GROUP_PROTOCOLS_BYTES_MAX {
        refuse(ErrorCode::UnknownServerError, "The member's metadata is too large.")
    } else if !members.take_for(host, added) {
        let exceeded = members.exceeded.unwrap_or(Exceeded::Limit);
        let words = BudgetRefusal { limit: Limited::MemberBytes, exceeded }.words();
        refuse(ErrorCode::CoordinatorNotAvailable, words)
    } else {
        Ok(())
    }
}

pub(crate) fn unknown_member<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::UnknownMemberId, "The group has no such member.")
}

/// Checks that a member joins, or sends its current epoch. The previous epoch is allowed if the
/// member reports only partitions of its current assignment: the answer with the current epoch may
/// have been lost.
///
/// # Errors
/// FENCED_MEMBER_EPOCH.
pub(crate) fn validate_epoch<K>(
    current: &Current<K>,
    epoch: i32,
    reported: Option<&(impl Report<K> + ?Sized)>,
) -> Result<(), Refusal> {
    let missed_the_last = epoch < current.epoch
        && epoch == current.previous_epoch
        && reported.is_some_and(|reported| reported.is_within(&current.assigned));
    if epoch == JOIN || epoch == current.epoch || missed_the_last {
        return Ok(());
    }
    refuse(
        ErrorCode::FencedMemberEpoch,
        "The member epoch is not current. The member must give up its partitions and rejoin.",
    )
}
