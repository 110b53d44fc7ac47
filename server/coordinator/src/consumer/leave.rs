//! Consumer groups whose members leave.

use super::member::Member;
use super::{ConsumerGroup, records};
use crate::modern::Draft;
use crate::modern::subscriptions::Subscriptions;
use crate::text::Text;
use alloc::collections::BTreeMap;

impl ConsumerGroup {
    /// The subscriptions without these members. Removes the regular expressions that no other
    /// member uses.
    pub(super) fn subscriptions_without(
        &self,
        draft: &mut Draft<'_>,
        members: &[&Member],
    ) -> Subscriptions {
        let mut subscriptions = self.subscriptions.clone();
        let mut with_regex: BTreeMap<&Text, usize> = BTreeMap::new();
        for member in members {
            subscriptions.remove_named(&member.profile.topics);
            if let Some(regex) = member.profile.regex() {
                *with_regex.entry(regex).or_default() += 1;
            }
        }
        let regexes = &self.own.regexes;
        for (regex, _) in with_regex.iter().filter(|(it, n)| regexes.members(it) == **n) {
            draft.push(records::regex_tombstone(&self.id, regex));
            if let Some(resolved) = regexes.resolved(regex) {
                subscriptions.remove_matched(&resolved.topics);
            }
        }
        subscriptions
    }
}
