//! Static members (KIP-345): a member with an instance id takes over the assignment of the previous
//! member with that id. Consumer and streams groups have static members.

use super::heartbeat::Existing;
use super::kind::{HeartbeatFields, Kind};
use super::member::{Current, CurrentOf, Member, MemberOf};
use super::owned::{Key, Owned};
use super::validate::{JOIN, unknown_member, validate_epoch};
use super::{Draft, Group, Refusal, refuse};
use crate::text::Text;
use hashbrown::HashMap;
use muster_codec::ErrorCode;

/// The member epoch of a static member that leaves temporarily.
pub(crate) const LEAVE_STATIC: i32 = -2;

/// The member ids of the static members of a group, by instance id.
#[derive(Debug, Default)]
pub(crate) struct StaticMembers(HashMap<Text, Text>);

impl StaticMembers {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn member_id(&self, instance_id: &str) -> Option<&Text> {
        self.0.get(instance_id)
    }

    pub(crate) fn has(&self, instance_id: Option<&str>) -> bool {
        instance_id.is_some_and(|it| self.0.contains_key(it))
    }

    /// Notes the member id of an instance id. Does nothing for a dynamic member.
    pub(crate) fn add(&mut self, instance_id: Option<&Text>, member_id: &Text) {
        if let Some(instance_id) = instance_id {
            self.0.insert(instance_id.clone(), member_id.clone());
        }
    }

    /// Forgets an instance id, unless another member has taken it over.
    pub(crate) fn remove(&mut self, instance_id: Option<&Text>, member_id: &str) {
        if let Some(instance_id) = instance_id
            && self.0.get(instance_id).is_some_and(|it| **it == *member_id)
        {
            self.0.remove(instance_id);
        }
    }
}

/// A kind of group that has static members.
pub(crate) trait HasStatic: Kind {
    fn static_members(&self) -> &StaticMembers;

    fn instance_id<'h>(heartbeat: &'h Self::Heartbeat<'_>) -> Option<&'h str>;

    /// Whether another client may take the member's place at any time.
    fn is_always_released(profile: &Self::Profile) -> bool;
}

impl<K: HasStatic> Group<K> {
    /// The member that sent a heartbeat. Checks the epoch in the heartbeat.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID.
    pub(crate) fn existing(
        &self,
        draft: &mut Draft<'_>,
        heartbeat: &K::Heartbeat<'_>,
    ) -> Result<Existing<K>, Refusal> {
        let (member_id, instance_id) = (heartbeat.member_id(), K::instance_id(heartbeat));
        if heartbeat.member_epoch() != JOIN {
            let existing = self.staying(member_id, instance_id)?;
            let reported = K::reported(heartbeat);
            validate_epoch(&existing.before.current, heartbeat.member_epoch(), reported)?;
            return Ok(existing);
        }
        match instance_id {
            Some(instance_id) => {
                self.released(instance_id)?;
                Ok(self.joining_static(draft, member_id, instance_id))
            }
            None => Ok(self.joining(member_id)),
        }
    }

