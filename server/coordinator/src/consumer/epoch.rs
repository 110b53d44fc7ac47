//! The effect of a changed subscription on the group epoch and on the assignors.

use super::ConsumerGroup;
use super::member::Profile;
use super::regex::{Change, Regexes};
use crate::assignors::SubscriptionType;
use crate::modern::epoch::{ProfileChange, ProfileEffect};
use crate::modern::subscriptions::Subscriptions;
use crate::modern::{Draft, Refusal};
use crate::turn::Turn;

impl ConsumerGroup {
    /// Decides how a member's changed subscription affects the group. A new regular expression
    /// bumps the group epoch when the topics that match it are known. If a classic member sent the
    /// expression, the epoch is bumped at once.
    pub(super) fn effect(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        change: ProfileChange<'_, Profile>,
    ) -> Result<ProfileEffect<()>, Refusal> {
        let ProfileChange { before, after, .. } = change;
        let regex = self.update_regex(turn, draft, before, after)?;
        let waits = regex == Change::Unresolved && after.classic.is_none();
        let has_new_names = after.topics != before.topics;
        let bumps = has_new_names
            || regex != Change::None && !waits
            || self.prefers_another_assignor(turn.config, change);
        let is_outdated = if waits && !bumps {
            self.exchange(turn, before, after)
        } else {
            self.is_outdated(turn.topics)
        };
        let is_changed = has_new_names || regex != Change::None;
        Ok(ProfileEffect { is_changed, bumps, is_outdated, fields: () })
    }

    /// Whether all members have the same subscription after the change.
    pub(super) fn subscription_type_after(
        &self,
        ProfileChange { before, after, is_new }: ProfileChange<'_, Profile>,
        subscriptions: &Subscriptions,
    ) -> SubscriptionType {
        let is_added = is_new && !self.own.static_members.has(after.instance_id.as_deref());
        let members = self.members.len() + usize::from(is_added);
        let (old, new) = (before.regex(), after.regex());
        if old == new {
            return subscription_type(&self.own.regexes, subscriptions, members);
        }
        let gone = usize::from(old.is_some_and(|old| self.own.regexes.members(old) == 1));
        let come = usize::from(new.is_some_and(|new| self.own.regexes.members(new) == 0));
        let expressions = self.own.regexes.subscribed_len() + come - gone;
        // If all members have the same expression, it must be the new expression of this member.
        let of_new = new.map_or(0, |new| self.own.regexes.members(new) + 1);
        let shared = (expressions > 0).then_some(of_new);
        classify(shared, subscriptions, members)
    }

    /// Called when a member replaces its regular expression by one that is not resolved yet: the
    /// matching topics are not known. Like Kafka, the group notices the new expression only when it
    /// is resolved. Until then, the hash of the subscriptions without the topics of the old
    /// expression counts as current. Does nothing and returns true if the topics of the previous
    /// subscriptions have changed.
    pub(super) fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        before: &Profile,
        after: &Profile,
    ) -> bool {
        let mut hash = |names: &Subscriptions| turn.hashes.of_group(turn.topics, names.names());
        let is_changed = self.checked_version.is_none()
            || hash(&self.subscriptions) != self.own.present_hash.unwrap_or(self.metadata_hash);
        if !is_changed {
            self.checked_version = Some(turn.topics.version());
            self.own.present_hash = Some(hash(&self.subscriptions_after(before, Some(after))));
        }
        is_changed
    }

    /// The group's subscriptions after a member changes from `before` to `after`, or leaves. The
    /// topics of an expression are removed with its last member. The topics of a new expression are
    /// added when it is resolved.
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
            && self.own.regexes.members(regex) == 1
            && let Some(resolved) = self.own.regexes.resolved(regex)
        {
            subscriptions.remove_matched(&resolved.topics);
        }
        subscriptions
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

/// Decides whether all members have the same subscription. `with_regex` is the number of members
/// with the first regular expression; None if there are no expressions.
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
    if is_homogeneous { SubscriptionType::Homogeneous } else { SubscriptionType::Heterogeneous }
}
