//! ConsumerGroupHeartbeat of a member that joins or stays.

use super::member::{Client, Member};
use super::regex::Change;
use super::target::{MemberTarget, MemberUpdate};
use super::validate::{JOIN, validate_epoch};
use super::{ConsumerGroup, Draft, Refusal, records, refuse};
use crate::assignors::SubscriptionType;
use crate::modern::owned::Owned;
use crate::modern::reconcile::{Current, Reconciliation};
use crate::modern::state::MemberState;
use crate::text::Text;
use crate::turn::Turn;
use muster_codec::messages::{
    ConsumerGroupHeartbeatAssignment, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, ConsumerGroupHeartbeatTopicPartitions as Reported,
};
use muster_codec::{ErrorCode, Str};

/// The state of a member before its request.
pub(crate) struct Existing {
    pub(crate) before: Member,
    /// The static member that it replaces.
    pub(crate) replaces: Option<Text>,
}

/// A member whose subscription is updated from its request.
pub(crate) struct Subscribed<'m> {
    pub(crate) member_id: &'m str,
    pub(crate) before: Member,
    pub(crate) after: Member,
    /// The static member that it replaces.
    replaces: Option<Text>,
    is_new: bool,
    /// Whether its subscription changed.
    changed: bool,
    /// The next group epoch.
    pub(crate) epoch: i32,
    subscription_type: SubscriptionType,
}

/// The state of a member after its request.
pub(crate) struct Updated {
    pub(crate) number: u32,
    pub(crate) before: Current,
    pub(crate) after: Member,
}

