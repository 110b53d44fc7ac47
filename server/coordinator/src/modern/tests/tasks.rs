//! A kind of group that Kafka does not have. Processes run tasks; each task has a role and a unit.
//! Roles and epochs work as in streams groups. All groups have the same tasks.

use super::super::epoch::{ProfileChange, ProfileEffect};
use super::super::heartbeat::{Existing, Outcome, Settling};
use super::super::kind::{HeartbeatFields, Kind, Part};
use super::super::member::{CurrentOf, MemberOf};
use super::super::members::NoTimers;
use super::super::owned::{KeyPartitions, Owned, Partitions};
use super::super::subscriptions::Subscriptions;
use super::super::target::{MemberUpdate, Targets};
use super::super::validate::{JOIN, unknown_member, validate_epoch};
use super::super::{Draft, Group, Refusal};
use super::records::{current, group_key, id_of, member_key, owned_value, task_of};
use crate::allowance::Allowance;
use crate::client::Client;
use crate::config::{Config, GroupConfig};
use crate::counters::Events;
use crate::timers::Timers;
use crate::turn::Turn;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use muster_codec::records::{
    ConsumerGroupCurrentMemberAssignmentValue as CurrentValue,
    ConsumerGroupMemberMetadataValue as ProfileValue, ConsumerGroupMetadataValue as EpochValue,
    ConsumerGroupTargetAssignmentMemberValue as TargetValue,
    ConsumerGroupTargetAssignmentMetadataValue as TargetEpochValue,
    ConsumerGroupTargetTopicPartitions as TargetPartitions, GroupRecord,
};

/// The number of tasks of each unit and role.
const TASKS: i32 = 2;
const UNITS: [u8; 2] = [1, 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Active,
    Standby,
}

pub(super) type Task = (Role, u8);

/// The process that runs each active task.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) active: BTreeMap<(Task, i32), String>,
}

pub(super) struct Beat {
    pub(super) member_id: &'static str,
    pub(super) epoch: i32,
    pub(super) process: &'static str,
    pub(super) owned: Option<Owned<Task>>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) epoch: i32,
    pub(super) tasks: Option<Owned<Task>>,
}

/// The targets by slot. Members take turns, the newest first: one member runs a unit, and the next
/// one is its standby.
#[derive(Debug, Default)]
pub(super) struct ByTurns {
    parts: BTreeMap<u32, Partitions<Task>>,
    members: Vec<u32>,
}

impl Targets for ByTurns {
    type Key = Task;
    /// The targets of all members.
    type Computation = BTreeMap<u32, Partitions<Task>>;
    type Change = (u32, Partitions<Task>);

    fn of(&self, number: u32) -> Partitions<Task> {
        self.parts.get(&number).cloned().unwrap_or_default()
    }

    fn step(&self, computed: &mut Self::Computation) -> Option<Vec<Self::Change>> {
        let changed = core::mem::take(computed).into_iter();
        Some(changed.filter(|(number, part)| self.of(*number) != *part).collect())
    }

    fn changed((number, _): &Self::Change) -> u32 {
        *number
    }

    fn part(&self, (_, part): &Self::Change) -> Partitions<Task> {
        part.clone()
    }

    fn replay(&mut self, number: u32, part: Partitions<Task>) {
        self.parts.insert(number, part);
    }

    fn forget(&mut self, number: u32) {
        self.parts.remove(&number);
        self.members.retain(|it| *it != number);
    }
}

impl Kind for Tasks {
    type Heartbeat<'r> = Beat;
    type Answer<'r> = Answer;
    /// The member's process.
    type Profile = String;
    type Key = Task;
    type Reported = Owned<Task>;
    type Targets = ByTurns;
    type Input = ();
    type EpochFields = ();
    type MemberTimers = NoTimers;

    const REVOKES: bool = true;

