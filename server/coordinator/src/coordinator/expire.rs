//! The work that timers make due.

use super::Coordinator;
use crate::classic::ClassicGroup;
use crate::context::{Around, Context};
use crate::event::Why;
use crate::group::{Entry, Group, Kind};
use crate::limits::{EXPIRE_RECORDS_MAX, EXPIRE_TIMERS_MAX};
use crate::migration;
use crate::modern;
use crate::offsets;
use crate::output::Output;
use crate::share::ShareGroup;
use crate::streams::StreamsGroup;
use crate::timers::TimerKey;
use crate::turn::Heard;
use crate::turn::Turn;
use alloc::vec::Vec;
use muster_codec::Wall;

impl Coordinator {
    /// Does the work that is due at `context.now`, within the limits of one call. See
    /// [`Self::next_deadline`].
    pub fn expire(&mut self, context: &mut Context<'_>) -> Output<'static> {
        let mut output = Output::default();
        for _ in 0..EXPIRE_TIMERS_MAX {
            let Some(key) = self.timers.pop(context.now) else { break };
            let is_slice = key.is_slice_of_work();
            match key.group_id().cloned() {
                Some(group_id) => self.group_timer(context, &mut output, &group_id, key),
                None if key == TimerKey::Deletion => self.delete_slice(context, &mut output),
                None if key == TimerKey::Load => self.load_slice(context),
                None => self.sweep(context, &mut output),
            }
            // Records end the call, because later work may depend on their replay. A slice of work
            // ends the call, because requests are served between slices.
            if is_slice || !output.records.is_empty() {
                break;
            }
        }
        output
    }

    fn group_timer(
        &mut self,
        context: &Context<'_>,
        output: &mut Output<'static>,
        group_id: &str,
        key: TimerKey,
    ) {
        self.with(context.around(), output, group_id, |turn, entry| {
            let Some(entry) = entry else { return };
            debug_assert!(entry.group.is_some(), "a deleted group has cancelled its timers");
            match &mut entry.group {
                Some(Group::Classic(group)) => classic_timer(turn, group, key),
                Some(Group::Consumer(_)) => consumer_timer(turn, entry, key),
                Some(Group::Share(group)) => share_timer(turn, group, key),
                Some(Group::Streams(group)) => streams_timer(turn, group, key),
                None => {}
            }
        });
    }

    /// Removes expired offsets, and empty groups without offsets. If the work is too much for one
    /// call, the next call continues at once.
    fn sweep(&mut self, context: &Context<'_>, output: &mut Output<'static>) {
        if !self.timers.due(&mut self.sweep.timer, context.now, TimerKey::Sweep) {
            return;
        }
        let mut is_through = false;
        let wall = Wall(context.wall.0.saturating_sub(self.sweep.left_out_ms));
        for _ in 0..EXPIRE_TIMERS_MAX {
            let Some(id) = self.groups.id_after(self.sweep.swept.as_ref()) else {
                is_through = true;
                break;
            };
            if self.may_expire(&id, wall) {
                if self.require_offsets(&id, context.now).is_err() {
                    break;
                }
                self.with(Around { wall, ..context.around() }, output, &id, sweep_group);
            }
            // A group with this many expired offsets may have more.
            if output.records.len() >= EXPIRE_RECORDS_MAX {
                break;
            }
            self.sweep.swept = Some(id);
        }
        let mut pause_ms = 0;
        if is_through {
            self.sweep.swept = None;
            pause_ms = self.config.offsets_retention_check_interval_ms;
        }
        self.sweep_at(context.now.saturating_add(pause_ms));
    }
}

fn classic_timer(turn: &mut Turn<'_, '_>, group: &mut ClassicGroup, key: TimerKey) {
    match key {
        TimerKey::Session { group_id, member_id } => {
            group.session_timer(turn, group_id, member_id);
        }
        TimerKey::Join { group_id } => group.join_timer(turn, group_id),
        TimerKey::PendingSync { group_id } => group.sync_timer(turn, group_id),
        TimerKey::Revocation { .. }
        | TimerKey::MemberJoin { .. }
        | TimerKey::MemberSync { .. }
        | TimerKey::Assignment { .. }
        | TimerKey::Expressions { .. }
        | TimerKey::Sweep
        | TimerKey::Deletion
        | TimerKey::Load => {}
    }
}

fn consumer_timer(turn: &mut Turn<'_, '_>, entry: &mut Entry, key: TimerKey) {
    let Some(Group::Consumer(group)) = &mut entry.group else { return };
    match &key {
        TimerKey::Session { member_id, .. }
        | TimerKey::Revocation { member_id, .. }
        | TimerKey::MemberJoin { member_id, .. }
        | TimerKey::MemberSync { member_id, .. } => {
            let member_id = member_id.clone();
            if let Some(number) = removed_member(turn, group, &member_id, key) {
                let mut draft = Vec::new();
                migration::fence(turn, &mut draft, entry, &[number]);
                turn.write_all(draft);
            }
        }
        TimerKey::Assignment { .. } => group.computation_timer(turn),
        TimerKey::Expressions { .. } => group.expressions_timer(turn),
        TimerKey::Join { .. }
        | TimerKey::PendingSync { .. }
        | TimerKey::Sweep
        | TimerKey::Deletion
        | TimerKey::Load => {}
    }
}

fn share_timer(turn: &mut Turn<'_, '_>, group: &mut ShareGroup, key: TimerKey) {
    match &key {
        TimerKey::Session { member_id, .. } => {
            let member_id = member_id.clone();
            if let Some(number) = removed_member(turn, group, &member_id, key) {
                let mut draft = Vec::new();
                group.fence(turn, &mut draft, &[number]);
                turn.write_all(draft);
            }
        }
        TimerKey::Assignment { .. } => group.computation_timer(turn),
        TimerKey::Revocation { .. }
        | TimerKey::MemberJoin { .. }
        | TimerKey::MemberSync { .. }
        | TimerKey::Expressions { .. }
        | TimerKey::Join { .. }
        | TimerKey::PendingSync { .. }
        | TimerKey::Sweep
        | TimerKey::Deletion
        | TimerKey::Load => {}
    }
}

fn streams_timer(turn: &mut Turn<'_, '_>, group: &mut StreamsGroup, key: TimerKey) {
    match &key {
        TimerKey::Session { member_id, .. } | TimerKey::Revocation { member_id, .. } => {
            let member_id = member_id.clone();
            if let Some(number) = removed_member(turn, group, &member_id, key) {
                let mut draft = Vec::new();
                group.fence(turn, &mut draft, &[number]);
                turn.write_all(draft);
            }
        }
        TimerKey::Assignment { .. } => group.computation_timer(turn),
        TimerKey::Join { .. } => group.gathering_timer(turn),
        TimerKey::MemberJoin { .. }
        | TimerKey::MemberSync { .. }
        | TimerKey::Expressions { .. }
        | TimerKey::PendingSync { .. }
        | TimerKey::Sweep
        | TimerKey::Deletion
        | TimerKey::Load => {}
    }
}

/// Returns the member whose deadline in `key` has passed, and notes its removal.
fn removed_member<K: modern::kind::Kind>(
    turn: &mut Turn<'_, '_>,
    group: &mut modern::Group<K>,
    member_id: &str,
    key: TimerKey,
) -> Option<u32> {
    let why = why(&key);
    let number = group.expired_member(turn, member_id, key)?;
    let slot = group.members.slot(number)?;
    let client = slot.member.as_ref().map(|member| K::client(&member.profile));
    let heard = Heard { at: slot.timers.heard_at, on: slot.timers.heard_on };
    turn.removed(member_id, client.unwrap_or_default(), why, heard);
    Some(number)
}

/// Why a member is removed when a timer with this key fires.
fn why(key: &TimerKey) -> Why {
    match key {
        TimerKey::Revocation { .. } => Why::Revocation,
        TimerKey::MemberJoin { .. } | TimerKey::Join { .. } => Why::Join,
        TimerKey::MemberSync { .. } | TimerKey::PendingSync { .. } => Why::Sync,
        TimerKey::Session { .. }
        | TimerKey::Assignment { .. }
        | TimerKey::Expressions { .. }
        | TimerKey::Sweep
        | TimerKey::Deletion
        | TimerKey::Load => Why::Session,
    }
}

/// Sweeps a group. A share group has no offsets, and stays until it is deleted.
fn sweep_group(turn: &mut Turn<'_, '_>, entry: Option<&mut Entry>) {
    let Some(entry) = entry else { return };
    let Some(group) = entry.group.as_ref().filter(|it| it.kind() != Kind::Share) else { return };
    let is_subscribed = |topic: &str| group.is_subscribed_to(topic);
    let is_pending = turn.pending.of(&entry.id).is_some();
    let nothing_left = entry.offsets.is_empty() && !is_pending
        || group.retention_base().is_some_and(|base| {
            offsets::expire(
                turn,
                &entry.offsets,
                &entry.id,
                base,
                EXPIRE_RECORDS_MAX,
                is_subscribed,
            )
        });
    if nothing_left && group.validate_delete().is_ok() {
        group.write_tombstones(turn, &entry.id);
    }
}