impl ConsumerGroup {
    /// Answers a member that joins or stays; adds its records to `draft`.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
    /// UNRELEASED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION.
    pub(crate) fn heartbeat<'r>(
        &mut self,
        turn: &mut Turn<'_, 'r>,
        draft: &mut Draft<'r>,
        client: Client<'_>,
        request: &ConsumerGroupHeartbeatRequest<'r>,
    ) -> Result<ConsumerGroupHeartbeatResponse<'r>, Refusal> {
        self.refuse_if_full(turn.config, &request.member_id)?;
        if let Some((number, current)) = self.steady(turn, client, request) {
            let response = answer(turn, &self.id, request, current, false);
            self.restart_session(turn, number);
            return Ok(response);
        }
        let existing = self.existing(draft, request)?;
        let profile = existing.before.profile.updated(request, client);
        let after = Member { profile, current: existing.before.current.clone() };
        let reported = request.topic_partitions.as_deref();
        let subscribed = self.subscribe(turn, draft, &request.member_id, existing, after, true)?;
        let updated = self.assign(turn, draft, subscribed, reported)?;
        self.restart_session(turn, updated.number);
        let after = &updated.after.current;
        let is_changed = after.assigned != updated.before.assigned;
        Ok(answer(turn, &self.id, request, after, is_changed))
    }

    /// The member of a request without news, in a group without news for it.
    fn steady(
        &self,
        turn: &Turn<'_, '_>,
        client: Client<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Option<(u32, &Current)> {
        let number = self.members.slot_number(&request.member_id)?;
        let member = self.members.slot(number)?.member.as_ref()?;
        let current = &member.current;
        let is_steady = request.member_epoch == current.epoch
            && current.epoch > JOIN
            && current.is_reconciled_to(self.target.epoch)
            && self.target.epoch >= self.epoch
            && !self.is_resolution_due(turn)
            && !self.is_outdated(turn.topics)
            && request.instance_id.as_deref() == member.profile.instance_id.as_deref()
            && member.profile.is_unchanged_by(request, client);
        is_steady.then_some((number, current))
    }

    fn existing(
        &self,
        draft: &mut Draft<'_>,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<Existing, Refusal> {
        let (member_id, instance_id) = (&*request.member_id, request.instance_id.as_deref());
        if request.member_epoch != JOIN {
            let existing = self.staying(member_id, instance_id)?;
            let reported = request.topic_partitions.as_deref();
            validate_epoch(&existing.before, request.member_epoch, reported)?;
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
    ) -> Result<Existing, Refusal> {
        let before = self.known(member_id, instance_id)?.clone();
        Ok(Existing { before, replaces: None })
    }

    /// A dynamic member that joins, perhaps again.
    pub(crate) fn joining(&self, member_id: &str) -> Existing {
        let before = self.members.get(member_id).cloned().unwrap_or_default();
        Existing { before, replaces: None }
    }

    /// A static member that joins. If its instance id is in use, it takes over the assignment.
    pub(crate) fn joining_static(
        &self,
        draft: &mut Draft<'_>,
        member_id: &str,
        instance_id: &str,
    ) -> Existing {
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
        self.remove(draft, former_id);
        draft.push(records::member_metadata(&self.id, member_id, member));
        draft.push(records::target(&self.id, member_id, target.unwrap_or_default()));
        draft.push(records::current(&self.id, member_id, &member.current));
    }

    /// Updates the member's subscription, and the group epoch. Without `waits`, an expression that
    /// is not resolved yet bumps the epoch too.
    pub(crate) fn subscribe<'m>(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        member_id: &'m str,
        existing: Existing,
        after: Member,
        waits: bool,
    ) -> Result<Subscribed<'m>, Refusal> {
        let Existing { before, replaces } = existing;
        if after.profile != before.profile {
            self.refuse_if_large(turn.members_room, &before.profile, &after.profile)?;
            draft.push(records::member_metadata(&self.id, member_id, &after));
        }
        let names_changed = after.profile.topics != before.profile.topics;
        let regex = self.update_regex(turn, draft, &before.profile, &after.profile)?;
        let is_new = self.members.get(member_id).is_none();
        let bump =
            names_changed || regex == Change::Resolved || (regex == Change::Unresolved && !waits);
        let (mut epoch, mut subscription_type) = (self.epoch, self.subscription_type());
        let is_outdated = match regex == Change::Unresolved && !bump {
            true => self.exchange(turn, (&before.profile, &after.profile)),
            false => self.is_outdated(turn.topics),
        };
        if bump || is_outdated {
            let is_added = is_new && !self.has_instance(&after);
            let members = self.members.len() + usize::from(is_added);
            let profiles = (&before.profile, &after.profile);
            let next = self.update_epoch(turn, draft, bump, profiles, members);
            (epoch, subscription_type) = (next.epoch, next.subscription_type);
        }
        let changed = names_changed || regex != Change::None;
        Ok(Subscribed {
            member_id,
            before,
            after,
            replaces,
            is_new,
            changed,
            epoch,
            subscription_type,
        })
    }

    /// Updates the target assignment for the epoch and reconciles the member to it.
    pub(crate) fn assign(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        subscribed: Subscribed<'_>,
        reported: Option<&[Reported]>,
    ) -> Result<Updated, Refusal> {
        let Subscribed { member_id, before, mut after, is_new, changed, epoch, .. } = subscribed;
        let number = self.members.take_slot(member_id);
        let replaces = subscribed.replaces.and_then(|it| self.members.slot_number(&it));
        let update = MemberUpdate { number, before: &before, after: &after, is_new, replaces };
        let target = self.update_target(turn, draft, &update, epoch, subscribed.subscription_type);
        let next = self.reconciled(turn, &after, &target, changed, reported)?;
        if replaces == Some(number) {
            self.members.keep_slot(number, turn.timers);
        }
        if let Some(next) = next {
            draft.push(records::current(&self.id, member_id, &next));
            self.watch_revocation(turn, number, &after, &next);
            after.current = next;
        }
        Ok(Updated { number, before: before.current, after })
    }

    /// Like [`Self::assign`], with the existing target, for a member that replaces another.
    pub(crate) fn reconcile_to_last(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        subscribed: Subscribed<'_>,
        reported: &[Reported],
    ) -> Result<Member, Refusal> {
        let Subscribed { member_id, mut after, changed, .. } = subscribed;
        let target = self.last_target(None, &after);
        if let Some(next) = self.reconciled(turn, &after, &target, changed, Some(reported))? {
            draft.push(records::current(&self.id, member_id, &next));
            after.current = next;
        }
        Ok(after)
    }

    /// The member's assignment after its next step; None if it does not change.
    fn reconciled(
        &self,
        turn: &Turn<'_, '_>,
        member: &Member,
        target: &MemberTarget,
        subscription_changed: bool,
        reported: Option<&[Reported]>,
    ) -> Result<Option<Current>, Refusal> {
        if !subscription_changed && member.current.is_reconciled_to(target.epoch) {
            return Ok(None);
        }
        let profile = &member.profile;
        let reconciliation = Reconciliation {
            target_epoch: target.epoch,
            target: &target.partitions,
            subscription_changed,
            is_subscriber: self.subscribed(profile).next().is_some(),
            is_subscribed: |topic_id| {
                turn.topics.name(topic_id).is_some_and(|name| self.is_subscriber_of(profile, name))
            },
            owners: &self.owners,
            reported,
        };
        reconciliation.step(&member.current).or_else(|_unknown_state| {
            refuse(
                ErrorCode::FencedMemberEpoch,
                "A later version wrote the member's state. The member must join again.",
            )
        })
    }

    fn has_instance(&self, member: &Member) -> bool {
        let instance_id = member.profile.instance_id.as_deref();
        instance_id.is_some_and(|it| self.static_members.contains_key(it))
    }

    /// Starts or cancels the rebalance timeout in which a member of the consumer protocol has to
    /// revoke.
    fn watch_revocation(
        &mut self,
        turn: &mut Turn<'_, '_>,
        number: u32,
        member: &Member,
        next: &Current,
    ) {
        if member.is_classic() {
            return;
        }
        let timeout_ms = member.profile.rebalance_timeout_ms;
        match next.state == MemberState::UnrevokedPartitions {
            true => self.start_rebalance_timer(turn, number, next.epoch, timeout_ms),
            false => self.cancel_rebalance_timer(turn, number),
        }
    }
}

fn answer<'r>(
    turn: &Turn<'_, 'r>,
    group_id: &str,
    request: &ConsumerGroupHeartbeatRequest<'r>,
    current: &Current,
    is_changed: bool,
) -> ConsumerGroupHeartbeatResponse<'r> {
    let is_full = request.rebalance_timeout_ms != -1
        && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
        && request.topic_partitions.is_some();
    let sends_assignment = request.member_epoch == JOIN || is_full || is_changed;
    ConsumerGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: current.epoch,
        heartbeat_interval_ms: turn.group_config(group_id).heartbeat_interval_ms,
        assignment: sends_assignment.then(|| assignment(&current.assigned)),
        ..Default::default()
    }
}

fn assignment(assigned: &Owned) -> ConsumerGroupHeartbeatAssignment {
    let topics = assigned.topics().iter().map(|topic| Reported {
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|it| it.partition).collect(),
    });
    ConsumerGroupHeartbeatAssignment { topic_partitions: topics.collect() }
}

/// The response for a refusal. Kafka sends no message with errors of the server.
pub(crate) fn refused<'r>(refusal: Refusal) -> ConsumerGroupHeartbeatResponse<'r> {
    let is_ours = refusal.error == ErrorCode::UnknownServerError;
    ConsumerGroupHeartbeatResponse {
        error_code: refusal.error as i16,
        error_message: (!is_ours).then_some(Str::Borrowed(refusal.message)),
        ..Default::default()
    }
}
