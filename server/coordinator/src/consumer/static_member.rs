//! The member of a request: a dynamic one by its id, a static one by its instance id too, which it
//! takes over from its predecessor.

use super::member::{Current, Member, Profile};
use super::validate::LEAVE_STATIC;
use super::{Consumer, ConsumerGroup};
use crate::modern::heartbeat::Existing;
use crate::modern::kind::Kind as _;
use crate::modern::validate::{JOIN, unknown_member, validate_epoch};
use crate::modern::{Draft, Refusal, refuse};
use crate::text::Text;
use muster_codec::ErrorCode;
use muster_codec::messages::ConsumerGroupHeartbeatRequest;

impl ConsumerGroup {
    /// The member of a heartbeat; its epoch is checked.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID.
    pub(super) fn existing(
        &self,
        draft: &mut Draft<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<Existing<Consumer>, Refusal> {
        let (member_id, instance_id) = (&*request.member_id, request.instance_id.as_deref());
        if request.member_epoch != JOIN {
            let existing = self.staying(member_id, instance_id)?;
            let reported = request.topic_partitions.as_deref();
            validate_epoch(&existing.before.current, request.member_epoch, reported)?;
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

    /// An existing member.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn staying(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<Existing<Consumer>, Refusal> {
        let before = self.known(member_id, instance_id)?.clone();
        Ok(Existing { before, replaces: None })
    }

    /// A static member that joins. If its instance id is in use, it takes over the assignment.
    pub(crate) fn joining_static(
        &self,
        draft: &mut Draft<'_>,
        member_id: &str,
        instance_id: &str,
    ) -> Existing<Consumer> {
        let Some((former_id, former)) = self.static_member(instance_id) else {
            return self.joining(member_id);
        };
        let current = Current { epoch: 0, previous_epoch: 0, ..former.current.clone() };
        let before = Member { current, profile: former.profile.clone() };
        self.replace(draft, former_id, member_id, &before);
        Existing { before, replaces: Some(former_id.clone()) }
    }

    fn replace(&self, draft: &mut Draft<'_>, former_id: &str, member_id: &str, member: &Member) {
        let target = self.members.slot_number(former_id).map(|number| self.target.of(number));
        draft.extend(Self::member_tombstones(&self.id, former_id));
        draft.push(Consumer::member_record(&self.id, member_id, &member.profile));
        draft.push(Consumer::target_record(&self.id, member_id, target.unwrap_or_default()));
        draft.push(Consumer::current_record(&self.id, member_id, &member.current));
    }

    /// The member of a request that is not a join.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has the instance id.
    pub(crate) fn known(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<&Member, Refusal> {
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

    /// The member that a joining static member replaces.
    ///
    /// # Errors
    /// UNRELEASED_INSTANCE_ID if that member has not left.
    fn released(&self, instance_id: &str) -> Result<Option<(&Text, &Member)>, Refusal> {
        match self.static_member(instance_id) {
            Some((_, member)) if !member.is_classic() && member.current.epoch != LEAVE_STATIC => {
                refuse(ErrorCode::UnreleasedInstanceId, "A member still uses this instance id.")
            }
            former => Ok(former),
        }
    }

    /// Whether the sender of a request has a place in the group: its own, or that of the static
    /// member whose instance id it has.
    pub(crate) fn has_sender(&self, member_id: &str, instance_id: Option<&str>) -> bool {
        self.members.get(member_id).is_some()
            || instance_id.is_some_and(|it| self.own.static_members.contains_key(it))
    }

    pub(super) fn has_instance(&self, profile: &Profile) -> bool {
        let instance_id = profile.instance_id.as_deref();
        instance_id.is_some_and(|it| self.own.static_members.contains_key(it))
    }
}
