//! The group epoch: it is bumped when the group's subscriptions or their topics change.

use super::member::Profile;
use super::regex::Regexes;
use super::{ConsumerGroup, Draft, records};
use crate::assignors::SubscriptionType;
use crate::modern::subscriptions::Subscriptions;
use crate::turn::Turn;

/// The group's epoch and subscription type after a member's change.
pub(super) struct NextEpoch {
    pub(super) epoch: i32,
    pub(super) subscription_type: SubscriptionType,
}

impl ConsumerGroup {
    /// Bumps the epoch if `bump` is set or the hash of the subscribed topics has changed. The
    /// member changes from `before` to `after`, after which the group has `members` members.
    pub(super) fn update_epoch(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        bump: bool,
        (before, after): (&Profile, &Profile),
        members: usize,
    ) -> NextEpoch {
        let subscriptions = self.subscriptions_after(before, Some(after));
        let hash = turn.hashes.of_group(turn.topics, subscriptions.names());
        let mut epoch = self.epoch;
        if bump || hash != self.present_hash.unwrap_or(self.metadata_hash) {
            epoch = epoch.saturating_add(1);
            draft.push(records::group_epoch(&self.id, epoch, hash));
        }
        self.checked_version = Some(turn.topics.version());
        if self.has_partition_metadata {
            draft.push(records::partition_metadata_tombstone(&self.id));
        }
        let subscription_type =
            self.subscription_type_after(before, after, &subscriptions, members);
        NextEpoch { epoch, subscription_type }
    }

    /// A member replaced its expression by one that is not resolved yet. Returns whether topics
    /// changed that the group was subscribed to; Kafka notices the replacement only at the
    /// resolution.
    pub(super) fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        (before, after): (&Profile, &Profile),
    ) -> bool {
        let mut hash = |names: &Subscriptions| turn.hashes.of_group(turn.topics, names.names());
        let is_changed = self.checked_version.is_none()
            || hash(&self.subscriptions) != self.present_hash.unwrap_or(self.metadata_hash);
        if !is_changed {
            self.checked_version = Some(turn.topics.version());
            self.present_hash = Some(hash(&self.subscriptions_after(before, Some(after))));
        }
        is_changed
    }

    /// The group's subscriptions after a member changes from `before` to `after`, or leaves. The
    /// topics of an expression are removed with its last member; those of a new one are added at
    /// its resolution.
    pub(super) fn subscriptions_after(
        &self,
        before: &Profile,
        after: Option<&Profile>,
    ) -> Subscriptions {
        let mut subscriptions = self.subscriptions.clone();
        subscriptions.remove_named(&before.topics);
        if let Some(after) = after {
            subscriptions.add_named(&after.topics);
        }
        if let Some(regex) = before.regex()
            && after.and_then(Profile::regex) != Some(regex)
            && self.regexes.members(regex) == 1
            && let Some(resolved) = self.regexes.resolved(regex)
        {
            subscriptions.remove_matched(&resolved.topics);
        }
        subscriptions
    }

    fn subscription_type_after(
        &self,
        before: &Profile,
        after: &Profile,
        subscriptions: &Subscriptions,
        members: usize,
    ) -> SubscriptionType {
        let (old, new) = (before.regex(), after.regex());
        if old == new {
            return subscription_type(&self.regexes, subscriptions, members);
        }
        let gone = usize::from(old.is_some_and(|old| self.regexes.members(old) == 1));
        let come = usize::from(new.is_some_and(|new| self.regexes.members(new) == 0));
        let expressions = self.regexes.subscribed_len() + come - gone;
        // All members have the same expression only if this one has it.
        let of_new = new.map_or(0, |new| self.regexes.members(new) + 1);
        let shared = (expressions > 0).then_some(of_new);
        classify(shared, subscriptions, members)
    }
}

/// Whether all `members` members have the same subscription.
pub(super) fn subscription_type(
    regexes: &Regexes,
    subscriptions: &Subscriptions,
    members: usize,
) -> SubscriptionType {
    classify(regexes.subscribed().next().map(|(_, n)| n), subscriptions, members)
}

/// `with_regex` is the number of members with the first expression; None without expressions.
fn classify(
    with_regex: Option<usize>,
    subscriptions: &Subscriptions,
    members: usize,
) -> SubscriptionType {
    let is_homogeneous = match with_regex {
        None => subscriptions.counts().all(|count| count.by_name as usize == members),
        Some(n) if n == members => {
            subscriptions.counts().all(|count| count.by_regex == 1 && count.by_name == 0)
        }
        Some(_) => false,
    };
    match is_homogeneous {
        true => SubscriptionType::Homogeneous,
        false => SubscriptionType::Heterogeneous,
    }
}
