//! Applies the records of a consumer group. Counts the members by assignor, by classic protocol and
//! by regular expression, and the bytes of their profiles.

use super::ConsumerGroup;
use super::member::{Member, Profile, current_from_record};
use super::regex::Resolved;
use crate::modern::records::target_part;
use crate::text::Text;
use crate::timers::Timers;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use muster_codec::records::{
    ConsumerGroupMemberMetadataValue, ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue, ConsumerGroupTargetAssignmentMetadataValue as TargetEpoch,
    GroupRecord,
};

impl ConsumerGroup {
    /// Applies a record of the group, except the tombstone of the group itself.
    pub(crate) fn replay(&mut self, timers: &mut Timers, record: &GroupRecord<'_>) {
        match record {
            GroupRecord::ConsumerGroupMetadata(_, Some(value)) => self.replay_consumer_epoch(value),
            GroupRecord::ConsumerGroupPartitionMetadata(_, value) => {
                self.own.has_partition_metadata = value.is_some();
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, Some(value)) => {
                self.replay_profile(&key.member_id, value);
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, None) => {
                self.replay_leave(timers, &key.member_id);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                let computed = |it: &TargetEpoch| (it.assignment_epoch, it.assignment_timestamp);
                self.replay_target_epoch(value.as_ref().map(computed));
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, value) => {
                self.replay_target(timers, &key.member_id, value.as_ref().map(target_part));
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => {
                self.replay_current(&key.member_id, value.as_ref().map(current_from_record));
            }
            GroupRecord::ConsumerGroupRegularExpression(key, value) => {
                self.replay_regex(&key.regular_expression, value.as_ref());
            }
            GroupRecord::OffsetCommit(..)
            | GroupRecord::GroupMetadata(..)
            | GroupRecord::ConsumerGroupMetadata(_, None)
            | GroupRecord::ShareGroupMetadata(..)
            | GroupRecord::ShareGroupMemberMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMember(..)
            | GroupRecord::ShareGroupCurrentMemberAssignment(..)
            | GroupRecord::ShareGroupStatePartitionMetadata(..)
            | GroupRecord::StreamsGroupMetadata(..)
            | GroupRecord::StreamsGroupMemberMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMetadata(..)
            | GroupRecord::StreamsGroupTargetAssignmentMember(..)
            | GroupRecord::StreamsGroupCurrentMemberAssignment(..)
            | GroupRecord::StreamsGroupTopology(..) => {}
        }
    }

    fn replay_consumer_epoch(&mut self, value: &ConsumerGroupMetadataValue) {
        self.replay_epoch(value.epoch, value.metadata_hash);
        self.own.present_hash = None;
    }

    fn replay_profile(&mut self, member_id: &str, value: &ConsumerGroupMemberMetadataValue<'_>) {
        self.replay_member(member_id, |own, before| {
            let mut profile = Profile::from_record(value, before);
            profile.topics = own.names.shared(profile.topics);
            profile
        });
    }

    fn replay_regex(
        &mut self,
        regex: &str,
        value: Option<&ConsumerGroupRegularExpressionValue<'_>>,
    ) {
        // Kafka determines the subscription type when members change, and not when an expression is
        // resolved. So the type from before this record stays.
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

    /// Adds a member to the assignors.
    pub(super) fn add_to_target(&mut self, number: u32) {
        let Some(slot) = self.members.slot(number) else { return };
        let instance_id = slot.member.as_ref().and_then(|it| it.profile.instance_id.as_deref());
        self.target.by_member.assignment.join(number, &slot.id, instance_id);
    }

    pub(super) fn profile_replaced(
        &mut self,
        number: u32,
        before: Option<&Member>,
        after: &Profile,
    ) {
        let Some(slot) = self.members.slot(number) else { return };
        let member_id = slot.id.clone();
        if let Some(before) = before {
            self.uncount_profile(&member_id, &before.profile);
        }
        self.count_profile(member_id, after);
        self.target.by_member.subscription_changed(number);
        self.own.subscription_type = None;
    }

    fn count_profile(&mut self, member_id: Text, profile: &Profile) {
        self.own.profile_bytes += profile.own_bytes();
        self.own.names.add(&profile.topics);
        self.subscriptions.add_named(&profile.topics);
        if let Some(regex) = profile.regex() {
            self.own.regexes.add_member(regex);
        }
        if let Some(assignor) = &profile.assignor {
            count(&mut self.own.assignors, assignor);
        }
        self.own.static_members.add(profile.instance_id.as_ref(), &member_id);
        if let Some(classic) = &profile.classic {
            self.own.classic_members += 1;
            for (name, _) in &classic.protocols {
                count(&mut self.own.classic_protocols, name);
            }
        }
    }

    pub(super) fn uncount_profile(&mut self, member_id: &str, profile: &Profile) {
        self.own.subscription_type = None;
        self.own.profile_bytes -= profile.own_bytes();
        self.own.names.remove(&profile.topics);
        self.subscriptions.remove_named(&profile.topics);
        if let Some(regex) = profile.regex() {
            self.own.regexes.remove_member(regex);
        }
        if let Some(assignor) = &profile.assignor {
            uncount(&mut self.own.assignors, assignor);
        }
        self.own.static_members.remove(profile.instance_id.as_ref(), member_id);
        if let Some(classic) = &profile.classic {
            self.own.classic_members -= 1;
            for (name, _) in &classic.protocols {
                uncount(&mut self.own.classic_protocols, name);
            }
        }
    }
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
