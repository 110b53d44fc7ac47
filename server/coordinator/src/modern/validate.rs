//! Checks of a heartbeat's sender.

use super::kind::{Kind, Report};
use super::member::Current;
use super::{Group, Refusal, refuse};
use crate::config::Config;
use crate::limits::GROUP_MEMBERS_MAX;
use muster_codec::ErrorCode;

/// The epoch of a member that joins.
pub(crate) const JOIN: i32 = 0;
/// The epoch of a member that leaves.
pub(crate) const LEAVE: i32 = -1;

impl<K: Kind> Group<K> {
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED.
    pub(crate) fn refuse_if_full(&self, config: &Config, member_id: &str) -> Result<(), Refusal> {
        let max = usize::try_from(K::members_max(config)).unwrap_or(0);
        let is_member = !member_id.is_empty() && self.members.get(member_id).is_some();
        if self.members.len() >= max.min(GROUP_MEMBERS_MAX) && !is_member {
            return refuse(ErrorCode::GroupMaxSizeReached, "The group has its maximum of members.");
        }
        Ok(())
    }
}

pub(crate) fn unknown_member<T>() -> Result<T, Refusal> {
    refuse(ErrorCode::UnknownMemberId, "The group has no such member.")
}

/// Whether a member sends its current epoch, or its previous one, as the answer with the current
/// epoch may have been lost.
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
