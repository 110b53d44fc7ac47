//! Members that leave, or are fenced.

use super::member::Member;
use super::validate::{LEAVE_STATIC, unknown_member};
use super::{ConsumerGroup, Draft, Refusal, records};
use crate::modern::owned::Owned;
use crate::modern::reconcile::Current;
use crate::text::Text;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

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
            draft.push(records::current(&self.id, &request.member_id, &left));
            return Ok(None);
        }
        self.members.slot_number(&request.member_id).map_or_else(unknown_member, |it| Ok(Some(it)))
    }

    /// Removes members, with their timers and the expressions that only they used.
    pub(crate) fn fence(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        numbers: &[u32],
    ) {
        let leaving = |number: &u32| {
            let slot = self.members.slot(*number)?;
            Some((slot.id.clone(), slot.member.as_ref()?))
        };
        let members: Vec<(Text, &Member)> = numbers.iter().filter_map(leaving).collect();
        for (member_id, _) in &members {
            self.remove(draft, member_id);
        }
        let mut subscriptions = self.subscriptions.clone();
        let mut with_regex: BTreeMap<&Text, usize> = BTreeMap::new();
        for (_, member) in &members {
            subscriptions.remove_named(&member.profile.topics);
            if let Some(regex) = member.profile.regex() {
                *with_regex.entry(regex).or_default() += 1;
            }
        }
        for (regex, _) in with_regex.iter().filter(|(it, n)| self.regexes.members(it) == **n) {
            draft.push(records::regex_tombstone(&self.id, regex));
            if let Some(resolved) = self.regexes.resolved(regex) {
                subscriptions.remove_matched(&resolved.topics);
            }
        }
        let hash = turn.hashes.of_group(turn.topics, subscriptions.names());
        draft.push(records::group_epoch(&self.id, self.epoch.saturating_add(1), hash));
        for number in numbers {
            if let Some(slot) = self.members.slot_mut(*number) {
                slot.timers.cancel(turn.timers);
            }
        }
    }

    /// The tombstones of a member.
    pub(super) fn remove(&self, draft: &mut Draft<'_>, member_id: &str) {
        draft.push(records::current_tombstone(&self.id, member_id));
        draft.push(records::target_tombstone(&self.id, member_id));
        draft.push(records::member_tombstone(&self.id, member_id));
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

/// The answer to a member that left.
pub(crate) fn left<'r>(
    request: &ConsumerGroupHeartbeatRequest<'r>,
) -> ConsumerGroupHeartbeatResponse<'r> {
    ConsumerGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: request.member_epoch,
        ..Default::default()
    }
}