    fn config(turn: &Turn<'_, '_>, group_id: &str) -> GroupConfig {
        GroupConfig { assignment_interval_ms: 0, ..turn.consumer_config(group_id) }
    }

    fn members_max(_: &Config) -> i32 {
        3
    }

    fn reported(beat: &Beat) -> Option<&Owned<Task>> {
        beat.owned.as_ref()
    }

    fn existing(
        group: &Group<Self>,
        _: &mut Draft<'_>,
        beat: &Beat,
    ) -> Result<Existing<Self>, Refusal> {
        if beat.epoch == JOIN {
            return Ok(group.joining(beat.member_id));
        }
        let Some(before) = group.members.get(beat.member_id) else { return unknown_member() };
        validate_epoch(&before.current, beat.epoch, beat.owned.as_ref())?;
        Ok(Existing { before: before.clone(), replaces: None })
    }

    fn is_unchanged(process: &String, beat: &Beat, _: Client<'_>) -> bool {
        process == beat.process
    }

    fn updated(_: &String, beat: &Beat, _: Client<'_>) -> String {
        beat.process.into()
    }

    fn refuse_if_large(
        _: &Group<Self>,
        _: &mut Allowance,
        _: &String,
        _: &String,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn client(_: &String) -> Client<'_> {
        Client::default()
    }

    fn revocation_timeout_ms(_: &String) -> i32 {
        1_000
    }

    fn has_revocation_timeout(_: &String) -> bool {
        true
    }

    fn has_changed(_: &Group<Self>, _: &Turn<'_, '_>, _: &Beat) -> bool {
        false
    }

    fn effect(
        group: &mut Group<Self>,
        turn: &mut Turn<'_, '_>,
        _: &mut Draft<'_>,
        change: ProfileChange<'_, String>,
    ) -> Result<ProfileEffect<()>, Refusal> {
        let bumps = change.before != change.after;
        let is_outdated = group.is_outdated(turn.topics);
        Ok(ProfileEffect { is_changed: false, bumps, is_outdated, fields: () })
    }

    fn known_hash(group: &Group<Self>) -> i64 {
        group.metadata_hash
    }

    fn subscriptions_after(_: &Group<Self>, _: ProfileChange<'_, String>) -> Subscriptions {
        Subscriptions::default()
    }

    fn subscriptions_without(
        _: &Group<Self>,
        _: &mut Draft<'_>,
        _: &[&MemberOf<Self>],
    ) -> Option<Subscriptions> {
        Some(Subscriptions::default())
    }

    fn epoch_fields(_: &Group<Self>) {}

