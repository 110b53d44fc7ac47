//! Applies the records of a streams group. Counts the bytes of member profiles and the processes
//! that have each task.

use super::description::Description;
use super::member::{Member, Profile, current_from_record, tags};
use super::task::target_part;
use super::topology::Topology;
use super::{Described, Recorded, StreamsGroup};
use crate::modern::subscriptions::Subscriptions;
use crate::text::Text;
use crate::timers::Timers;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::records::{
    ConsumerGroupTargetAssignmentMetadataValue as TargetEpoch, GroupRecord,
    StreamsGroupMetadataValue, StreamsGroupTopologyValue,
};

impl StreamsGroup {
    /// Applies a record of the group, except the tombstone of the group itself.
    pub(crate) fn replay(&mut self, timers: &mut Timers, record: &GroupRecord<'_>) {
        self.recorded();
        match record {
            GroupRecord::StreamsGroupMetadata(_, Some(value)) => self.replay_streams_epoch(value),
            GroupRecord::StreamsGroupMemberMetadata(key, Some(value)) => {
                self.replay_member(&key.member_id, |_, before| Profile::from_record(value, before));
            }
            GroupRecord::StreamsGroupMemberMetadata(key, None) => {
                self.replay_leave(timers, &key.member_id);
            }
            GroupRecord::StreamsGroupTargetAssignmentMetadata(_, value) => {
                let computed = |it: &TargetEpoch| (it.assignment_epoch, it.assignment_timestamp);
                self.replay_target_epoch(value.as_ref().map(computed));
            }
            GroupRecord::StreamsGroupTargetAssignmentMember(key, value) => {
                self.replay_target(timers, &key.member_id, value.as_ref().map(target_part));
            }
            GroupRecord::StreamsGroupCurrentMemberAssignment(key, value) => {
                self.replay_current(&key.member_id, value.as_ref().map(current_from_record));
                if let Some(number) = self.members.slot_number(&key.member_id) {
                    self.endpoint_changed(number);
                }
            }
            GroupRecord::StreamsGroupTopology(_, value) => self.replay_topology(value.as_ref()),
            GroupRecord::OffsetCommit(..)
            | GroupRecord::GroupMetadata(..)
            | GroupRecord::ConsumerGroupMetadata(..)
            | GroupRecord::ConsumerGroupPartitionMetadata(..)
            | GroupRecord::ConsumerGroupMemberMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
            | GroupRecord::ConsumerGroupCurrentMemberAssignment(..)
            | GroupRecord::ConsumerGroupRegularExpression(..)
            | GroupRecord::ShareGroupMetadata(..)
            | GroupRecord::ShareGroupMemberMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMetadata(..)
            | GroupRecord::ShareGroupTargetAssignmentMember(..)
            | GroupRecord::ShareGroupCurrentMemberAssignment(..)
            | GroupRecord::ShareGroupStatePartitionMetadata(..)
            | GroupRecord::StreamsGroupMetadata(_, None) => {}
        }
    }

    /// Called for each record. The first record creates the group, and the volatile state that the
    /// first heartbeat left is dropped: Kafka discards the group object of that heartbeat, and the
    /// records of later heartbeats must equal Kafka's.
    fn recorded(&mut self) {
        if !self.own.is_recorded {
            self.own.is_recorded = true;
            self.own.configured = None;
            self.own.endpoints = Default::default();
            self.own.task_offsets = Default::default();
            self.own.shutdown = None;
        }
    }

    fn replay_streams_epoch(&mut self, value: &StreamsGroupMetadataValue<'_>) {
        self.replay_epoch(value.epoch, value.metadata_hash);
        let configs = value.last_assignment_configs.as_deref().unwrap_or_default();
        let description = Described {
            stored: value.stored_description_topology_epoch,
            failed: value.failed_description_topology_epoch,
        };
        let validated = value.validated_topology_epoch;
        self.own.recorded = Recorded { validated, configs: tags(configs), description };
    }

    fn replay_topology(&mut self, value: Option<&StreamsGroupTopologyValue<'_>>) {
        let topology = value.map(|it| Arc::new(Topology::read(it.epoch, &it.subtopologies)));
        // If only the description differs, the configured topology stays.
        if topology != self.own.topology {
            self.own.topology = topology;
        }
        let description = value.and_then(|it| it.description.as_ref());
        self.own.description = description.map(Description::read);
        self.subscriptions = subscriptions(self.own.topology.as_deref());
    }

    pub(super) fn profile_replaced(
        &mut self,
        number: u32,
        before: Option<&Member>,
        after: &Profile,
    ) {
        let Some(slot) = self.members.slot(number) else { return };
        let static_members = &mut self.own.static_members;
        static_members.remove(before.and_then(|it| it.profile.instance_id.as_ref()), &slot.id);
        static_members.add(after.instance_id.as_ref(), &slot.id);
        self.own.profile_bytes += after.bytes();
        if let Some(Member { profile, current }) = before {
            self.own.profile_bytes -= profile.bytes();
            for tasks in [&current.assigned, &current.revoking] {
                self.own.holders.remove(&profile.process_id, tasks);
            }
            for tasks in [&current.assigned, &current.revoking] {
                self.own.holders.add(&after.process_id, tasks);
            }
        }
        let had_endpoint = before.is_some_and(|it| it.profile.endpoint.is_some());
        if had_endpoint || after.endpoint.is_some() {
            self.own.endpoints.profile_changed(number);
        }
    }

    pub(super) fn profile_removed(&mut self, member_id: &str, profile: &Profile) {
        self.own.profile_bytes -= profile.bytes();
        self.own.static_members.remove(profile.instance_id.as_ref(), member_id);
        self.own.task_offsets.forget(member_id);
        if profile.endpoint.is_some() {
            self.own.endpoints.member_removed();
        }
        if self.is_empty() {
            self.own.shutdown = None;
        }
    }

    fn endpoint_changed(&mut self, number: u32) {
        let member = self.members.slot(number).and_then(|slot| slot.member.as_ref());
        if member.is_some_and(|member| member.profile.endpoint.is_some()) {
            self.own.endpoints.member_changed(number);
        }
    }
}

/// The topics of a topology. Their hash is recorded with the group epoch.
pub(super) fn subscriptions(topology: Option<&Topology>) -> Subscriptions {
    let names: Vec<Text> = topology.into_iter().flat_map(Topology::topics).collect();
    let mut subscriptions = Subscriptions::default();
    subscriptions.add_named(&names);
    subscriptions
}
