//! Removes members that leave or whose session has expired.

use super::kind::Kind;
use super::members::Slot;
use super::{Draft, Group};
use crate::turn::Turn;
use alloc::vec::Vec;

/// The timestamp of an empty group's target. It makes the next target due at once.
const AT_ONCE: i64 = 0;

impl<K: Kind> Group<K> {
    /// Removes members, with their timers and the records that only they used. A group that becomes
    /// empty gets an empty target assignment.
    pub(crate) fn fence(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        numbers: &[u32],
    ) {
        let slots = numbers.iter().filter_map(|number| self.members.slot(*number));
        let leaving = |slot: &'_ Slot<K>| slot.member.is_some();
        let slots: Vec<_> = slots.filter(|slot| leaving(slot)).collect();
        for slot in &slots {
            draft.extend(Self::member_tombstones(&self.id, &slot.id));
        }
        let members: Vec<_> = slots.iter().filter_map(|slot| slot.member.as_ref()).collect();
        let subscriptions = K::subscriptions_without(self, draft, &members);
        let hash = subscriptions.map_or(self.metadata_hash, |subscriptions| {
            turn.hashes.of_group(turn.topics, subscriptions.names())
        });
        let epoch = self.epoch.saturating_add(1);
        turn.rebalances(epoch);
        draft.push(K::epoch_record(&self.id, epoch, hash, &K::epoch_fields(self)));
        if members.len() == self.members.len() {
            draft.push(K::target_epoch_record(&self.id, epoch, AT_ONCE));
        }
        for number in numbers {
            if let Some(slot) = self.members.slot_mut(*number) {
                slot.timers.cancel(turn.timers);
            }
        }
    }
}
