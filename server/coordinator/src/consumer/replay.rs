//! Applies records to the state of a consumer group. Records of a compacted log come in any order:
//! a member's partitions may come before its metadata.

use super::ConsumerGroup;
use super::member::{Member, Profile, current_from_record};
use super::regex::Resolved;
use crate::modern::member::{Current, MemberState};
use crate::modern::owned::Owned;
use crate::text::Text;
use crate::timers::Timers;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::records::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue, ConsumerGroupTargetAssignmentMetadataValue,
    GroupRecord,
};

/// The epoch of a member that has left.
const LEFT: i32 = -1;

impl ConsumerGroup {
    /// Applies a record of the group, except the tombstone of the group itself.
    pub(crate) fn replay(&mut self, timers: &mut Timers, record: &GroupRecord<'_>) {
        match record {
            GroupRecord::ConsumerGroupMetadata(_, Some(value)) => self.replay_epoch(value),
            GroupRecord::ConsumerGroupPartitionMetadata(_, value) => {
                self.own.has_partition_metadata = value.is_some();
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, value) => {
                self.replay_member(timers, &key.member_id, value.as_ref());
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                self.replay_target_epoch(value.as_ref());
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, value) => {
                self.replay_target(timers, &key.member_id, value.as_ref());
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => {
                self.replay_current(&key.member_id, value.as_ref());
            }
            GroupRecord::ConsumerGroupRegularExpression(key, value) => {
                self.replay_regex(&key.regular_expression, value.as_ref());
            }
            GroupRecord::OffsetCommit(..)
            | GroupRecord::GroupMetadata(..)
            | GroupRecord::ConsumerGroupMetadata(_, None) => {}
        }
    }

    /// Cancels the timers of a group that was deleted.
    pub(crate) fn removed(&mut self, timers: &mut Timers) {
        self.members.cancel_timers(timers);
        timers.cancel(&mut self.target.timer);
        timers.cancel(&mut self.own.regexes.timer);
    }

    fn replay_epoch(&mut self, value: &ConsumerGroupMetadataValue) {
        self.epoch = value.epoch;
        self.metadata_hash = value.metadata_hash;
        self.own.present_hash = None;
    }

    fn replay_target_epoch(&mut self, value: Option<&ConsumerGroupTargetAssignmentMetadataValue>) {
        self.target.epoch = value.map_or(-1, |value| value.assignment_epoch);
        self.target.timestamp = value.map_or(0, |value| value.assignment_timestamp);
    }

    fn replay_target(
        &mut self,
        timers: &mut Timers,
        member_id: &str,
        value: Option<&ConsumerGroupTargetAssignmentMemberValue>,
    ) {
        let Some(value) = value else {
            let Some(number) = self.members.slot_number(member_id) else { return };
            self.target.computing = None;
            self.target.by_member.replay(number, core::iter::empty());
            self.set_has_target(number, false);
            return self.free_slot(timers, number);
        };
        let number = self.members.take_slot(member_id);
        self.add_to_target(number);
        let topics = value.topic_partitions.iter();
        // A running computation does not know this target.
        self.target.computing = None;
        self.target.by_member.replay(number, topics.map(|it| (it.topic_id, it.partitions.clone())));
        self.set_has_target(number, true);
    }

    fn replay_member(
        &mut self,
        timers: &mut Timers,
        member_id: &str,
        value: Option<&ConsumerGroupMemberMetadataValue<'_>>,
    ) {
        let Some(value) = value else { return self.remove_member(timers, member_id) };
        let number = self.members.take_slot(member_id);
        let before = self.members.take_out(number);
        let mut profile = Profile::from_record(value, before.as_ref().map(|it| &it.profile));
        profile.topics = self.own.names.shared(profile.topics);
        if let Some(before) = &before {
            self.uncount_profile(member_id, &before.profile);
        }
        self.count_profile(number, &profile);
        let current = before.map(|it| it.current).unwrap_or_else(|| {
            let joining = Current::default();
            self.count_current(&joining);
            joining
        });
        self.members.put(number, Member { profile, current });
        self.add_to_target(number);
        self.target.by_member.subscription_changed(number);
        self.own.subscription_type = None;
    }

    fn replay_current(
        &mut self,
        member_id: &str,
        value: Option<&ConsumerGroupCurrentMemberAssignmentValue>,
    ) {
        let number = match value {
            Some(_) => self.members.take_slot(member_id),
            None => match self.members.slot_number(member_id) {
                Some(number) => number,
                None => return,
            },
        };
        let before = self.members.take_out(number);
        let is_new = before.is_none();
        let Some(member) = before.or_else(|| value.map(|_| Member::default())) else { return };
        let current = value.map_or_else(|| left(&member.current), current_from_record);
        match is_new {
            true => self.count_profile(number, &member.profile),
            false => self.uncount_current(&member.current),
        }
        self.count_current(&current);
        self.members.put(number, Member { current, ..member });
        if is_new {
            self.add_to_target(number);
        }
        self.own.subscription_type = None;
    }

    fn replay_regex(
        &mut self,
        regex: &str,
        value: Option<&ConsumerGroupRegularExpressionValue<'_>>,
    ) {
        // Kafka determines the type when members change, but not here.
        self.own.subscription_type = Some(self.subscription_type());
        let resolved = value.map(|value| {
            let mut topics: Vec<Text> = value.topics.iter().map(|it| Text::from(&**it)).collect();
            topics.sort_unstable();
            topics.dedup();
            Resolved { topics, version: value.version, timestamp: value.timestamp }
        });
        if let Some(resolved) = &resolved {
            self.subscriptions.add_matched(&resolved.topics);
        }
        if let Some(before) = self.own.regexes.resolve(regex, resolved) {
            self.subscriptions.remove_matched(&before.topics);
        }
        self.target.by_member.subscriptions_changed();
    }

    fn remove_member(&mut self, timers: &mut Timers, member_id: &str) {
        let Some(number) = self.members.slot_number(member_id) else { return };
        if let Some(gone) = self.members.remove(number) {
            self.uncount_profile(member_id, &gone.profile);
            self.uncount_current(&gone.current);
            self.own.subscription_type = None;
        }
        self.free_slot(timers, number);
    }

    /// Frees the slot of a member without records.
    fn free_slot(&mut self, timers: &mut Timers, number: u32) {
        let Some(slot) = self.members.slot(number) else { return };
        if slot.member.is_none() && !slot.has_target {
            self.target.by_member.assignment.leave(number);
            self.members.free(number, timers);
        }
    }

    fn set_has_target(&mut self, number: u32, has_target: bool) {
        if let Some(slot) = self.members.slot_mut(number) {
            slot.has_target = has_target;
        }
    }

    fn add_to_target(&mut self, number: u32) {
        let Some(slot) = self.members.slot(number) else { return };
        let instance_id = slot.member.as_ref().and_then(|it| it.profile.instance_id.as_deref());
        self.target.by_member.assignment.join(number, &slot.id, instance_id);
    }

    fn count_current(&mut self, current: &Current<Owned>) {
        self.own.owners.add(&current.assigned, current.epoch);
        self.own.owners.add(&current.revoking, current.epoch);
        if current.state == MemberState::Stable {
            count(&mut self.stable_at, &current.epoch);
        }
    }

    fn uncount_current(&mut self, current: &Current<Owned>) {
        self.own.owners.remove(&current.assigned, current.epoch);
        self.own.owners.remove(&current.revoking, current.epoch);
        if current.state == MemberState::Stable {
            uncount(&mut self.stable_at, &current.epoch);
        }
    }

    fn count_profile(&mut self, number: u32, profile: &Profile) {
        self.own.profile_bytes += profile.own_bytes();
        self.own.names.add(&profile.topics);
        self.subscriptions.add_named(&profile.topics);
        if let Some(regex) = profile.regex() {
            self.own.regexes.add_member(regex);
        }
        if let Some(assignor) = &profile.assignor {
            count(&mut self.own.assignors, assignor);
        }
        if let (Some(instance_id), Some(slot)) = (&profile.instance_id, self.members.slot(number)) {
            self.own.static_members.insert(instance_id.clone(), slot.id.clone());
        }
        if let Some(classic) = &profile.classic {
            self.own.classic_members += 1;
            for (name, _) in &classic.protocols {
                count(&mut self.own.classic_protocols, name);
            }
        }
    }

    fn uncount_profile(&mut self, member_id: &str, profile: &Profile) {
        self.own.profile_bytes -= profile.own_bytes();
        self.own.names.remove(&profile.topics);
        self.subscriptions.remove_named(&profile.topics);
        if let Some(regex) = profile.regex() {
            self.own.regexes.remove_member(regex);
        }
        if let Some(assignor) = &profile.assignor {
            uncount(&mut self.own.assignors, assignor);
        }
        if let Some(instance_id) = &profile.instance_id
            && self.own.static_members.get(instance_id).is_some_and(|it| **it == *member_id)
        {
            self.own.static_members.remove(instance_id);
        }
        if let Some(classic) = &profile.classic {
            self.own.classic_members -= 1;
            for (name, _) in &classic.protocols {
                uncount(&mut self.own.classic_protocols, name);
            }
        }
    }
}

/// A member that has left and is about to be removed.
fn left(current: &Current<Owned>) -> Current<Owned> {
    Current { epoch: LEFT, previous_epoch: LEFT, state: current.state, ..Current::default() }
}

fn count<K: Ord + Clone>(counts: &mut BTreeMap<K, usize>, key: &K) {
    *counts.entry(key.clone()).or_default() += 1;
}

fn uncount<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    let Some(count) = counts.get_mut(key) else { return };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}
