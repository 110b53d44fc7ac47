//! The endpoints of members, with their partitions, for interactive queries. The list of endpoints
//! has an epoch, by which a member notices that the list has changed. The list is encoded once for
//! all members.

use super::StreamsGroup;
use super::member::Member;
use super::task::Role;
use super::topology::sources;
use crate::text::owned as text;
use crate::turn::Turn;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use muster_codec::messages::{
    PartitionsByEndpoint, StreamsGroupEndpointPartitions, StreamsGroupTopicPartitions,
};

/// The endpoints of a group; volatile.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    pub(super) epoch: i32,
    encoded: Option<PartitionsByEndpoint>,
    /// The slot of the member whose heartbeat encoded the list. The list has that member's change
    /// already, so the replay of the change's records does not discard it.
    includes: Option<u32>,
}

impl Endpoints {
    /// The encoded list; None if something changed since it was encoded.
    pub(super) fn encoded(&self) -> Option<&PartitionsByEndpoint> {
        self.encoded.as_ref()
    }

    /// Called when the record of a member's profile is replayed. `includes` stays, because the
    /// record of the member's tasks may follow.
    pub(super) fn profile_changed(&mut self, number: u32) {
        if self.includes != Some(number) {
            self.encoded = None;
        }
    }

    /// Called when the tasks of a member have changed.
    pub(super) fn member_changed(&mut self, number: u32) {
        if self.includes.take() != Some(number) {
            self.encoded = None;
        }
    }

    /// Called when a member with an endpoint is removed.
    pub(super) fn member_removed(&mut self) {
        self.encoded = None;
    }

    /// Called when topics have changed, and so perhaps their partition counts.
    pub(super) fn topics_changed(&mut self) {
        self.encoded = None;
    }
}

impl StreamsGroup {
    /// Called when a member with an endpoint has joined, or has other tasks.
    pub(super) fn endpoints_changed(&mut self) {
        self.own.endpoints.epoch = self.own.endpoints.epoch.wrapping_add(1);
        self.own.endpoints.encoded = None;
        self.own.endpoints.includes = None;
    }

    /// Encodes the list as of the end of a heartbeat: `member` is its sender in the new state, and
    /// `number` the sender's slot. The member that the sender replaces is left out.
    pub(super) fn encode_endpoints(
        &mut self,
        turn: &Turn<'_, '_>,
        number: u32,
        member: &Member,
        replaces: Option<u32>,
    ) {
        if self.own.endpoints.encoded.is_some() {
            return;
        }
        let others = self.members.iter();
        let others = others.filter(|(it, _)| *it != number && Some(*it) != replaces);
        let members = others.map(|(_, other)| other).chain([member]);
        let list: Vec<_> = members.filter_map(|it| self.partitions_of(turn, it)).collect();
        self.own.endpoints.encoded = Some(PartitionsByEndpoint::new(&list));
        self.own.endpoints.includes = Some(number);
    }

    fn partitions_of(
        &self,
        turn: &Turn<'_, '_>,
        member: &Member,
    ) -> Option<StreamsGroupEndpointPartitions<'static>> {
        let endpoint = member.profile.endpoint.as_ref()?;
        Some(StreamsGroupEndpointPartitions {
            user_endpoint: endpoint.to_message(),
            active_partitions: self.read_by(turn, member, |role| role == Role::Active),
            standby_partitions: self.read_by(turn, member, |role| role != Role::Active),
        })
    }

    /// The existing partitions that the member's tasks read, in the roles for which `is_meant`
    /// holds.
    fn read_by(
        &self,
        turn: &Turn<'_, '_>,
        member: &Member,
        is_meant: impl Fn(Role) -> bool,
    ) -> Vec<StreamsGroupTopicPartitions<'static>> {
        let configured = self.own.configured.as_ref().map(|it| &it.topology);
        let Some(topology) = configured.or(self.own.topology.as_ref()) else { return Vec::new() };
        let tasks = member.current.assigned.by_key().iter().filter(|it| is_meant(it.key.role));
        let mut by_subtopology: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
        for of_key in tasks {
            let partitions = of_key.partitions.iter().map(|it| it.partition);
            by_subtopology.entry(&of_key.key.subtopology).or_default().extend(partitions);
        }
        let mut read = Vec::new();
        for (subtopology, partitions) in by_subtopology {
            let all = topology.0.subtopologies.iter();
            let of = all.filter(|it| *it.subtopology_id == *subtopology).take(1);
            let names: BTreeSet<&str> = of.flat_map(sources).collect();
            for name in names {
                let count = turn.topics.partitions(name).unwrap_or(0);
                let partitions: Vec<i32> = partitions.range(0..count).copied().collect();
                if !partitions.is_empty() {
                    read.push(StreamsGroupTopicPartitions { topic: text(name), partitions });
                }
            }
        }
        read
    }
}
