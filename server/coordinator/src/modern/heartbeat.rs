//! The heartbeat of a member that joins or stays.

use super::epoch::{ProfileChange, ProfileEffect};
use super::kind::{HeartbeatFields, Kind};
use super::member::{CurrentOf, Member, MemberOf, MemberState};
use super::reconcile::Reconciliation;
use super::target::{Delay, MemberTarget, MemberUpdate};
use super::validate::JOIN;
use super::{Draft, Group, Refusal, refuse};
use crate::client::Client;
use crate::event::Cause;
use crate::text::Text;
use crate::turn::Turn;
use muster_codec::ErrorCode;

/// The state of a member before its request.
pub(crate) struct Existing<K: Kind> {
    pub(crate) before: MemberOf<K>,
    /// The static member that the member replaces.
    pub(crate) replaces: Option<Text>,
}

/// A member whose subscription was updated from its request.
pub(crate) struct Subscribed<'m, K: Kind> {
    pub(crate) member_id: &'m str,
    pub(crate) before: MemberOf<K>,
    pub(crate) after: MemberOf<K>,
    /// The static member that the member replaces.
    replaces: Option<Text>,
    is_new: bool,
    /// Whether its subscription changed.
    pub(crate) is_changed: bool,
    /// The next group epoch.
    pub(crate) epoch: i32,
    input: K::Input,
}

/// The state of a member after its request.
pub(crate) struct Updated<K: Kind> {
    pub(crate) number: u32,
    pub(crate) before: MemberOf<K>,
    pub(crate) after: MemberOf<K>,
    /// The slot of the static member that the member replaces.
    replaces: Option<u32>,
    /// Why the member has no newer target.
    delay: Option<Delay>,
}

/// The inputs of [`Kind::settle`], the last step of a heartbeat that changed something.
pub(crate) struct Settling<'s, K: Kind> {
    /// The next group epoch.
    pub(crate) epoch: i32,
    pub(crate) change: ProfileChange<'s, K::Profile>,
    pub(crate) number: u32,
    pub(crate) member: &'s MemberOf<K>,
    /// The slot of the static member that the member replaces.
    pub(crate) replaces: Option<u32>,
    pub(crate) outcome: Outcome,
}

/// The result of a heartbeat, for its answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// Whether the member's assignment has changed.
    pub(crate) is_changed: bool,
    pub(crate) delay: Option<Delay>,
}

