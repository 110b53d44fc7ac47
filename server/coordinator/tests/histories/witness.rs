//! Reads the records as they are written. In each group, no partition may have two owners, and no
//! epoch may decrease.

use muster_codec::Uuid;
use muster_codec::records::{
    ConsumerGroupCurrentMemberAssignmentValue as Current, ConsumerGroupMemberMetadataValue,
    GroupMetadataValue, GroupRecord,
};
use std::collections::{BTreeMap, BTreeSet};

/// The events that must occur in random histories, so that the properties are tested with them.
pub const EVENTS: [&str; 8] = [
    "a classic group becomes a consumer group",
    "a consumer group becomes a classic group",
    "a classic member gets an assignment in a consumer group",
    "a member must revoke partitions",
    "a member waits for partitions of others",
    "a static member leaves for a while",
    "a static member returns",
    "an expression is resolved",
];

#[derive(Default)]
pub struct Witness {
    pub groups: BTreeMap<String, Group>,
    pub met: BTreeMap<&'static str, usize>,
}

/// A group according to its records.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// The number of members in the record of a classic group.
    classic: Option<usize>,
    pub is_consumer: bool,
    /// The generation or group epoch. When a group changes its protocol, the numbers continue.
    pub epoch: i32,
    /// The epoch after the last call; 0 for a group that was deleted.
    seen_epoch: i32,
    target_epoch: i32,
    /// The generation in which a classic group became a consumer group.
    upgraded_at: Option<i32>,
    /// The members of a consumer group.
    pub members: BTreeMap<String, Member>,
}

#[derive(Debug, Clone, Default)]
pub struct Member {
    /// The member epoch; -2 while a static member has left temporarily.
    pub epoch: i32,
    /// The highest epoch after any call.
    seen_epoch: i32,
    is_classic: bool,
    /// The owned partitions, including those that the member must still revoke.
    pub owned: BTreeSet<(Uuid, i32)>,
}

impl Witness {
    /// Reads the records of one call.
    pub fn observe(&mut self, records: &[GroupRecord<'_>]) {
        let before: BTreeMap<&str, Group> = records
            .iter()
            .map(|record| record.group_id())
            .filter_map(|id| Some((id, self.groups.get(id)?.clone())))
            .collect();
        for record in records {
            self.read(record, before.get(record.group_id()));
        }
        for id in records.iter().map(|record| record.group_id()).collect::<BTreeSet<_>>() {
            let group = self.groups.get_mut(id).unwrap();
            assert!(group.epoch >= group.seen_epoch, "{id}: {group:?} after {records:?}");
            group.seen_epoch = group.epoch;
            for (id, member) in &mut group.members {
                assert!(
                    member.epoch == -2 || member.epoch >= member.seen_epoch,
                    "{id}: {member:?}"
                );
                member.seen_epoch = member.seen_epoch.max(member.epoch);
            }
            let group = group.clone();
            check_owners(id, &group);
            let was = before.get(id).cloned().unwrap_or_default();
            if was.classic.is_some_and(|members| members > 0) && group.is_consumer {
                self.meet(0);
            }
            if !was.members.is_empty() && group.classic.is_some_and(|members| members > 0) {
                self.meet(1);
            }
            if was.members.len() == group.members.len() && was.away() > group.away() {
                self.meet(6);
            }
            if group.classic.is_none() && !group.is_consumer && group.members.is_empty() {
                self.groups.remove(id);
            }
        }
    }

    fn meet(&mut self, event: usize) {
        *self.met.entry(EVENTS[event]).or_default() += 1;
    }

    fn read(&mut self, record: &GroupRecord<'_>, before: Option<&Group>) {
        let group = self.groups.entry(record.group_id().to_owned()).or_default();
        match record {
            GroupRecord::OffsetCommit(..)
            | GroupRecord::ConsumerGroupPartitionMetadata(..)
            | GroupRecord::ConsumerGroupTargetAssignmentMember(..)
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
            GroupRecord::GroupMetadata(_, value) => group.read_classic(value.as_ref(), before),
            GroupRecord::ConsumerGroupMetadata(_, value) => {
                group.read_epoch(value.as_ref().map(|it| it.epoch), before);
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, value) => {
                let epoch = value.as_ref().map_or(0, |it| it.assignment_epoch);
                assert!(epoch == 0 || epoch >= group.target_epoch, "{record:?} after {group:?}");
                group.target_epoch = epoch;
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, value) => {
                group.read_member(&key.member_id, value.as_ref());
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, value) => {
                let events = group.read_current(&key.member_id, value.as_ref());
                events.into_iter().for_each(|event| self.meet(event));
            }
            GroupRecord::ConsumerGroupRegularExpression(_, value) => {
                if value.as_ref().is_some_and(|it| !it.topics.is_empty()) {
                    self.meet(7);
                }
            }
        }
    }
}

impl Group {
    fn read_classic(&mut self, value: Option<&GroupMetadataValue<'_>>, before: Option<&Self>) {
        self.classic = value.map(|it| it.members.len());
        match value {
            Some(value) => self.epoch = value.generation,
            None if before.is_some_and(|it| it.classic == Some(0)) => self.restart(),
            None => {}
        }
    }