    fn input_after(_: &Group<Self>, _: ProfileChange<'_, String>, _: &Subscriptions) {}

    fn rebalances(events: &mut Events) -> &mut u64 {
        &mut events.consumer_rebalances
    }

    fn input(_: &Group<Self>) {}

    fn is_ready(_: &Group<Self>) -> bool {
        true
    }

    fn is_gathering(_: &Group<Self>) -> bool {
        false
    }

    fn least_interval_ms(_: &Group<Self>) -> i32 {
        0
    }

    fn target_slot(_: &Group<Self>, number: Option<u32>, _: &String) -> Option<u32> {
        number
    }

    fn computation(
        group: &mut Group<Self>,
        _: &Turn<'_, '_>,
        update: &MemberUpdate<'_, Self>,
        (): (),
    ) -> BTreeMap<u32, Partitions<Task>> {
        let mut members = group.target.by_member.members.clone();
        if update.is_new {
            members.push(update.number);
        }
        members.reverse();
        let mut parts: BTreeMap<u32, Partitions<Task>> = BTreeMap::new();
        for (turn, unit) in UNITS.into_iter().enumerate() {
            for (turn, role) in [(turn, Role::Active), (turn + 1, Role::Standby)] {
                if role == Role::Standby && members.len() == 1 {
                    continue;
                }
                let part = parts.entry(members[turn % members.len()]).or_default();
                part.push(KeyPartitions { key: (role, unit), partitions: (0..TASKS).collect() });
                part.sort_by_key(|of_key| of_key.key);
            }
        }
        parts
    }

    fn add_to_target(group: &mut Group<Self>, number: u32) {
        let members = &mut group.target.by_member.members;
        if !members.contains(&number) {
            members.push(number);
        }
    }

    fn is_subscribed(_: &Group<Self>, _: &Turn<'_, '_>, _: &String, _: &Task) -> bool {
        true
    }

    fn is_subscriber(_: &Group<Self>, _: &String) -> bool {
        true
    }

    /// An active task has one process. A standby may not be in the process that has the active
    /// task.
    fn is_free(
        group: &Group<Self>,
        member: &MemberOf<Self>,
        (role, unit): &Task,
        partition: i32,
    ) -> bool {
        let active = group.own.active.get(&((Role::Active, *unit), partition));
        match role {
            Role::Active => active.is_none(),
            Role::Standby => active != Some(&member.profile),
        }
    }

    fn epoch_after_revocation(epoch: i32) -> i32 {
        epoch + 1
    }

    fn settle(
        _: &mut Group<Self>,
        _: &mut Turn<'_, '_>,
        _: &mut Draft<'_>,
        _: &Beat,
        _: &Settling<'_, Self>,
    ) {
    }

    fn answer<'r>(
        _: &Group<Self>,
        _: &Turn<'_, 'r>,
        _: &Beat,
        member: &MemberOf<Self>,
        outcome: Outcome,
    ) -> Answer {
        let tasks = outcome.is_changed.then(|| member.current.assigned.clone());
        Answer { epoch: member.current.epoch, tasks }
    }

    fn epoch_record(group_id: &str, epoch: i32, hash: i64, (): &()) -> GroupRecord<'static> {
        let value = EpochValue { epoch, metadata_hash: hash };
        GroupRecord::ConsumerGroupMetadata(group_key(group_id), Some(value))
    }

    fn remove_old_records(_: &Group<Self>, _: &mut Draft<'_>) {}

    fn member_record(group_id: &str, member_id: &str, process: &String) -> GroupRecord<'static> {
        let value = ProfileValue { client_id: process.clone().into(), ..Default::default() };
        GroupRecord::ConsumerGroupMemberMetadata(member_key(group_id, member_id), Some(value))
    }

    fn target_record(group_id: &str, member_id: &str, part: Part<Self>) -> GroupRecord<'static> {
        let tasks = part.into_iter().map(|of_key| TargetPartitions {
            topic_id: id_of(of_key.key),
            partitions: of_key.partitions,
        });
        let (key, value) =
            (member_key(group_id, member_id), TargetValue { topic_partitions: tasks.collect() });
        GroupRecord::ConsumerGroupTargetAssignmentMember(key, Some(value))
    }

    fn target_epoch_record(group_id: &str, epoch: i32, at: i64) -> GroupRecord<'static> {
        let value = TargetEpochValue { assignment_epoch: epoch, assignment_timestamp: at };
        GroupRecord::ConsumerGroupTargetAssignmentMetadata(group_key(group_id), Some(value))
    }

    fn current_record(
        group_id: &str,
        member_id: &str,
        current: &CurrentOf<Self>,
    ) -> GroupRecord<'static> {
        let value = CurrentValue {
            member_epoch: current.epoch,
            previous_member_epoch: current.previous_epoch,
            state: current.state as i8,
            assigned_partitions: owned_value(&current.assigned),
            partitions_pending_revocation: owned_value(&current.revoking),
        };
        let key = member_key(group_id, member_id);
        GroupRecord::ConsumerGroupCurrentMemberAssignment(key, Some(value))
    }

    fn epoch_tombstone(group_id: &str) -> GroupRecord<'static> {
        GroupRecord::ConsumerGroupMetadata(group_key(group_id), None)
    }

    fn member_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
        GroupRecord::ConsumerGroupMemberMetadata(member_key(group_id, member_id), None)
    }

    fn target_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
        GroupRecord::ConsumerGroupTargetAssignmentMember(member_key(group_id, member_id), None)
    }

    fn target_epoch_tombstone(group_id: &str) -> GroupRecord<'static> {
        GroupRecord::ConsumerGroupTargetAssignmentMetadata(group_key(group_id), None)
    }

    fn current_tombstone(group_id: &str, member_id: &str) -> GroupRecord<'static> {
        GroupRecord::ConsumerGroupCurrentMemberAssignment(member_key(group_id, member_id), None)
    }

    fn own_records(_: &Group<Self>, _: &mut Draft<'_>) {}

    fn group_tombstones(group: &Group<Self>, draft: &mut Draft<'_>) {
        draft.push(Self::epoch_tombstone(&group.id));
    }

    fn profile_replaced(
        group: &mut Group<Self>,
        _: u32,
        before: Option<&MemberOf<Self>>,
        process: &String,
    ) {
        if let Some(before) = before {
            Self::unassigned(group, &before.profile, &before.current);
            Self::assigned(group, process, &before.current);
        }
    }

    fn profile_removed(_: &mut Group<Self>, _: &str, _: &String) {}

    fn assigned(group: &mut Group<Self>, process: &String, current: &CurrentOf<Self>) {
        for task in active(current) {
            group.own.active.insert(task, process.clone());
        }
    }

    fn unassigned(group: &mut Group<Self>, process: &String, current: &CurrentOf<Self>) {
        for task in active(current) {
            if group.own.active.get(&task) == Some(process) {
                group.own.active.remove(&task);
            }
        }
    }

    fn cancel_timers(&mut self, _: &mut Timers) {}
}