    /// The member that sent a heartbeat other than a join.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn staying(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<Existing<K>, Refusal> {
        let before = self.known(member_id, instance_id)?.clone();
        Ok(Existing { before, replaces: None })
    }

    /// A static member that joins. If another member has its instance id, the joining member takes
    /// over that member's assignment.
    pub(crate) fn joining_static(
        &self,
        draft: &mut Draft<'_>,
        member_id: &str,
        instance_id: &str,
    ) -> Existing<K> {
        let Some((former_id, former)) = self.static_member(instance_id) else {
            return self.joining(member_id);
        };
        let current = Current { epoch: 0, previous_epoch: 0, ..former.current.clone() };
        let before = Member { current, profile: former.profile.clone() };
        self.replace(draft, former_id, member_id, &before);
        Existing { before, replaces: Some(former_id.clone()) }
    }

    fn replace(
        &self,
        draft: &mut Draft<'_>,
        former_id: &str,
        member_id: &str,
        member: &MemberOf<K>,
    ) {
        let target = self.members.slot_number(former_id).map(|number| self.target.of(number));
        draft.extend(Self::member_tombstones(&self.id, former_id));
        draft.push(K::member_record(&self.id, member_id, &member.profile));
        draft.push(K::target_record(&self.id, member_id, target.unwrap_or_default()));
        draft.push(K::current_record(&self.id, member_id, &member.current));
    }

    /// The member that sent a request other than a join.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn known(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<&MemberOf<K>, Refusal> {
        let Some(instance_id) = instance_id else {
            let member = self.members.get(member_id);
            return member.map_or_else(unknown_member, Ok);
        };
        match self.static_member(instance_id) {
            None => refuse(ErrorCode::UnknownMemberId, "No member has this instance id."),
            Some((holder, _)) if **holder != *member_id => {
                refuse(ErrorCode::FencedInstanceId, "Another member has this instance id.")
            }
            Some((_, member)) => Ok(member),
        }
    }

    /// The member that a leave request removes. None for a static member that leaves temporarily;
    /// its record is added to `draft`.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    pub(crate) fn leaving(
        &self,
        draft: &mut Draft<'_>,
        heartbeat: &K::Heartbeat<'_>,
    ) -> Result<Option<u32>, Refusal> {
        let member_id = heartbeat.member_id();
        let member = self.known(member_id, K::instance_id(heartbeat))?;
        if heartbeat.member_epoch() == LEAVE_STATIC {
            let left: CurrentOf<K> = left_for_a_while(&member.current);
            draft.push(K::current_record(&self.id, member_id, &left));
            return Ok(None);
        }
        self.members.slot_number(member_id).map_or_else(unknown_member, |it| Ok(Some(it)))
    }

    /// Checks whether the instance id may be taken over.
    ///
    /// # Errors
    /// UNRELEASED_INSTANCE_ID if the member with the instance id has not left.
    fn released(&self, instance_id: &str) -> Result<(), Refusal> {
        let is_released = |member: &MemberOf<K>| {
            K::is_always_released(&member.profile) || member.current.epoch == LEAVE_STATIC
        };
        match self.static_member(instance_id) {
            Some((_, member)) if !is_released(member) => {
                refuse(ErrorCode::UnreleasedInstanceId, "A member still uses this instance id.")
            }
            _ => Ok(()),
        }
    }

    /// The member with an instance id, and its member id.
    pub(crate) fn static_member(&self, instance_id: &str) -> Option<(&Text, &MemberOf<K>)> {
        let member_id = self.own.static_members().member_id(instance_id)?;
        Some((member_id, self.members.get(member_id)?))
    }

    /// Whether the sender of a request is a member, or has the instance id of a static member.
    pub(crate) fn has_sender(&self, member_id: &str, instance_id: Option<&str>) -> bool {
        self.members.get(member_id).is_some() || self.own.static_members().has(instance_id)
    }

    /// The slot of a member's target: its own slot, or the slot of the member with its instance id.
    pub(crate) fn slot_of_target(
        &self,
        number: Option<u32>,
        instance_id: Option<&str>,
    ) -> Option<u32> {
        let Some(instance_id) = instance_id else { return number };
        let holder = self.own.static_members().member_id(instance_id);
        holder.and_then(|member_id| self.members.slot_number(member_id))
    }
}

/// The current assignment of a static member after it has left temporarily. The member keeps its
/// partitions. As in Kafka, their epochs are reset; commits are compared with these epochs.
fn left_for_a_while<P: Key>(current: &Current<P>) -> Current<P> {
    Current {
        epoch: LEAVE_STATIC,
        assigned: current.assigned.with_epochs_reset(),
        revoking: Owned::default(),
        ..current.clone()
    }
}
