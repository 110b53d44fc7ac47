//! Members of a consumer group that use the classic protocol. They join, sync and heartbeat as in a
//! classic group, but the server assigns their partitions.

use super::member::{Classic, Current, Member, Profile};
use super::{Consumer, ConsumerGroup};
use crate::modern::heartbeat::Subscribed;
use crate::modern::kind::Kind as _;
use crate::modern::member::MemberState;
use crate::modern::members::{OwnTimers, Slot};
use crate::modern::owned::{Owned, Partitions};
use crate::modern::validate::unknown_member;
use crate::modern::{Draft, Refusal};
use crate::text::Text;
use crate::timers::{Timer, TimerKey, Timers};
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_codec::consumer_protocol::PROTOCOL_TYPE;
use muster_codec::messages::{
    ConsumerGroupHeartbeatTopicPartitions as Reported, HeartbeatRequest, SyncGroupRequest,
};

/// A member of a classic group while the group is converted to a consumer group.
pub(crate) struct MigratingMember {
    pub(crate) id: Text,
    pub(crate) profile: Profile,
    pub(crate) assigned: Partitions,
}

/// The additional timers of a member that uses the classic protocol.
#[derive(Debug, Default)]
pub(crate) struct ClassicTimers {
    /// The time within which the member must join after REBALANCE_IN_PROGRESS.
    join: Timer,
    /// The time within which the member must sync after it joined.
    sync: Timer,
}

impl OwnTimers for ClassicTimers {
    fn of(&mut self, key: &TimerKey) -> Option<&mut Timer> {
        match key {
            TimerKey::MemberJoin { .. } => Some(&mut self.join),
            TimerKey::MemberSync { .. } => Some(&mut self.sync),
            TimerKey::Session { .. }
            | TimerKey::Revocation { .. }
            | TimerKey::Join { .. }
            | TimerKey::PendingSync { .. }
            | TimerKey::Assignment { .. }
            | TimerKey::Expressions { .. }
            | TimerKey::Sweep
            | TimerKey::Deletion
            | TimerKey::Load => None,
        }
    }

    fn cancel(&mut self, timers: &mut Timers) {
        timers.cancel(&mut self.join);
        timers.cancel(&mut self.sync);
    }
}

impl ConsumerGroup {
    /// Converts a classic group. Its members stay in their generation. Their records are added to
    /// `draft`.
    pub(crate) fn of_classic(
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        id: Text,
        generation: i32,
        members: Vec<MigratingMember>,
    ) -> Self {
        let names: BTreeSet<&Text> = members.iter().flat_map(|it| &*it.profile.topics).collect();
        let hash = turn.hashes.of_group(turn.topics, names.into_iter());
        let settled: Vec<(Text, Member, Partitions)> =
            members.into_iter().map(|it| settled(it, generation)).collect();
        let mut records: Draft<'static> = Vec::new();
        let each = settled.iter();
        records.extend(
            each.clone().map(|(it, member, _)| Consumer::member_record(&id, it, &member.profile)),
        );
        records.push(Consumer::epoch_record(&id, generation, hash, &()));
        records.extend(
            each.clone().map(|(it, _, target)| Consumer::target_record(&id, it, target.clone())),
        );
        records.push(Consumer::target_epoch_record(&id, generation, 0));
        records
            .extend(each.map(|(it, member, _)| Consumer::current_record(&id, it, &member.current)));
        let mut group = Self::new(id);
        for record in records {
            group.replay(turn.timers, &record);
            draft.push(record);
        }
        for (member_id, member, _) in &settled {
            let timeout_ms = member.profile.classic.as_ref().map(|it| it.session_timeout_ms);
            if let (Some(number), Some(ms)) = (group.members.slot_number(member_id), timeout_ms) {
                group.start_session(turn, number, ms);
                // `start_session` noted the connection of the current request, but the request
                // came from another member.
                let slot = group.members.slot_mut(number);
                slot.into_iter().for_each(|slot| slot.timers.heard_on = None);
            }
        }
        group
    }

    /// Like [`Self::assign`], but without a new target. For a member that replaces another member
    /// and takes over its target.
    pub(crate) fn reconcile_to_last(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        subscribed: Subscribed<'_, Consumer>,
        reported: &[Reported],
    ) -> Result<Member, Refusal> {
        let Subscribed { member_id, mut after, is_changed, .. } = subscribed;
        let target = self.last_target(None, &after.profile);
        if let Some(next) = self.stepped(turn, &after, &target, is_changed, Some(reported))? {
            draft.push(Consumer::current_record(&self.id, member_id, &next));
            after.current = next;
        }
        Ok(after)
    }

