//! The group epoch: it goes up when what the group subscribes to changes, or its topics do.

use super::member::Profile;
use super::regex::Regexes;
use super::{ConsumerGroup, Draft, records};
use crate::assignors::SubscriptionType;
use crate::modern::subscriptions::Subscriptions;
use crate::turn::Turn;

/// What the group subscribes to once a member has changed.
pub(super) struct Outlook {
    pub(super) epoch: i32,
    pub(super) subscription_type: SubscriptionType,
}

impl ConsumerGroup {
    /// A new epoch if `bump` says so, or if the hash of the topics is another; `before` becomes
    /// `after`, which makes the group `members` large.
    pub(super) fn update_epoch(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        bump: bool,
        (before, after): (&Profile, &Profile),
        members: usize,
    ) -> Outlook {
        let subscriptions = self.subscriptions_after(before, Some(after));
        let hash = turn.hashes.of_group(turn.topics, subscriptions.names());
        let mut epoch = self.epoch;
        if bump || hash != self.hash_meanwhile.unwrap_or(self.metadata_hash) {
            epoch = epoch.saturating_add(1);
            draft.push(records::group_epoch(&self.id, epoch, hash));
        }
        self.checked_version = Some(turn.topics.version());
        if self.has_partition_metadata {
            draft.push(records::partition_metadata_tombstone(&self.id));
        }
        let subscription_type =
            self.subscription_type_after(before, after, &subscriptions, members);
        Outlook { epoch, subscription_type }
    }

    /// A member exchanged its expression for one that is yet to be resolved. Whether topics changed
    /// that the group subscribed to: of the exchange itself Kafka takes note only at the resolution.
    pub(super) fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        (before, after): (&Profile, &Profile),
    ) -> bool {
        let mut hash = |names: &Subscriptions| turn.hashes.of_group(turn.topics, names.names());
        let is_changed = self.checked_version.is_none()
            || hash(&self.subscriptions) != self.hash_meanwhile.unwrap_or(self.metadata_hash);
        if !is_changed {
            self.checked_version = Some(turn.topics.version());
            self.hash_meanwhile = Some(hash(&self.subscriptions_after(before, Some(after))));
        }
        is_changed
    }

    /// What the group subscribes to when a member does no longer what it did `before`. The topics
    /// of an expression go with its last member; those of a new one come once it is resolved.
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

/// Whether all of so many members subscribe to the same.
pub(super) fn subscription_type(
    regexes: &Regexes,
    subscriptions: &Subscriptions,
    members: usize,
) -> SubscriptionType {
    classify(regexes.subscribed().next().map(|(_, n)| n), subscriptions, members)
}

/// `with_regex` is how many members have one expression, if there is any.
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
