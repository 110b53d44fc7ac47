//! Members of a classic group that becomes one of another protocol, or was one.

use super::member::{Identity, Member, Protocol};
use super::state::State;
use super::{CONSUMER, ClassicGroup};
use crate::text::{Blob, Text, owned_bytes};
use crate::turn::Turn;
use alloc::vec::Vec;
use muster_codec::records::{GroupMetadataKey, GroupRecord};
use muster_codec::{ErrorCode, Str, Wall};

/// A member, as far as it stays the same under another protocol.
#[derive(Debug, Clone)]
pub(crate) struct MovedMember {
    pub(crate) identity: Identity,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Blob,
}

impl ClassicGroup {
    pub(crate) fn len(&self) -> usize {
        self.roster.len()
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

    /// All members, in order.
    pub(crate) fn moved_members(&self) -> Vec<MovedMember> {
        let members = self.roster.iter().map(|member| MovedMember {
            identity: member.identity.clone(),
            protocols: member.protocols.clone(),
            assignment: member.assignment.clone(),
        });
        members.collect()
    }

    /// Answers all that is parked: who waits has to start anew, with a group of another protocol.
    pub(crate) fn dismiss_all(&mut self, turn: &mut Turn<'_, '_>) {
        for member_id in self.roster.ids() {
            if let Some(parked) = self.roster.take_parked_join(&member_id) {
                parked.refuse_join(turn, ErrorCode::RebalanceInProgress, &member_id);
            }
            let parked = self.roster.get_mut(&member_id).and_then(|it| it.parked_sync.take());
            if let Some(parked) = parked {
                parked.refuse_sync(turn, ErrorCode::RebalanceInProgress);
            }
        }
    }

    /// A stable group of consumers; the first member leads. `assign` gives each its assignment, from
    /// its metadata for the protocol that they vote for. None if they agree on none.
    pub(crate) fn of_consumers(
        turn: &mut Turn<'_, '_>,
        id: Text,
        generation: i32,
        members: Vec<MovedMember>,
        assign: impl Fn(&str, &[u8]) -> Blob,
    ) -> Option<Self> {
        let mut group = Self::new(id, turn.wall);
        for moved in members {
            group.roster.insert(Member::new(moved.identity, moved.protocols));
        }
        let protocol = group.roster.vote()?;
        group.roster.for_each(|member| {
            let metadata = member.metadata(&protocol).cloned().unwrap_or_default();
            member.assignment = assign(&member.identity.member_id, &metadata);
        });
        group.state = State::Stable;
        group.generation = generation;
        group.protocol_type = Some(Text::from(CONSUMER));
        group.protocol = Some(protocol);
        group.subscribed_topics = group.subscriptions_topics();
        for member_id in group.roster.ids() {
            group.restart_session(turn, &member_id);
        }
        Some(group)
    }

    /// Has everyone join anew.
    pub(crate) fn rebalance(&mut self, turn: &mut Turn<'_, '_>) {
        self.prepare_rebalance(turn);
    }

    /// The record of a group that another became; its replay changes nothing more.
    pub(crate) fn moved_record(&mut self, wall: Wall) -> GroupRecord<'static> {
        let value = self.record(|member| owned_bytes(&member.assignment));
        self.writing_since = Some(wall);
        let key = GroupMetadataKey { group: Str::Owned(self.id.as_ref().into()) };
        GroupRecord::GroupMetadata(key, Some(value))
    }
}