impl<K: Kind> Group<K> {
    /// Answers a member that joins or stays. Adds its records to `draft`.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED, FENCED_MEMBER_EPOCH, and the errors of [`Kind::existing`],
    /// [`Kind::refuse_if_large`] and [`Kind::effect`].
    pub(crate) fn heartbeat<'r>(
        &mut self,
        turn: &mut Turn<'_, 'r>,
        draft: &mut Draft<'r>,
        client: Client<'_>,
        heartbeat: &K::Heartbeat<'r>,
    ) -> Result<K::Answer<'r>, Refusal> {
        self.refuse_if_full(turn.config, || K::is_known(self, heartbeat))?;
        if let Some((number, member)) = self.steady(turn, client, heartbeat) {
            let answer = K::answer(self, turn, heartbeat, member, Outcome::default());
            self.restart_session(turn, number);
            return Ok(answer);
        }
        let existing = K::existing(self, draft, heartbeat)?;
        let profile = K::updated(&existing.before.profile, heartbeat, client);
        let after = Member { profile, current: existing.before.current.clone() };
        let subscribed = self.subscribe(turn, draft, heartbeat.member_id(), existing, after)?;
        let (is_new, epoch) = (subscribed.is_new, subscribed.epoch);
        let updated = self.assign(turn, draft, subscribed, K::reported(heartbeat))?;
        self.restart_session(turn, updated.number);
        let (before, after) = (&updated.before, &updated.after);
        let change = ProfileChange { before: &before.profile, after: &after.profile, is_new };
        let is_changed = after.current.assigned != before.current.assigned;
        let outcome = Outcome { is_changed, delay: updated.delay };
        let (number, replaces) = (updated.number, updated.replaces);
        let settling = Settling { epoch, change, number, member: after, replaces, outcome };
        K::settle(self, turn, draft, heartbeat, &settling);
        Ok(K::answer(self, turn, heartbeat, after, outcome))
    }

    /// The fast path: if neither the heartbeat nor the group changes anything for the member,
    /// returns the number of its slot, and the member. None for other heartbeats.
    fn steady(
        &self,
        turn: &Turn<'_, '_>,
        client: Client<'_>,
        heartbeat: &K::Heartbeat<'_>,
    ) -> Option<(u32, &MemberOf<K>)> {
        let number = self.members.slot_number(heartbeat.member_id())?;
        let member = self.members.slot(number)?.member.as_ref()?;
        let current = &member.current;
        let is_steady = heartbeat.member_epoch() == current.epoch
            && current.epoch > JOIN
            && current.is_reconciled_to(self.target.epoch)
            && self.target.epoch >= self.epoch
            && !K::has_changed(self, turn, heartbeat)
            && !self.is_outdated(turn.topics)
            && K::is_unchanged(&member.profile, heartbeat, client);
        is_steady.then_some((number, member))
    }

    /// The state of a dynamic member that joins for the first time or again.
    pub(crate) fn joining(&self, member_id: &str) -> Existing<K> {
        let before = self.members.get(member_id).cloned().unwrap_or_default();
        Existing { before, replaces: None }
    }

    /// Updates a member's subscription and the group epoch.
    pub(crate) fn subscribe<'m>(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        member_id: &'m str,
        existing: Existing<K>,
        after: MemberOf<K>,
    ) -> Result<Subscribed<'m, K>, Refusal> {
        let Existing { before, replaces } = existing;
        if after.profile != before.profile {
            K::refuse_if_large(self, &mut turn.members, &before.profile, &after.profile)?;
            draft.push(K::member_record(&self.id, member_id, &after.profile));
        }
        let is_new = self.members.get(member_id).is_none();
        let change = ProfileChange { before: &before.profile, after: &after.profile, is_new };
        let mut effect = K::effect(self, turn, draft, change)?;
        effect.bumps |= self.lacks_target(member_id, &after.profile);
        let (epoch, input) = self.next_epoch(turn, draft, &effect, change);
        // If the members of a kind of group revoke nothing, Kafka treats each new group epoch like
        // a changed subscription.
        let is_changed = effect.is_changed || !K::REVOKES && epoch > self.epoch;
        if epoch > self.epoch && (!is_new || replaces.is_some()) {
            note_cause(turn, member_id, &effect);
        }
        Ok(Subscribed { member_id, before, after, replaces, is_new, is_changed, epoch, input })
    }

    /// Updates the target assignment for the group epoch, and takes the member's next step towards
    /// it.
    pub(crate) fn assign(
        &mut self,
        turn: &mut Turn<'_, '_>,
        draft: &mut Draft<'_>,
        subscribed: Subscribed<'_, K>,
        reported: Option<&K::Reported>,
    ) -> Result<Updated<K>, Refusal> {
        let Subscribed { member_id, before, mut after, is_new, is_changed, epoch, .. } = subscribed;
        if is_new && subscribed.replaces.is_none() {
            turn.joined(member_id);
        }
        let number = self.members.take_slot(member_id);
        let replaces = subscribed.replaces.and_then(|it| self.members.slot_number(&it));
        let update = MemberUpdate { number, before: &before, after: &after, is_new, replaces };
        let target = self.update_target(turn, draft, &update, epoch, subscribed.input);
        let next = self.stepped(turn, &after, &target, is_changed, reported)?;
        if replaces == Some(number) {
            self.members.keep_slot(number, turn.timers);
        }
        if let Some(next) = next {
            draft.push(K::current_record(&self.id, member_id, &next));
            self.watch_revocation(turn, number, &after.profile, &next);
            turn.moves(after.current.moved_to(&next));
            after.current = next;
        }
        Ok(Updated { number, before, after, replaces, delay: target.delay })
    }

    /// The member's assignment after its next step; None if the assignment does not change.
    pub(crate) fn stepped(
        &self,
        turn: &Turn<'_, '_>,
        member: &MemberOf<K>,
        target: &MemberTarget<K>,
        is_changed: bool,
        reported: Option<&K::Reported>,
    ) -> Result<Option<CurrentOf<K>>, Refusal> {
        if !is_changed && member.current.is_reconciled_to(target.epoch) {
            return Ok(None);
        }
        let subscription_changed = is_changed;
        let reconciliation =
            Reconciliation { group: self, turn, member, target, subscription_changed, reported };
        reconciliation.step().or_else(|_unknown_state| {
            refuse(
                ErrorCode::FencedMemberEpoch,
                "A later version wrote the member's state. The member must join again.",
            )
        })
    }

    /// Starts or cancels the timer within which a member must revoke partitions.
    fn watch_revocation(
        &mut self,
        turn: &mut Turn<'_, '_>,
        number: u32,
        profile: &K::Profile,
        next: &CurrentOf<K>,
    ) {
        if !K::has_revocation_timeout(profile) {
            return;
        }
        if next.state == MemberState::UnrevokedPartitions {
            let timeout_ms = K::revocation_timeout_ms(profile);
            self.start_rebalance_timer(turn, number, next.epoch, timeout_ms);
        } else {
            self.cancel_rebalance_timer(turn, number);
        }
    }
}

/// Notes why a member that is not new bumps the group epoch.
fn note_cause<F>(turn: &mut Turn<'_, '_>, member_id: &str, effect: &ProfileEffect<F>) {
    match effect {
        ProfileEffect { bumps: false, .. } => turn.note_cause(Cause::Topics, None),
        ProfileEffect { is_changed: true, .. } => {
            turn.note_cause(Cause::Subscribed, Some(member_id));
        }
        ProfileEffect { .. } => turn.note_cause(Cause::Rejoined, Some(member_id)),
    }
}
