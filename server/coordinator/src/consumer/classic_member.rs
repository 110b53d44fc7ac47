//! Members of a consumer group that still use the classic protocol: they join, sync and heartbeat
//! as ever, and the server assigns.

use super::member::{Classic, Member, Profile};
use super::validate::unknown_member;
use super::{ConsumerGroup, Draft, Refusal, records};
use crate::modern::owned::{Owned, Partitions};
use crate::modern::reconcile::Current;
use crate::modern::state::MemberState;
use crate::text::Text;
use crate::timers::TimerKey;
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::ErrorCode;

/// The protocol type of consumers.
pub(crate) const CONSUMER: &str = "consumer";

/// A member of a classic group that becomes a consumer group.
pub(crate) struct Immigrant {
    pub(crate) id: Text,
    pub(crate) profile: Profile,
    pub(crate) assigned: Partitions,
}

impl ConsumerGroup {
    /// A group of members that were in a classic one, in its generation, with its records.
    pub(crate) fn of_classic(
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        id: Text,
        generation: i32,
        members: Vec<Immigrant>,
    ) -> Self {
        let names: BTreeSet<&Text> = members.iter().flat_map(|it| &*it.profile.topics).collect();
        let hash = turn.hashes.of_group(turn.topics, names.into_iter());
        let settled: Vec<(Text, Member, Partitions)> =
            members.into_iter().map(|it| settled(it, generation)).collect();
        let mut records: Draft<'static> = Vec::new();
        let each = settled.iter();
        records
            .extend(each.clone().map(|(it, member, _)| records::member_metadata(&id, it, member)));
        records.push(records::group_epoch(&id, generation, hash));
        records
            .extend(each.clone().map(|(it, _, target)| records::target(&id, it, target.clone())));
        records.push(records::target_metadata(&id, generation, 0));
        records.extend(each.map(|(it, member, _)| records::current(&id, it, &member.current)));
        let mut group = Self::new(id);
        for record in records {
            group.replay(turn.timers, &record);
            draft.push(record);
        }
        for (member_id, member, _) in &settled {
            let timeout_ms = member.profile.classic.as_ref().map(|it| it.session_timeout_ms);
            if let (Some(number), Some(ms)) = (group.roster.seat_number(member_id), timeout_ms) {
                group.start_session(turn, number, ms);
            }
        }
        group
    }

