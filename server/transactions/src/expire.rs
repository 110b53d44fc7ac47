//! The work that timers make due.

use crate::beginning::Beginning;
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::entry::Phase;
use crate::limits::{EXPIRE_IDS_MAX, RESEND_MS};
use crate::output::Output;
use crate::text::Text;
use crate::timers::Reason;
use alloc::vec::Vec;
use core::ops::Bound;

impl Coordinator {
    /// The time when [`Self::expire`] is due, in the milliseconds of [`Context::now`].
    pub fn next_deadline(&self) -> Option<i64> {
        self.next_timer().map(|(at, _)| at)
    }

    /// The time and the reason of the next call of [`Self::expire`], which may find nothing to do.
    pub fn next_timer(&self) -> Option<(i64, Reason)> {
        let timers = &self.timers;
        let times = [
            (self.waits.has_ready().then_some(timers.now), Reason::Work),
            (self.waits.next_deadline(), Reason::Wait),
            (timers.resend_at, Reason::Resend),
            (timers.timeouts_at, Reason::Timeouts),
            (timers.expiry_at, Reason::Expiry),
        ];
        times.into_iter().filter_map(|(at, reason)| at.map(|at| (at, reason))).min()
    }

    /// Does the work of one timer that is due at `context.now`, within the limits of one call. See
    /// [`Self::next_deadline`].
    pub fn expire(&mut self, context: &mut Context<'_>) -> Output {
        self.enter_call(context);
        let mut output = Output::default();
        let Some((at, reason)) = self.next_timer() else { return output };
        if at > context.now {
            return output;
        }
        match reason {
            Reason::Work => self.work(context, &mut output),
            Reason::Wait => self.end_waits(context, &mut output),
            Reason::Resend => self.resend_all(context, &mut output),
            Reason::Timeouts => self.abort_timed_out(context, &mut output),
            Reason::Expiry => self.remove_expired(context, &mut output),
        }
        output
    }

    /// Carries out the operations that have waited. Stops after the first one that writes records:
    /// they must be replayed before the next operation, which may depend on them.
    fn work(&mut self, context: &mut Context<'_>, out: &mut Output) {
        while out.records.is_empty() {
            let Some(operation) = self.waits.pop_ready() else { return };
            self.attempt(context, operation, out);
        }
    }

    fn end_waits(&mut self, context: &Context<'_>, out: &mut Output) {
        for _ in 0..EXPIRE_IDS_MAX {
            let Some(waiting) = self.waits.pop_late(context.now) else { return };
            let visible_at = self.visible_at(&waiting.operation.id);
            self.reply(&waiting.operation, Err(waiting.error), visible_at, out);
        }
    }

    fn resend_all(&mut self, context: &mut Context<'_>, out: &mut Output) {
        self.timers.resend_at = None;
        if !self.has_all_reports {
            self.ask_for_reports(context, out);
        }
        let late = context.now.saturating_sub(RESEND_MS);
        let is_late = |id: &&Text| {
            let active = self.ids.get(id).and_then(|entry| entry.active.as_ref());
            active.is_some_and(|active| active.sent_at <= late)
        };
        let ids: Vec<Text> =
            self.under_way.values().filter(is_late).take(EXPIRE_IDS_MAX).cloned().collect();
        for id in &ids {
            self.continue_without_deleted(context, id, out);
            self.resend(context, id, None, out);
        }
        if ids.len() == EXPIRE_IDS_MAX {
            self.timers.resend_at = Some(context.now);
        } else if !self.under_way.is_empty() {
            self.timers.resend_after(context.now);
        }
    }

    /// Aborts transactions that have timed out or have lost writes. Syncs the unsynced markers of
    /// ids that are idle.
    fn abort_timed_out(&mut self, context: &mut Context<'_>, out: &mut Output) {
        let after = self.timers.timeouts_after.take();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let ids = self.open.range((from, Bound::Unbounded)).take(EXPIRE_IDS_MAX);
        let ids: Vec<Text> = ids.cloned().collect();
        for id in &ids {
            self.sweep_open(context, id, out);
        }
        let is_complete = ids.len() < EXPIRE_IDS_MAX;
        self.timers.timeouts_after = ids.into_iter().next_back().filter(|_| !is_complete);
        let pause_ms = if is_complete { self.config.abort_timed_out_interval_ms } else { 0 };
        self.timers.timeouts_at = Some(context.now.saturating_add(pause_ms));
    }

    fn sweep_open(&mut self, context: &mut Context<'_>, id: &Text, out: &mut Output) {
        let Some(entry) = self.ids.get(id) else { return };
        let is_lost = self.beginning(id, entry) == Beginning::Lost;
        if (entry.durable.is_timed_out(context.wall) || is_lost) && !entry.is_pending() {
            // If the transaction cannot be decided yet, the next sweep finds it again.
            let _later = self.fence(context, id, out);
            return;
        }
        if matches!(entry.phase(), Phase::Idle) {
            // Usually this writes nothing. The record is missing only if the log has refused it.
            self.record_joined(id, out);
        }
        let Some(active) = entry.active.as_ref().filter(|it| !it.unsynced.is_empty()) else {
            return;
        };
        let is_idle = matches!(active.phase, Phase::Idle) && entry.durable.open.is_none();
        let quiet_ms = context.now.saturating_sub(active.sent_at);
        if is_idle && quiet_ms >= self.config.abort_timed_out_interval_ms {
            self.settle(context, id, out);
        }
    }

    /// Removes ids that were not used for `transactional.id.expiration.ms`.
    fn remove_expired(&mut self, context: &Context<'_>, out: &mut Output) {
        let after = self.timers.expiry_after.take();
        let (mut visited, mut last) = (0, None);
        for seen in self.ids.after(after.as_deref()).take(EXPIRE_IDS_MAX) {
            (visited, last) = (visited + 1, Some(seen.id));
            let expiration_ms = self.config.transactional_id_expiration_ms;
            let is_expired = seen.durable.is_expired(context.wall, expiration_ms);
            if is_expired && seen.is_idle() && !self.may_need_outcomes(&seen) {
                self.write(seen.id, None, out);
            }
        }
        let is_complete = visited < EXPIRE_IDS_MAX;
        self.timers.expiry_after = last.filter(|_| !is_complete).map(Text::from);
        let pause_ms = if is_complete { self.config.remove_expired_interval_ms } else { 0 };
        self.timers.expiry_at = Some(context.now.saturating_add(pause_ms));
    }
}
