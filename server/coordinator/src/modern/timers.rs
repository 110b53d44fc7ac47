//! The timers of a group's members.

use super::Group;
use super::kind::Kind;
use super::member::MemberState;
use super::members::MemberTimers;
use crate::text::Text;
use crate::timers::{Timer, TimerKey, Timers};
use crate::turn::Turn;

impl<K: Kind> Group<K> {
    /// Called when all records are replayed. Starts sessions and rebalance timeouts.
    pub(crate) fn loaded(&mut self, turn: &mut Turn<'_, '_>) {
        for number in self.members.numbers_in_hash_order() {
            let timeout_ms = K::config(turn, &self.id).session_timeout_ms;
            self.start_session(turn, number, timeout_ms);
            let Some(member) = self.members.slot(number).and_then(|it| it.member.as_ref()) else {
                continue;
            };
            let epoch = member.current.epoch;
            let timeout_ms = K::revocation_timeout_ms(&member.profile);
            if member.current.state == MemberState::UnrevokedPartitions {
                self.start_rebalance_timer(turn, number, epoch, timeout_ms);
            }
        }
    }

    /// Cancels the timers of a group that is removed.
    pub(crate) fn removed(&mut self, timers: &mut Timers) {
        self.members.cancel_timers(timers);
        timers.cancel(&mut self.target.timer);
        self.own.cancel_timers(timers);
    }

    /// Restarts the session of a member that has shown that it is alive.
    pub(super) fn restart_session(&mut self, turn: &mut Turn<'_, '_>, number: u32) {
        let timeout_ms = K::config(turn, &self.id).session_timeout_ms;
        self.start_session(turn, number, timeout_ms);
    }

    pub(crate) fn start_session(&mut self, turn: &mut Turn<'_, '_>, number: u32, timeout_ms: i32) {
        let key = |group_id, member_id| TimerKey::Session { group_id, member_id };
        self.start(turn, number, timeout_ms, |timers| &mut timers.session, key);
        if let Some(slot) = self.members.slot_mut(number) {
            slot.timers.heard_at = turn.now;
            slot.timers.heard_on = turn.connection;
        }
    }

    pub(super) fn start_rebalance_timer(
        &mut self,
        turn: &mut Turn<'_, '_>,
        number: u32,
        epoch: i32,
        timeout_ms: i32,
    ) {
        let key = |group_id, member_id| TimerKey::Revocation { group_id, member_id };
        self.start(turn, number, timeout_ms, |timers| &mut timers.rebalance, key);
        if let Some(slot) = self.members.slot_mut(number) {
            slot.timers.rebalance_epoch = epoch;
        }
    }

    pub(super) fn cancel_rebalance_timer(&mut self, turn: &mut Turn<'_, '_>, number: u32) {
        if let Some(slot) = self.members.slot_mut(number) {
            turn.timers.cancel(&mut slot.timers.rebalance);
        }
    }

    pub(crate) fn start(
        &mut self,
        turn: &mut Turn<'_, '_>,
        number: u32,
        timeout_ms: i32,
        which: impl Fn(&mut MemberTimers<K::MemberTimers>) -> &mut Timer,
        key: impl Fn(Text, Text) -> TimerKey,
    ) {
        let group_id = &self.id;
        let Some(slot) = self.members.slot_mut(number) else { return };
        let member_id = &slot.id;
        let at = turn.now.saturating_add(i64::from(timeout_ms));
        turn.timers
            .schedule(which(&mut slot.timers), at, || key(group_id.clone(), member_id.clone()));
    }

    /// The slot of the member, if its timer with this key is due and the member must be fenced.
    pub(crate) fn expired_member(
        &mut self,
        turn: &mut Turn<'_, '_>,
        member_id: &str,
        key: TimerKey,
    ) -> Option<u32> {
        let number = self.members.slot_number(member_id)?;
        let slot = self.members.slot_mut(number)?;
        let is_revocation = matches!(key, TimerKey::Revocation { .. });
        let timer = slot.timers.of(&key)?;
        if !turn.timers.due(timer, turn.now, key) {
            return None;
        }
        let member = slot.member.as_ref()?;
        let moved_on = is_revocation && member.current.epoch != slot.timers.rebalance_epoch;
        (!moved_on).then_some(number)
    }
}