    /// Whether the group's target is still the assignment of the former classic group. As in Kafka,
    /// members that were waiting for their first assignment then get none until the next epoch.
    pub fn has_classic_target(&self) -> bool {
        self.upgraded_at == Some(self.epoch)
    }

    /// Whether the group became a consumer group in the middle of a client's rebalance.
    /// `generation` is the client's. As in Kafka, the members then got the leader's assignment of
    /// this rebalance, or no partitions. The client may still believe that it owns its old
    /// partitions, some of which may belong to another member.
    pub fn was_upgraded_amid(&self, generation: i32, is_settled: bool) -> bool {
        self.upgraded_at.is_some_and(|at| generation < at || (generation == at && !is_settled))
    }

    fn read_epoch(&mut self, epoch: Option<i32>, before: Option<&Self>) {
        if !self.is_consumer {
            let has_classic = self.members.values().any(|it| it.is_classic);
            self.upgraded_at = epoch.filter(|_| has_classic);
        }
        self.is_consumer = epoch.is_some();
        match epoch {
            Some(epoch) => self.epoch = epoch,
            None if before.is_some_and(|it| it.members.is_empty()) => self.restart(),
            None => {}
        }
    }

    /// The number of static members that have left temporarily.
    fn away(&self) -> usize {
        self.members.values().filter(|member| member.epoch == -2).count()
    }

    /// The group was deleted because it was empty, perhaps to be replaced by a group of the other
    /// protocol.
    fn restart(&mut self) {
        (self.epoch, self.seen_epoch) = (0, 0);
    }

    fn read_member(&mut self, id: &str, value: Option<&ConsumerGroupMemberMetadataValue<'_>>) {
        match value {
            Some(value) => {
                let member = self.members.entry(id.to_owned()).or_default();
                member.is_classic = value.classic_member_metadata.0.is_some();
            }
            None => {
                self.members.remove(id);
            }
        }
    }

    /// Reads the record of a current assignment. Returns the indexes of the events in it.
    fn read_current(&mut self, id: &str, value: Option<&Current>) -> Vec<usize> {
        let mut events = Vec::new();
        let Some(value) = value else {
            // A tombstone is written for each record of a member that is removed. This is one of
            // them.
            if let Some(member) = self.members.get_mut(id) {
                member.owned.clear();
            }
            return events;
        };
        let member = self.members.entry(id.to_owned()).or_default();
        (member.epoch, member.owned) = (value.member_epoch, owned(value));
        match value.member_epoch {
            -2 => events.push(5),
            epoch => assert!(epoch <= self.epoch.max(1), "{id}: {epoch} in epoch {}", self.epoch),
        }
        events.extend((member.is_classic && !member.owned.is_empty()).then_some(2));
        events.extend((!value.partitions_pending_revocation.is_empty()).then_some(3));
        events.extend((value.state == UNRELEASED_PARTITIONS).then_some(4));
        events
    }
}

/// `MemberState.UNRELEASED_PARTITIONS`
const UNRELEASED_PARTITIONS: i8 = 2;

fn check_owners(id: &str, group: &Group) {
    let mut owners: BTreeMap<(Uuid, i32), &str> = BTreeMap::new();
    for (member_id, member) in &group.members {
        for partition in &member.owned {
            let other = owners.insert(*partition, member_id);
            assert_eq!(other, None, "{partition:?} of {id} is owned by {member_id} too");
        }
    }
}

fn owned(value: &Current) -> BTreeSet<(Uuid, i32)> {
    let all = value.assigned_partitions.iter().chain(&value.partitions_pending_revocation);
    all.flat_map(|topic| topic.partitions.iter().map(|it| (topic.topic_id, *it))).collect()
}
