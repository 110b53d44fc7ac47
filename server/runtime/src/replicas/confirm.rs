//! Proofs that this node led a slot after a given moment. A leader that is cut off does not know
//! that another node leads, so its state may be older than what that node has acknowledged.
//!
//! A read takes a [`Ticket`] when it arrives, and is evaluated once the ticket is proved. The proof
//! is a round of raft that began after that, or an entry that this node has proposed since then and
//! that is committed. An older entry proves nothing: its acknowledgements may have been under way
//! when the next leader was elected. One round serves all tickets that were taken before it began,
//! and a group has one round at a time.

use super::Replication;
use super::group::{OfGroup, Serving};
use crate::injected::Injected;
use muster_replication::{Group, Index, Round};
use muster_storage::{LogSlot, ShardLog};

/// The question whether this node leads a slot after the moment at which the ticket was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub slot: LogSlot,
    term: u32,
    /// The first round that answers it.
    round: Round,
    /// The first entry that answers it.
    entry: Index,
}

/// The answer to a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    Given,
    Awaited,
    /// The term has ended.
    Lost,
}

impl Replication {
    /// Takes a ticket for a slot. None if this node does not serve the slot.
    pub fn ask(&mut self, slot: LogSlot) -> Option<Ticket> {
        let group = Group(slot.group());
        let of_group = self.groups.get_mut(&group)?;
        let term = of_group.term().filter(|_| of_group.serving() == Serving::Here)?;
        let rounds = &mut of_group.rounds;
        rounds.is_wanted = true;
        if !rounds.is_under_way {
            self.asked.insert(group);
        }
        let round = Round(rounds.begun.0 + 1);
        let Index(next) = self.replicas.next_index(group)?;
        let entry = Index(next - u64::from(Injected::EarlierEntry.is_injected()));
        Some(Ticket { slot, term, round, entry })
    }

    pub fn proof(&self, ticket: &Ticket) -> Proof {
        let of_group = self.groups.get(&Group(ticket.slot.group()));
        let leads = |it: &&OfGroup| it.term() == Some(ticket.term);
        match of_group.filter(leads) {
            None => Proof::Lost,
            Some(it) if it.rounds.confirmed >= ticket.round => Proof::Given,
            Some(it) if it.committed >= ticket.entry => Proof::Given,
            Some(_) => Proof::Awaited,
        }
    }

    /// Whether tickets may have been proved since the last call.
    pub fn take_proved(&mut self) -> bool {
        std::mem::take(&mut self.has_proved)
    }

    /// Begins the rounds that are wanted.
    pub fn begin_rounds(&mut self, log: &mut ShardLog) {
        for group in std::mem::take(&mut self.asked) {
            let begun = self.call(log, |replicas, out| replicas.confirm(group, out));
            let Some(OfGroup { rounds, .. }) = self.groups.get_mut(&group) else { continue };
            rounds.is_wanted = false;
            if let Some(round) = begun {
                (rounds.begun, rounds.is_under_way) = (round, rounds.confirmed < round);
            }
        }
    }

    /// Rounds have ended.
    pub(super) fn end_rounds(&mut self, ended: Vec<(Group, Round)>, are_confirmed: bool) {
        for (group, round) in ended {
            let Some(of_group) = self.groups.get_mut(&group) else { continue };
            if of_group.rounds.end(round, are_confirmed) {
                self.asked.insert(group);
            }
            self.has_proved |= are_confirmed;
        }
    }
}
