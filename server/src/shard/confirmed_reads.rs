//! Reads that wait until this node has proved that it leads their slots. A leader that is cut off
//! may be deposed without its knowledge. Its state would then be older than the answers of the next
//! leader.
//!
//! A read waits in the input of its connection, and is evaluated after the proof. So its answer has
//! all that was acknowledged before it arrived. What it has beyond that is not answered before it
//! is durable, like any other answer.

use crate::net::ConnectionId;
use muster_codec::ApiKey;
use muster_runtime::replicas::{Proof, Ticket};
use muster_storage::LogSlot;
use std::collections::BTreeMap;

/// The number of reads that wait for the proof of a slot. Further ones are refused.
pub(super) const READS_OF_SLOT_MAX: usize = 10_000;

/// Whether the requests of an API are confirmed. Requests that write are not: the commit of their
/// records is the proof. A heartbeat that changes nothing repeats what was committed.
pub(super) fn is_confirmed(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::OffsetFetch
            | ApiKey::DescribeGroups
            | ApiKey::ConsumerGroupDescribe
            | ApiKey::ShareGroupDescribe
            | ApiKey::StreamsGroupDescribe
            | ApiKey::DescribeShareGroupOffsets
            | ApiKey::ListGroups
            | ApiKey::DescribeTransactions
            | ApiKey::ListTransactions
    )
}

/// The reads that wait. A connection has at most one: the first request of its input.
#[derive(Debug, Default)]
pub(super) struct ConfirmedReads {
    waiting: BTreeMap<ConnectionId, Vec<Ticket>>,
    of_slots: BTreeMap<LogSlot, usize>,
}

impl ConfirmedReads {
    /// Whether a read with these tickets may wait.
    pub(super) fn has_room(&self, tickets: &[Ticket]) -> bool {
        let of_slot = |it: &Ticket| self.of_slots.get(&it.slot).copied().unwrap_or(0);
        tickets.iter().all(|it| of_slot(it) < READS_OF_SLOT_MAX)
    }

    /// The read of a connection waits.
    pub(super) fn put(&mut self, id: ConnectionId, tickets: Vec<Ticket>) {
        tickets.iter().for_each(|it| *self.of_slots.entry(it.slot).or_default() += 1);
        self.waiting.insert(id, tickets);
    }

    /// Takes the tickets of a connection whose read waits no longer. Empty if there are none.
    pub(super) fn take(&mut self, id: ConnectionId) -> Vec<Ticket> {
        let tickets = self.waiting.remove(&id).unwrap_or_default();
        for Ticket { slot, .. } in &tickets {
            let of_slot = self.of_slots.get_mut(slot);
            of_slot.into_iter().for_each(|count| *count -= 1);
        }
        tickets
    }

    /// The connections whose reads have a proof for each slot, or cannot get one.
    pub(super) fn settled(&self, proof: impl Fn(&Ticket) -> Proof) -> Vec<ConnectionId> {
        let awaits = |tickets: &[Ticket]| tickets.iter().any(|it| proof(it) == Proof::Awaited);
        let settled = self.waiting.iter().filter(|(_, tickets)| !awaits(tickets));
        settled.map(|(id, _)| *id).collect()
    }
}
