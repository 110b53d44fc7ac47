//! JoinGroup.
//!
//! - v4: a new dynamic member gets MEMBER_ID_REQUIRED and a member id, and joins again with it
//!   (KIP-394). Before v4 it joins at once.
//! - v5: static members (KIP-345). v9: `skip_assignment`.

use super::member::{Identity, Member, Protocol, keep};
use super::parked::Parked;
use super::state::State;
use super::{ClassicGroup, schedule_session};
use crate::client::Client;
use crate::config::Config;
use crate::context::Ids;
use crate::event::Cause;
use crate::limits::{
    GROUP_MEMBERS_MAX, GROUP_PENDING_MEMBERS_MAX, GROUP_PROTOCOLS_BYTES_MAX, MEMBER_NAME_BYTES_MAX,
    MEMBER_PROTOCOLS_BYTES_MAX, MEMBER_PROTOCOLS_MAX,
};
use crate::text::{Text, owned, owned_bytes, prefix};
use crate::timers::{Timer, TimerKey};
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::consumer_protocol::ConsumerProtocolSubscription;
use muster_codec::messages::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember,
};

/// The time after which the parked JoinGroup of a new member ends. The client has no member id yet,
/// so it may have disappeared unnoticed (`CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS` in Kafka).
const NEW_MEMBER_JOIN_TIMEOUT_MS: i64 = 5 * 60 * 1_000;

/// From this version on, a dynamic member must join with a member id from the coordinator.
const MEMBER_ID_REQUIRED_FROM: i16 = 4;

/// A JoinGroup with the client that sent it.
pub(crate) struct Joining<'j> {
    pub(crate) parked: Parked,
    pub(crate) client: Client<'j>,
    pub(crate) request: JoinGroupRequest<'j>,
    pub(crate) ids: &'j mut dyn Ids,
}

impl<'j> Joining<'j> {
    /// Version 0 has no rebalance timeout: the session timeout replaces it.
    pub(crate) fn new(
        parked: Parked,
        client: Client<'j>,
        mut request: JoinGroupRequest<'j>,
        ids: &'j mut dyn Ids,
    ) -> Self {
        if parked.api_version == 0 {
            request.rebalance_timeout_ms = request.session_timeout_ms;
        }
        Self { parked, client, request, ids }
    }

    /// The error of a request that is invalid for any group.
    pub(crate) fn refusal(&self, config: &Config) -> Option<ErrorCode> {
        let sessions = config.group_min_session_timeout_ms..=config.group_max_session_timeout_ms;
        if self.request.group_id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else if !sessions.contains(&self.request.session_timeout_ms) {
            Some(ErrorCode::InvalidSessionTimeout)
        } else if self.request.protocols.len() > MEMBER_PROTOCOLS_MAX {
            Some(ErrorCode::InconsistentGroupProtocol)
        } else {
            let is_too_large = self.protocols_bytes() > MEMBER_PROTOCOLS_BYTES_MAX;
            is_too_large.then_some(ErrorCode::UnknownServerError)
        }
    }

    /// Whether a dynamic member without an id must get one, and join again with it (KIP-394).
    pub(crate) fn requires_member_id(&self) -> bool {
        self.parked.api_version >= MEMBER_ID_REQUIRED_FROM
            && self.request.group_instance_id.is_none()
    }

    /// Owned copies of the protocols that the member offers.
    pub(crate) fn protocols(&self) -> Vec<Protocol> {
        keep(&self.request.protocols)
    }

    fn protocols_bytes(&self) -> usize {
        self.request.protocols.iter().map(|it| it.name.len() + it.metadata.len()).sum()
    }

    /// An estimate of [`Member::bytes`] for the new member. The client id and the instance id count
    /// twice, because a new member id begins with one of them.
    fn bytes(&self) -> usize {
        let instance_id = self.request.group_instance_id.as_ref().map_or(0, |it| it.len());
        let texts = 2 * (self.client.id.len() + instance_id) + self.client.host.len();
        texts + self.protocols_bytes()
    }

    pub(crate) fn refuse(&self, turn: &mut Turn<'_, '_>, error: ErrorCode) {
        turn.refused(self.client, error);
        self.parked.refuse_join(turn, error, &self.request.member_id);
    }

    /// Answers an error without a member id, so that the client joins as a new member.
    pub(crate) fn refuse_member(&self, turn: &mut Turn<'_, '_>, error: ErrorCode) {
        self.parked.refuse_join(turn, error, "");
    }

    fn new_member_id(&mut self) -> Text {
        let name = self.request.group_instance_id.as_deref().unwrap_or(self.client.id);
        let name = prefix(name, MEMBER_NAME_BYTES_MAX);
        let uuid = u128::from_be_bytes(self.ids.next_id().0);
        let [a, b, c, d] = [uuid >> 96, uuid >> 80, uuid >> 64, uuid >> 48];
        let (b, c, d, e) = (b as u16, c as u16, d as u16, uuid & 0xffff_ffff_ffff);
        Text::from(format!("{name}-{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"))
    }
}