impl Group<Tasks> {
    pub(super) fn replay(&mut self, timers: &mut Timers, record: &GroupRecord<'_>) {
        match record {
            GroupRecord::ConsumerGroupMetadata(_, Some(value)) => {
                self.replay_epoch(value.epoch, value.metadata_hash);
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, Some(value)) => {
                self.replay_member(&key.member_id, |_, _| (&*value.client_id).into());
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, None) => {
                self.replay_leave(timers, &key.member_id);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                let computed =
                    |it: &TargetEpochValue| (it.assignment_epoch, it.assignment_timestamp);
                self.replay_target_epoch(value.as_ref().map(computed));
            }
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, value) => {
                let part = value.as_ref().map(|value| {
                    let tasks = value.topic_partitions.iter();
                    let tasks = tasks.map(|it| (task_of(it.topic_id), it.partitions.clone()));
                    tasks.map(|(key, partitions)| KeyPartitions { key, partitions }).collect()
                });
                self.replay_target(timers, &key.member_id, part);
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => {
                self.replay_current(&key.member_id, value.as_ref().map(current));
            }
            GroupRecord::ConsumerGroupMetadata(_, None)
            | GroupRecord::ConsumerGroupPartitionMetadata(..)
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
            | GroupRecord::StreamsGroupTopology(..)
            | GroupRecord::ConsumerGroupRegularExpression(..)
            | GroupRecord::GroupMetadata(..)
            | GroupRecord::OffsetCommit(..) => unreachable!("{record:?}"),
        }
    }
}

/// All active tasks that a member has or still has to give up.
fn active(current: &CurrentOf<Tasks>) -> impl Iterator<Item = (Task, i32)> {
    let tasks = current.assigned.by_key().iter().chain(current.revoking.by_key());
    let tasks = tasks.filter(|of_key| of_key.key.0 == Role::Active);
    tasks.flat_map(|of_key| of_key.partitions.iter().map(|it| (of_key.key, it.partition)))
}

impl HeartbeatFields for Beat {
    fn member_id(&self) -> &str {
        self.member_id
    }

    fn member_epoch(&self) -> i32 {
        self.epoch
    }
}
