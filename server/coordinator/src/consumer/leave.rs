//! Members that leave.

use super::member::{Current, Member};
use super::validate::LEAVE_STATIC;
use super::{Consumer, ConsumerGroup, records};
use crate::modern::kind::Kind as _;
use crate::modern::owned::Owned;
use crate::modern::subscriptions::Subscriptions;
use crate::modern::validate::unknown_member;
use crate::modern::{Draft, Refusal};
use crate::text::Text;
use alloc::collections::BTreeMap;
use muster_codec::messages::ConsumerGroupHeartbeatRequest;

impl ConsumerGroup {
    /// The member that a request to leave removes. None for a static member that will return: its
    /// record is added to `draft`.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    pub(crate) fn leaving(
        &self,
        draft: &mut Draft<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<Option<u32>, Refusal> {
        let member = self.known(&request.member_id, request.instance_id.as_deref())?;
        if request.member_epoch == LEAVE_STATIC {
            let left = left_for_a_while(&member.current);
            draft.push(Consumer::current_record(&self.id, &request.member_id, &left));
            return Ok(None);
        }
        self.members.slot_number(&request.member_id).map_or_else(unknown_member, |it| Ok(Some(it)))
    }

    /// The subscriptions without these members; the expressions that only they used are removed.
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

/// A static member that will return keeps its partitions. Their epochs, by which commits of its
/// former client would be judged, are reset, as in Kafka.
fn left_for_a_while(current: &Current) -> Current {
    Current {
        epoch: LEAVE_STATIC,
        assigned: current.assigned.with_epochs_reset(),
        revoking: Owned::default(),
        ..current.clone()
    }
}
