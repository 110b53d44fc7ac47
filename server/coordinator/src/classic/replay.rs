//! From records to the state of a group.

use super::hard::Hard;
use super::member::{Member, Protocol};
use super::state::State;
use super::{ClassicGroup, Roster};
use crate::text::{Blob, Text};
use crate::timers::Timers;
use crate::turn::Turn;
use alloc::collections::BTreeSet;
use alloc::vec;
use muster_codec::Wall;
use muster_codec::records::GroupMetadataValue;

impl ClassicGroup {
    /// Applies a GroupMetadata record. If a handler wrote it, what follows from it for the
    /// rebalance that is under way is done now; else the log is being read, and the record is all
    /// there is.
    pub(crate) fn replay(&mut self, timers: &mut Timers, value: &GroupMetadataValue<'_>) {
        let hard = Hard::from_record(value, &self.roster);
        match self.writing_since.take() {
            Some(since) => self.adopt(&hard, since),
            None => self.restore(timers, &hard),
        }
        self.hard = Some(hard);
    }

    /// The group is gone: nothing of it may fall due.
    pub(crate) fn removed(&mut self, timers: &mut Timers) {
        self.transition(State::Dead, Wall(self.state_timestamp));
        self.cancel_timers(timers);
    }

    /// All its records are replayed: what follows from them alone.
    pub(crate) fn restored(&mut self) {
        self.subscribed_topics = self.subscriptions_topics();
    }

    /// The log is read: sessions start now, and a group that has become too large rebalances.
    pub(crate) fn loaded(&mut self, turn: &mut Turn<'_, '_>) {
        self.restored();
        for member_id in self.roster.ids() {
            self.restart_session(turn, &member_id);
        }
        let max = usize::try_from(turn.config.group_max_size).unwrap_or(0);
        if self.roster.len() > max {
            self.prepare_rebalance(turn);
        }
    }

    fn adopt(&mut self, hard: &Hard, since: Wall) {
        match self.state {
            State::CompletingRebalance => {
                for member in &hard.members {
                    if let Some(live) = self.roster.get_mut(&member.identity.member_id) {
                        live.assignment = member.assignment.clone();
                    }
                }
                self.transition(State::Stable, since);
            }
            State::PreparingRebalance if hard.generation != self.generation => {
                self.generation = hard.generation;
                self.protocol = None;
                self.subscribed_topics = self.uses_consumer_protocol().then(BTreeSet::new);
                self.transition(State::Empty, since);
            }
            // A group that was just created, or a static member with a new id.
            State::Empty | State::PreparingRebalance | State::Stable | State::Dead => {}
        }
    }

    fn restore(&mut self, timers: &mut Timers, hard: &Hard) {
        self.cancel_timers(timers);
        self.state = if hard.members.is_empty() { State::Empty } else { State::Stable };
        self.previous_state = State::Dead;
        self.state_timestamp = hard.state_timestamp;
        self.generation = hard.generation;
        self.protocol_type = hard.protocol_type.clone();
        self.protocol = hard.protocol.clone();
        self.roster = Roster::default();
        self.pending_syncs.clear();
        for member in &hard.members {
            let name = hard.protocol.clone().unwrap_or_else(|| Text::from(""));
            let protocol = Protocol { name, metadata: member.subscription.clone() };
            let mut restored = Member::new(member.identity.clone(), vec![protocol]);
            restored.assignment = Blob::clone(&member.assignment);
            self.roster.remove(&member.identity.member_id);
            self.roster.insert(restored);
        }
        if hard.leader.is_some() {
            self.roster.set_leader(hard.leader.clone());
        }
    }

    fn cancel_timers(&mut self, timers: &mut Timers) {
        timers.cancel(&mut self.join_timer);
        timers.cancel(&mut self.sync_timer);
        self.roster.for_each(|member| timers.cancel(&mut member.session));
        #[expect(clippy::disallowed_methods, reason = "the order of cancelling does not show")]
        for (_, mut timer) in self.pending_joins.drain() {
            timers.cancel(&mut timer);
        }
    }
}