    /// Whether members that offer these protocols can be in the group.
    pub(crate) fn supports<'n>(
        &self,
        protocol_type: &str,
        mut protocols: impl Iterator<Item = &'n str>,
    ) -> bool {
        let is_common = |name: &str| {
            self.classic_protocols.get(name).copied().unwrap_or(0) == self.classic_members
        };
        protocol_type == CONSUMER && protocols.any(|name| self.is_empty() || is_common(name))
    }

    /// Whether all members use the classic protocol, but for those that go.
    pub(crate) fn is_classic_without(&self, going: &[u32]) -> bool {
        let members = going.iter().filter_map(|it| self.roster.seat(*it)?.member.as_ref());
        let classic = members.filter(|member| member.is_classic()).count();
        self.classic_members - classic == self.roster.len() - going.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.roster.len()
    }

    /// The classic member of a request, with its seat.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn classic_member(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(u32, &Member, &Classic), Refusal> {
        let member = self.known(member_id, instance_id)?;
        match (self.roster.seat_number(member_id), &member.profile.classic) {
            (Some(number), Some(classic)) => Ok((number, member, classic)),
            _ => unknown_member(),
        }
    }

    /// Heartbeat of a classic member.
    ///
    /// # Errors
    /// Those of [`Self::classic_member`], ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS if it has to
    /// join again.
    pub(crate) fn classic_heartbeat(
        &mut self,
        turn: &mut Turn<'_, '_>,
        (member_id, instance_id): (&str, Option<&str>),
        generation: i32,
    ) -> Result<(), ErrorCode> {
        let found = self.classic_member(member_id, instance_id);
        let (number, member, classic) = found.map_err(|refusal| refusal.error)?;
        if member.current.epoch != generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let current = &member.current;
        let must_join = current.epoch < self.target.epoch
            || current.state == MemberState::UnrevokedPartitions
            || current.state == MemberState::UnreleasedPartitions && !self.waits(number, current);
        let (session_ms, join_ms) =
            (classic.session_timeout_ms, member.profile.rebalance_timeout_ms);
        self.start_session(turn, number, session_ms);
        if must_join {
            self.expect_join(turn, number, join_ms);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// Whether a partition that the member is to own still has another owner.
    fn waits(&self, number: u32, current: &Current) -> bool {
        self.target.of(number).iter().any(|topic| {
            topic.partitions.iter().any(|it| {
                !current.assigned.contains(topic.topic_id, *it)
                    && self.owners.is_owned(topic.topic_id, *it)
            })
        })
    }

    /// Sync of a classic member: what it owns now.
    ///
    /// # Errors
    /// Those of [`Self::classic_member`], ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL;
    /// REBALANCE_IN_PROGRESS if it has to join again.
    pub(crate) fn classic_sync(
        &mut self,
        turn: &mut Turn<'_, '_>,
        (member_id, instance_id): (&str, Option<&str>),
        generation: i32,
        (protocol_type, protocol): (Option<&str>, Option<&str>),
    ) -> Result<&Member, ErrorCode> {
        let found = self.classic_member(member_id, instance_id);
        let (number, member, classic) = found.map_err(|refusal| refusal.error)?;
        let own = classic.protocols.first().map(|(name, _)| &**name);
        if member.current.epoch != generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if protocol_type.is_some_and(|it| it != CONSUMER)
            || protocol.is_some_and(|it| Some(it) != own)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let (session_ms, join_ms) =
            (classic.session_timeout_ms, member.profile.rebalance_timeout_ms);
        if self.target.epoch > member.current.epoch
            && member.current.state != MemberState::UnrevokedPartitions
        {
            self.expect_join(turn, number, join_ms);
            return Err(ErrorCode::RebalanceInProgress);
        }
        if let Some(seat) = self.roster.seat_mut(number) {
            turn.timers.cancel(&mut seat.timers.sync);
        }
        self.start_session(turn, number, session_ms);
        let member = self.roster.seat(number).and_then(|seat| seat.member.as_ref());
        member.ok_or(ErrorCode::UnknownMemberId)
    }

    /// A classic member joined: it has to sync next.
    pub(crate) fn classic_joined(
        &mut self,
        turn: &mut Turn<'_, '_>,
        number: u32,
        session_ms: i32,
        rebalance_ms: i32,
    ) {
        if let Some(seat) = self.roster.seat_mut(number) {
            turn.timers.cancel(&mut seat.timers.join);
        }
        self.start_session(turn, number, session_ms);
        let key = |group_id, member_id| TimerKey::MemberSync { group_id, member_id };
        self.start(turn, number, rebalance_ms, |timers| &mut timers.sync, key);
    }

    /// A classic member was told to join; the first time counts.
    fn expect_join(&mut self, turn: &mut Turn<'_, '_>, number: u32, timeout_ms: i32) {
        let is_expected = |it: &crate::modern::roster::Seat<Member>| it.timers.join.is_set();
        if !self.roster.seat(number).is_some_and(is_expected) {
            let key = |group_id, member_id| TimerKey::MemberJoin { group_id, member_id };
            self.start(turn, number, timeout_ms, |timers| &mut timers.join, key);
        }
    }

    /// The members, in the order of Kafka's hash table, but for those that go.
    pub(crate) fn members_without(
        &self,
        going: &[u32],
    ) -> impl Iterator<Item = (u32, &Text, &Member)> {
        let numbers = self.roster.numbers_by_slot().into_iter();
        let staying = numbers.filter(|number| !going.contains(number));
        let seats = staying.filter_map(|number| Some((number, self.roster.seat(number)?)));
        seats.filter_map(|(number, seat)| Some((number, &seat.id, seat.member.as_ref()?)))
    }

    /// What a member is to own.
    pub(crate) fn target_of(&self, number: u32) -> Partitions {
        self.target.of(number)
    }

    pub(crate) fn member_id(&self, number: u32) -> Option<&str> {
        self.roster.seat(number).map(|seat| &*seat.id)
    }

    /// The static member with that instance, if it is the only one of the consumer protocol.
    pub(crate) fn replaceable(&self, instance_id: Option<&str>) -> Option<u32> {
        let (member_id, member) = self.static_member(instance_id?)?;
        let is_last = !member.is_classic() && self.classic_members + 1 == self.roster.len();
        self.roster.seat_number(member_id).filter(|_| is_last)
    }

    /// Whom a LeaveGroup is about; a static member may be named by its instance alone.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn going(&self, member_id: &str, instance_id: Option<&str>) -> Result<u32, Refusal> {
        let holder = match instance_id {
            Some(instance_id) if member_id.is_empty() => {
                self.static_member(instance_id).map(|(holder, _)| &**holder)
            }
            _ => self.known(member_id, instance_id).map(|_| Some(member_id))?,
        };
        let number = holder.and_then(|holder| self.roster.seat_number(holder));
        number.map_or_else(unknown_member, Ok)
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target.epoch
    }
}

/// A member that owns what it did, since the generation that is its epoch now.
fn settled(immigrant: Immigrant, generation: i32) -> (Text, Member, Partitions) {
    let current = Current {
        epoch: generation,
        previous_epoch: generation,
        state: MemberState::Stable,
        assigned: Owned::since(&immigrant.assigned, generation),
        revoking: Owned::default(),
    };
    (immigrant.id, Member { profile: immigrant.profile, current }, immigrant.assigned)
}
