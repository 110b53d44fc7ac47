//! The group epoch. It is bumped when the group's subscriptions or their topics change.

use super::kind::Kind;
use super::{Draft, Group};
use crate::turn::Turn;

/// A member's profile before and after its request.
#[derive(Debug)]
pub(crate) struct ProfileChange<'p, P> {
    pub(crate) before: &'p P,
    pub(crate) after: &'p P,
    /// Whether the member is new.
    pub(crate) is_new: bool,
}

impl<P> Clone for ProfileChange<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for ProfileChange<'_, P> {}

/// How a member's changed profile affects its group. `F` are the fields that the kind records with
/// the group epoch.
#[derive(Debug, Clone)]
pub(crate) struct ProfileEffect<F> {
    /// Whether the member's subscription changed.
    pub(crate) is_changed: bool,
    /// Whether the group epoch is bumped.
    pub(crate) bumps: bool,
    /// Whether the subscribed topics must be compared with the topics at the last group epoch. If
    /// they differ, the epoch is bumped.
    pub(crate) is_outdated: bool,
    /// The fields to record with the group epoch. If they differ from the current ones, the epoch
    /// is bumped.
    pub(crate) fields: F,
}

impl<K: Kind> Group<K> {
    /// Whether a member with a subscription has no target, although the target assignment is as new
    /// as the group epoch. The cause can be a crash in the middle of a request that removes or
    /// replaces the member ([`crate::operation`]).
    pub(super) fn lacks_target(&self, member_id: &str, profile: &K::Profile) -> bool {
        let number = K::target_slot(self, self.members.slot_number(member_id), profile);
        let slot = number.and_then(|number| self.members.slot(number));
        self.target.epoch >= self.epoch
            && slot.is_some_and(|slot| !slot.has_target)
            && K::is_subscriber(self, profile)
    }

    /// The group epoch after a member's change, and the input of the assignors for that epoch.
    pub(super) fn next_epoch(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        effect: &ProfileEffect<K::EpochFields>,
        change: ProfileChange<'_, K::Profile>,
    ) -> (i32, K::Input) {
        let has_new_fields = effect.fields != K::epoch_fields(self);
        if !effect.bumps && !effect.is_outdated && !has_new_fields {
            return (self.epoch, K::input(self));
        }
        let subscriptions = K::subscriptions_after(self, change);
        let hash = turn.hashes.of_group(turn.topics, subscriptions.names());
        let input = K::input_after(self, change, &subscriptions);
        let mut epoch = self.epoch;
        if effect.bumps || has_new_fields || hash != K::known_hash(self) {
            epoch = epoch.saturating_add(1);
            *K::rebalances(turn.events) += 1;
            turn.rebalances(epoch);
            draft.push(K::epoch_record(&self.id, epoch, hash, &effect.fields));
        }
        self.checked_version = Some(turn.topics.version());
        K::remove_old_records(self, draft);
        (epoch, input)
    }
}