impl ClassicGroup {
    /// Answers a JoinGroup, or parks it until the join phase ends.
    pub(crate) fn join(&mut self, turn: &mut Turn<'_, '_>, joining: Joining<'_>) {
        let request = &joining.request;
        let member_id = &*request.member_id;
        if !self.has_room_for(turn.config, member_id) {
            self.remove_member(turn, member_id);
            self.forget_pending_join(turn, member_id);
            joining.refuse_member(turn, ErrorCode::GroupMaxSizeReached);
        } else if !self.supports(&request.protocol_type, request) {
            joining.refuse(turn, ErrorCode::InconsistentGroupProtocol);
        } else if self.bytes_with(&joining) > GROUP_PROTOCOLS_BYTES_MAX {
            joining.refuse(turn, ErrorCode::UnknownServerError);
        } else if !turn.members.take_for(joining.client.host, self.bytes_added_by(&joining)) {
            joining.refuse(turn, ErrorCode::CoordinatorNotAvailable);
        } else if member_id.is_empty() {
            self.join_new_member(turn, joining);
        } else if self.pending_joins.contains_key(member_id) {
            self.join_pending_member(turn, joining);
        } else {
            self.join_member(turn, joining);
        }
    }

    /// Whether the group may have another member. In the join phase only the members that have
    /// joined count. So if `group.max.size` was lowered, the last members to join are refused.
    fn has_room_for(&self, config: &Config, member_id: &str) -> bool {
        let max = usize::try_from(config.group_max_size).unwrap_or(0).min(GROUP_MEMBERS_MAX);
        let member = self.members.get(member_id);
        match self.state {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                member.is_some_and(|it| it.parked_join.is_some())
                    || self.members.parked_joins() < max
            }
            State::CompletingRebalance | State::Stable => {
                member.is_some() || self.members.len() < max
            }
        }
    }

    fn supports(&self, protocol_type: &str, request: &JoinGroupRequest<'_>) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !request.protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && self.members.all_offer_one_of(&request.protocols)
    }

    /// The bytes of all members after `joining` is added.
    fn bytes_with(&self, joining: &Joining<'_>) -> usize {
        self.members.member_bytes() - self.bytes_before(joining) + joining.bytes()
    }

    fn bytes_added_by(&self, joining: &Joining<'_>) -> usize {
        joining.bytes().saturating_sub(self.bytes_before(joining))
    }

    fn bytes_before(&self, joining: &Joining<'_>) -> usize {
        self.members.get(&joining.request.member_id).map_or(0, Member::bytes)
    }

    fn join_new_member(&mut self, turn: &mut Turn<'_, '_>, mut joining: Joining<'_>) {
        let member_id = joining.new_member_id();
        let instance_id = joining.request.group_instance_id.as_deref();
        let replaced = instance_id.and_then(|it| self.members.static_member_id(it)).cloned();
        let is_dynamic = instance_id.is_none();
        if let Some(replaced) = replaced {
            self.replace_static_member(turn, joining, &replaced, member_id);
        } else if is_dynamic && joining.parked.api_version >= MEMBER_ID_REQUIRED_FROM {
            self.require_member_id(turn, joining, member_id);
        } else {
            self.add_member(turn, joining, member_id);
        }
    }

    /// Asks the client to join again with a member id. The client's second JoinGroup shows that
    /// this answer arrived (KIP-394).
    fn require_member_id(
        &mut self,
        turn: &mut Turn<'_, '_>,
        joining: Joining<'_>,
        member_id: Text,
    ) {
        if self.pending_joins.len() >= GROUP_PENDING_MEMBERS_MAX {
            return joining.refuse_member(turn, ErrorCode::GroupMaxSizeReached);
        }
        let mut timer = Timer::default();
        let at = turn.now.saturating_add(i64::from(joining.request.session_timeout_ms));
        turn.timers.schedule(&mut timer, at, || TimerKey::Session {
            group_id: self.id.clone(),
            member_id: member_id.clone(),
        });
        joining.parked.refuse_join(turn, ErrorCode::MemberIdRequired, &member_id);
        self.pending_joins.insert(member_id, timer);
    }

    fn join_pending_member(&mut self, turn: &mut Turn<'_, '_>, joining: Joining<'_>) {
        if joining.request.group_instance_id.is_some() {
            // No client does this: a static member joins without a member id. Kafka fails here with
            // an unexpected exception.
            return joining.refuse_member(turn, ErrorCode::UnknownServerError);
        }
        let member_id = Text::from(&*joining.request.member_id);
        self.add_member(turn, joining, member_id);
    }

    fn add_member(&mut self, turn: &mut Turn<'_, '_>, joining: Joining<'_>, member_id: Text) {
        turn.joined(&member_id);
        let request = &joining.request;
        let mut member = Member::new(
            Identity {
                member_id: member_id.clone(),
                instance_id: request.group_instance_id.as_deref().map(Text::from),
                client_id: Text::from(joining.client.id),
                client_host: Text::from(joining.client.host),
                rebalance_timeout_ms: request.rebalance_timeout_ms,
                session_timeout_ms: request.session_timeout_ms,
            },
            keep(&request.protocols),
        );
        member.is_new = true;
        member.parked_join = Some(joining.parked);
        member.heard_on = turn.connection;
        member.session = self.pending_joins.remove(&member_id).unwrap_or_default();
        schedule_session(turn, &self.id, &mut member, NEW_MEMBER_JOIN_TIMEOUT_MS);
        if self.members.is_empty() {
            self.protocol_type = Some(Text::from(&*request.protocol_type));
        }
        self.new_member_added |= self.is_in_initial_rebalance();
        self.members.insert(member);
        self.rebalance_or_complete_join(turn);
    }

    fn join_member(&mut self, turn: &mut Turn<'_, '_>, joining: Joining<'_>) {
        let request = &joining.request;
        let member_id = &*request.member_id;
        if let Err(error) = self.members.validated(member_id, request.group_instance_id.as_deref())
        {
            return joining.parked.refuse_join(turn, error, member_id);
        }
        let unchanged =
            self.members.get(member_id).is_some_and(|member| member.offers(&request.protocols));
        // If the leader of a stable group joins again, it requests a rebalance.
        let repeats = match self.state {
            State::CompletingRebalance => unchanged,
            State::Stable => unchanged && !self.members.is_leader(member_id),
            State::Empty | State::PreparingRebalance | State::Dead => false,
        };
        if repeats {
            let response = self.joined(member_id);
            return joining.parked.answer_join(turn, response);
        }
        if self.state != State::PreparingRebalance {
            turn.note_cause(self.cause_of(member_id, request), Some(member_id));
        }
        self.update_member(member_id, request);
        self.park_join(turn, member_id, joining.parked);
        self.rebalance_or_complete_join(turn);
    }

    /// The cause of the rebalance when a member joins again. It depends on whether the member's
    /// subscription has changed. Only topics are compared, because the metadata of a cooperative
    /// assignor also contain the owned partitions.
    fn cause_of(&self, member_id: &str, request: &JoinGroupRequest<'_>) -> Cause {
        let topics = |metadata: &[u8]| {
            ConsumerProtocolSubscription::read(metadata).map(|it| {
                it.topics.iter().map(|topic| Text::from(&**topic)).collect::<BTreeSet<_>>()
            })
        };
        let is_same = |member: &Member| {
            let mut pairs = member.protocols.iter().zip(&request.protocols);
            let is_same = |(old, new): (&Protocol, &JoinGroupRequestProtocol<'_>)| {
                *old.name == *new.name
                    && (*old.metadata == *new.metadata
                        || self.uses_consumer_protocol()
                            && topics(&old.metadata)
                                .is_ok_and(|old| Ok(old) == topics(&new.metadata)))
            };
            member.protocols.len() == request.protocols.len() && pairs.all(is_same)
        };
        let is_same = self.members.get(member_id).is_some_and(is_same);
        if is_same { Cause::Rejoined } else { Cause::Subscribed }
    }

    pub(super) fn update_member(&mut self, member_id: &str, request: &JoinGroupRequest<'_>) {
        self.members.set_protocols(member_id, keep(&request.protocols));
        if let Some(member) = self.members.get_mut(member_id) {
            member.identity.rebalance_timeout_ms = request.rebalance_timeout_ms;
            member.identity.session_timeout_ms = request.session_timeout_ms;
        }
    }

    /// Parks the JoinGroup of a member. If an older JoinGroup of the member is still parked, its
    /// client has left that connection; the older one is answered. In Kafka it waits for ever.
    pub(super) fn park_join(&mut self, turn: &mut Turn<'_, '_>, member_id: &str, parked: Parked) {
        if let Some(before) = self.members.park_join(member_id, parked) {
            before.refuse_join(turn, ErrorCode::RebalanceInProgress, member_id);
        }
    }

    pub(super) fn forget_pending_join(&mut self, turn: &mut Turn<'_, '_>, member_id: &str) -> bool {
        let timer = self.pending_joins.remove(member_id);
        timer.map(|mut timer| turn.timers.cancel(&mut timer)).is_some()
    }

    /// The answer to a member of the current generation. The answer to the leader lists all
    /// members.
    pub(super) fn joined(&self, member_id: &str) -> JoinGroupResponse<'static> {
        let is_leader = self.members.is_leader(member_id);
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.as_deref().map(owned),
            protocol_name: self.protocol.as_deref().map(owned),
            leader: self.members.leader().map(|it| owned(it)).unwrap_or_default(),
            member_id: owned(member_id),
            members: if is_leader { self.subscriptions() } else { Vec::new() },
            ..Default::default()
        }
    }

    fn subscriptions(&self) -> Vec<JoinGroupResponseMember<'static>> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|member| JoinGroupResponseMember {
            member_id: owned(&member.identity.member_id),
            group_instance_id: member.identity.instance_id.as_deref().map(owned),
            metadata: member.metadata(protocol).map(|it| owned_bytes(it)).unwrap_or_default(),
        });
        members.collect()
    }
}
