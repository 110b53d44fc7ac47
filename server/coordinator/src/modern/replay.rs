//! Applies the contents of records to a group. In a compacted log, records come in any order: a
//! member's assignment may precede its metadata.

use super::Group;
use super::kind::{Kind, Part};
use super::member::{Current, CurrentOf, Member, MemberState};
use super::target::Targets;
use crate::timers::Timers;
use alloc::collections::btree_map::Entry;

/// The assignment epoch after the tombstone of its record.
const NO_TARGET: i32 = -1;

impl<K: Kind> Group<K> {
    pub(crate) fn replay_epoch(&mut self, epoch: i32, metadata_hash: i64) {
        self.epoch = epoch;
        self.metadata_hash = metadata_hash;
    }

    /// Applies the assignment epoch, and the time at which the target was computed.
    pub(crate) fn replay_target_epoch(&mut self, computed: Option<(i32, i64)>) {
        (self.target.epoch, self.target.timestamp) = computed.unwrap_or((NO_TARGET, 0));
    }

    pub(crate) fn replay_target(
        &mut self,
        timers: &mut Timers,
        member_id: &str,
        part: Option<Part<K>>,
    ) {
        let number = match part {
            Some(_) => Some(self.members.take_slot(member_id)),
            None => self.members.slot_number(member_id),
        };
        let Some(number) = number else { return };
        if part.is_some() {
            K::add_to_target(self, number);
        }
        // A computation under way does not know this target.
        self.target.computing = None;
        if let Some(slot) = self.members.slot_mut(number) {
            slot.has_target = part.is_some();
        }
        self.target.by_member.replay(number, part.unwrap_or_default());
        self.free_slot(timers, number);
    }

    /// Applies a member's metadata. `read` makes the new profile; its argument is the previous
    /// profile.
    pub(crate) fn replay_member(
        &mut self,
        member_id: &str,
        read: impl FnOnce(&K, Option<&K::Profile>) -> K::Profile,
    ) {
        let number = self.members.take_slot(member_id);
        let before = self.members.take_out(number);
        let profile = read(&self.own, before.as_ref().map(|it| &it.profile));
        K::profile_replaced(self, number, before.as_ref(), &profile);
        let current = before.map(|it| it.current).unwrap_or_else(|| {
            let joining = Current::default();
            self.count_current(&profile, &joining);
            joining
        });
        self.members.put(number, Member { profile, current });
        K::add_to_target(self, number);
    }

    /// Removes a member.
    pub(crate) fn replay_leave(&mut self, timers: &mut Timers, member_id: &str) {
        let Some(number) = self.members.slot_number(member_id) else { return };
        if let Some(Member { profile, current }) = self.members.remove(number) {
            self.uncount_current(&profile, &current);
            K::profile_removed(self, member_id, &profile);
        }
        self.free_slot(timers, number);
    }

    /// Applies a member's current assignment. After its tombstone, the member is as if it had not
    /// joined. Kafka keeps the member's state at this tombstone, and removes the member with the
    /// next record. In muster a crash may separate the two records, and compaction may drop the
    /// first.
    pub(crate) fn replay_current(&mut self, member_id: &str, current: Option<CurrentOf<K>>) {
        let number = match current {
            Some(_) => Some(self.members.take_slot(member_id)),
            None => self.members.slot_number(member_id),
        };
        let Some(number) = number else { return };
        match (self.members.take_out(number), current) {
            (Some(Member { profile, current: before }), current) => {
                let current = current.unwrap_or_default();
                self.uncount_current(&profile, &before);
                self.count_current(&profile, &current);
                self.members.put(number, Member { profile, current });
            }
            (None, Some(current)) => {
                let profile = K::Profile::default();
                K::profile_replaced(self, number, None, &profile);
                self.count_current(&profile, &current);
                self.members.put(number, Member { profile, current });
                K::add_to_target(self, number);
            }
            (None, None) => {}
        }
    }

    /// Frees the slot of a member if no record of the member is left.
    fn free_slot(&mut self, timers: &mut Timers, number: u32) {
        let Some(slot) = self.members.slot(number) else { return };
        if slot.member.is_none() && !slot.has_target {
            self.target.by_member.forget(number);
            self.members.free(number, timers);
        }
    }

    fn count_current(&mut self, profile: &K::Profile, current: &CurrentOf<K>) {
        K::assigned(self, profile, current);
        if current.state == MemberState::Stable {
            *self.stable_at.entry(current.epoch).or_default() += 1;
        }
    }

    fn uncount_current(&mut self, profile: &K::Profile, current: &CurrentOf<K>) {
        K::unassigned(self, profile, current);
        if current.state == MemberState::Stable
            && let Entry::Occupied(mut members) = self.stable_at.entry(current.epoch)
        {
            *members.get_mut() -= 1;
            if *members.get() == 0 {
                members.remove();
            }
        }
    }
}
