//! Conversion of a classic group's members to and from another protocol.

use super::ClassicGroup;
use super::member::{Identity, Member, Protocol};
use super::rebalance::is_too_large;
use super::state::State;
use crate::text::{Blob, Text, owned_bytes};
use crate::turn::Turn;
use alloc::vec::Vec;
use muster_codec::consumer_protocol::PROTOCOL_TYPE;
use muster_codec::records::{GroupMetadataKey, GroupRecord};
use muster_codec::{ErrorCode, Str, Wall};

/// The part of a member that a migration keeps.
#[derive(Debug, Clone)]
pub(crate) struct MigratedMember {
    pub(crate) identity: Identity,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Blob,
}

impl ClassicGroup {
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn generation(&self) -> i32 {
        self.generation
    }

    pub(crate) fn protocol(&self) -> Option<&Text> {
        self.protocol.as_ref()
    }

    pub(crate) fn is_of_consumers(&self) -> bool {
        self.uses_consumer_protocol()
    }

    /// All members, in Kafka's order of iteration.
    pub(crate) fn migrated_members(&self) -> Vec<MigratedMember> {
        let members = self.members.iter().map(|member| MigratedMember {
            identity: member.identity.clone(),
            protocols: member.protocols.clone(),
            assignment: member.assignment.clone(),
        });
        members.collect()
    }

    /// Answers all parked requests with errors, because the group is removed or converted.
    pub(crate) fn dismiss_all(&mut self, turn: &mut Turn<'_, '_>, error: ErrorCode) {
        for member_id in self.members.ids() {
            if let Some(parked) = self.members.take_parked_join(&member_id) {
                parked.refuse_join(turn, error, &member_id);
            }
            let parked = self.members.get_mut(&member_id).and_then(|it| it.parked_sync.take());
            if let Some(parked) = parked {
                parked.refuse_sync(turn, error);
            }
        }
    }

    /// A stable group of consumers, led by the first member. `assign` gets a member's id and its
    /// metadata for the elected protocol, and returns the member's assignment. None if the members
    /// have no protocol in common.
    pub(crate) fn of_consumers(
        turn: &mut Turn<'_, '_>,
        id: Text,
        generation: i32,
        members: Vec<MigratedMember>,
        assign: impl Fn(&str, &[u8]) -> Blob,
    ) -> Option<Self> {
        let mut group = Self::new(id, turn.wall);
        for migrated in members {
            group.members.insert(Member::new(migrated.identity, migrated.protocols));
        }
        let protocol = group.members.vote()?;
        group.members.for_each(|member| {
            let metadata = member.metadata(&protocol).cloned().unwrap_or_default();
            member.assignment = assign(&member.identity.member_id, &metadata);
        });
        group.state = State::Stable;
        group.generation = generation;
        group.protocol_type = Some(Text::from(PROTOCOL_TYPE));
        group.protocol = Some(protocol);
        group.subscribed_topics = group.subscriptions_topics();
        for member_id in group.members.ids() {
            group.restart_session(turn, &member_id);
        }
        Some(group)
    }

    /// Makes all members join again.
    pub(crate) fn rebalance(&mut self, turn: &mut Turn<'_, '_>) {
        self.prepare_rebalance(turn);
    }

    /// The record of a converted group. Its replay changes no volatile state. None if the record is
    /// too large.
    pub(crate) fn migrated_record(&mut self, wall: Wall) -> Option<GroupRecord<'static>> {
        let value = self.record(|member| owned_bytes(&member.assignment));
        if is_too_large(&value) {
            return None;
        }
        self.writing_since = Some(wall);
        let key = GroupMetadataKey { group: Str::Owned(self.id.as_ref().into()) };
        Some(GroupRecord::GroupMetadata(key, Some(value)))
    }
}