    /// Whether a member that offers these protocols may join the group.
    pub(crate) fn supports<'n>(
        &self,
        protocol_type: &str,
        mut protocols: impl Iterator<Item = &'n str>,
    ) -> bool {
        let is_common = |name: &str| {
            self.own.classic_protocols.get(name).copied().unwrap_or(0) == self.own.classic_members
        };
        protocol_type == PROTOCOL_TYPE && protocols.any(|name| self.is_empty() || is_common(name))
    }

    /// Whether all members use the classic protocol, apart from the members `going`, which leave.
    pub(crate) fn is_classic_without(&self, going: &[u32]) -> bool {
        let members = going.iter().filter_map(|it| self.members.slot(*it)?.member.as_ref());
        let classic = members.filter(|member| member.is_classic()).count();
        self.own.classic_members - classic == self.members.len() - going.len()
    }

    /// The classic member that sent a request: the number of its slot, the member, and its
    /// properties of the classic protocol.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn classic_member(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(u32, &Member, &Classic), Refusal> {
        let member = self.known(member_id, instance_id)?;
        match (self.members.slot_number(member_id), &member.profile.classic) {
            (Some(number), Some(classic)) => Ok((number, member, classic)),
            _ => unknown_member(),
        }
    }

    /// Handles the heartbeat of a classic member.
    ///
    /// # Errors
    /// ILLEGAL_GENERATION, and the errors of [`Self::classic_member`]. REBALANCE_IN_PROGRESS if the
    /// member must join again.
    pub(crate) fn classic_heartbeat(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &HeartbeatRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let found = self.classic_member(&request.member_id, request.group_instance_id.as_deref());
        let (number, member, classic) = found.map_err(|refusal| refusal.error)?;
        if member.current.epoch != request.generation_id {
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

    /// Whether another member still owns a partition of the member's target.
    fn waits(&self, number: u32, current: &Current) -> bool {
        self.target.of(number).iter().any(|topic| {
            topic.partitions.iter().any(|it| {
                !current.assigned.contains(&topic.key, *it)
                    && self.own.owners.is_owned(topic.key, *it)
            })
        })
    }

    /// Handles the SyncGroup of a classic member. Returns the member, whose current assignment is
    /// the answer.
    ///
    /// # Errors
    /// ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, and the errors of [`Self::classic_member`].
    /// REBALANCE_IN_PROGRESS if the member must join again.
    pub(crate) fn classic_sync(
        &mut self,
        turn: &mut Turn<'_, '_>,
        request: &SyncGroupRequest<'_>,
    ) -> Result<&Member, ErrorCode> {
        let found = self.classic_member(&request.member_id, request.group_instance_id.as_deref());
        let (number, member, classic) = found.map_err(|refusal| refusal.error)?;
        let own = classic.protocols.first().map(|(name, _)| &**name);
        if member.current.epoch != request.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        if request.protocol_type.as_deref().is_some_and(|it| it != PROTOCOL_TYPE)
            || request.protocol_name.as_deref().is_some_and(|it| Some(it) != own)
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
        if let Some(slot) = self.members.slot_mut(number) {
            turn.timers.cancel(&mut slot.timers.own.sync);
        }
        self.start_session(turn, number, session_ms);
        let member = self.members.slot(number).and_then(|slot| slot.member.as_ref());
        member.ok_or(ErrorCode::UnknownMemberId)
    }

    /// Called when a classic member has joined. The member must sync next.
    pub(crate) fn classic_joined(
        &mut self,
        turn: &mut Turn<'_, '_>,
        number: u32,
        session_ms: i32,
        rebalance_ms: i32,
    ) {
        if let Some(slot) = self.members.slot_mut(number) {
            turn.timers.cancel(&mut slot.timers.own.join);
        }
        self.start_session(turn, number, session_ms);
        let key = |group_id, member_id| TimerKey::MemberSync { group_id, member_id };
        self.start(turn, number, rebalance_ms, |timers| &mut timers.own.sync, key);
    }

    /// Starts the timer within which a classic member must join, unless the timer runs already.
    fn expect_join(&mut self, turn: &mut Turn<'_, '_>, number: u32, timeout_ms: i32) {
        let is_expected = |it: &Slot<Consumer>| it.timers.own.join.is_set();
        if !self.members.slot(number).is_some_and(is_expected) {
            let key = |group_id, member_id| TimerKey::MemberJoin { group_id, member_id };
            self.start(turn, number, timeout_ms, |timers| &mut timers.own.join, key);
        }
    }

    /// The static member with this instance id, if it is the only member that uses the consumer
    /// protocol.
    pub(crate) fn replaceable(&self, instance_id: Option<&str>) -> Option<u32> {
        let (member_id, member) = self.static_member(instance_id?)?;
        let is_last = !member.is_classic() && self.own.classic_members + 1 == self.members.len();
        self.members.slot_number(member_id).filter(|_| is_last)
    }

    /// The member that a LeaveGroup removes. The request may name a static member by its instance
    /// id alone.
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
        let number = holder.and_then(|holder| self.members.slot_number(holder));
        number.map_or_else(unknown_member, Ok)
    }
}

/// Converts a migrating member to a stable member. `generation` is its member epoch, and the epoch
/// in which it got its partitions. Returns its id, the member, and the partitions.
fn settled(member: MigratingMember, generation: i32) -> (Text, Member, Partitions) {
    let current = Current {
        epoch: generation,
        previous_epoch: generation,
        state: MemberState::Stable,
        assigned: Owned::since(&member.assigned, generation),
        revoking: Owned::default(),
    };
    (member.id, Member { profile: member.profile, current }, member.assigned)
}
