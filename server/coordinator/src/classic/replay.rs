//! Applies records to the state of a group.

use super::durable::Durable;
use super::member::{Member, Protocol};
use super::state::State;
use super::{ClassicGroup, Members};
use crate::event::Cause;
use crate::text::{Blob, Text};
use crate::timers::Timers;
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::vec;
use muster_codec::Wall;
use muster_codec::records::GroupMetadataValue;

impl ClassicGroup {
    /// Applies a GroupMetadata record. If a handler of this group wrote the record, the group makes
    /// the transition for which it was written. If the record comes from the log, it replaces the
    /// whole state.
    pub(crate) fn replay(&mut self, timers: &mut Timers, value: &GroupMetadataValue<'_>) {
        let durable = Durable::from_record(value, &self.members);
        match self.writing_since.take() {
            Some(since) => self.adopt(&durable, since),
            None => self.restore(timers, &durable),
        }
        self.durable = Some(durable);
    }

    /// Cancels the timers of a group that was deleted.
    pub(crate) fn removed(&mut self, timers: &mut Timers) {
        self.transition(State::Dead, Wall(self.state_timestamp));
        self.cancel_timers(timers);
    }

    /// Called when all records are replayed: derives the rest of the state from the replayed state.
    pub(crate) fn restored(&mut self) {
        self.subscribed_topics = self.subscriptions_topics();
    }

    /// Called after the log was read: starts sessions, and rebalances a group that exceeds
    /// `group.max.size`.
    pub(crate) fn loaded(&mut self, turn: &mut Turn<'_, '_>) {
        self.restored();
        for member_id in self.members.ids() {
            self.restart_session(turn, &member_id);
        }
        let max = usize::try_from(turn.config.group_max_size).unwrap_or(0);
        if self.members.len() > max {
            turn.note_cause(Cause::TooLarge, None);
            self.prepare_rebalance(turn);
        }
    }

    fn adopt(&mut self, durable: &Durable, since: Wall) {
        match self.state {
            State::CompletingRebalance => {
                for member in &durable.members {
                    if let Some(live) = self.members.get_mut(&member.identity.member_id) {
                        live.assignment = member.assignment.clone();
                    }
                }
                self.transition(State::Stable, since);
            }
            State::PreparingRebalance if durable.generation != self.generation => {
                self.generation = durable.generation;
                self.protocol = None;
                self.subscribed_topics = self.uses_consumer_protocol().then(BTreeSet::new);
                self.transition(State::Empty, since);
            }
            // The record of a new group, or of a static member with a new id.
            State::Empty | State::PreparingRebalance | State::Stable | State::Dead => {}
        }
    }

    fn restore(&mut self, timers: &mut Timers, durable: &Durable) {
        self.cancel_timers(timers);
        self.state = if durable.members.is_empty() { State::Empty } else { State::Stable };
        self.previous_state = State::Dead;
        self.state_timestamp = durable.state_timestamp;
        self.generation = durable.generation;
        self.protocol_type = durable.protocol_type.clone();
        self.protocol = durable.protocol.clone();
        self.members = Members::default();
        self.pending_syncs.clear();
        for member in &durable.members {
            let name = durable.protocol.clone().unwrap_or_else(|| Text::from(""));
            let protocol = Protocol { name, metadata: member.subscription.clone() };
            let mut restored = Member::new(member.identity.clone(), vec![protocol]);
            restored.assignment = Blob::clone(&member.assignment);
            self.members.remove(&member.identity.member_id);
            self.members.insert(restored);
        }
        if durable.leader.is_some() {
            self.members.set_leader(durable.leader.clone());
        }
    }

    fn cancel_timers(&mut self, timers: &mut Timers) {
        timers.cancel(&mut self.join_timer);
        timers.cancel(&mut self.sync_timer);
        self.members.for_each(|member| timers.cancel(&mut member.session));
        #[expect(clippy::disallowed_methods, reason = "the order of cancelling does not show")]
        for (_, mut timer) in self.pending_joins.drain() {
            timers.cancel(&mut timer);
        }
    }
}
