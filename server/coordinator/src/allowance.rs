//! The bytes that a call may still take of a limit that the coordinators of a shard share.

use crate::budget::OfClient;
use crate::counters::Counted;
use crate::payers::Payers;
use crate::pending::PendingOffsets;
use muster_fairness::{Address, Exceeded, admit};

/// The part of a limit that is left for the client of a call.
#[derive(Debug)]
pub(crate) struct Allowance {
    limit: usize,
    left: usize,
    /// The bytes that the client's address holds, with those that it would take over from others; 0
    /// while plenty is left.
    held: usize,
    /// Why the client was refused, if it was.
    pub(crate) exceeded: Option<Exceeded>,
    /// The address of a client that has taken some with [`Self::take_for`].
    pub(crate) taken_by: Option<Address>,
}

/// The bytes that the client of a call holds, with those that it would take over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OfCall {
    pub(crate) member_bytes: usize,
    pub(crate) pending_bytes: usize,
}

impl OfCall {
    /// The bytes of a client whose call is on a group that is counted like this.
    pub(crate) fn new(
        client: OfClient,
        counted: Counted,
        payers: &Payers,
        pending: &PendingOffsets,
    ) -> Self {
        let payer = payers.address(counted.payer);
        let taken_over = if payer == client.address { 0 } else { counted.member_bytes };
        Self {
            member_bytes: client.member_bytes + taken_over as usize,
            pending_bytes: client.pending_bytes + pending.bytes_taken_over(),
        }
    }
}

impl Allowance {
    pub(crate) fn new(limit: usize, used: usize, held: usize) -> Self {
        let left = limit.saturating_sub(used);
        Self { limit, left, held, exceeded: None, taken_by: None }
    }

    /// Takes some bytes, if the client may have them.
    pub(crate) fn take(&mut self, more: usize) -> bool {
        if more == 0 {
            return true;
        }
        let admitted = admit(more, self.left, self.limit, || self.held);
        match admitted {
            Ok(()) => (self.left, self.held) = (self.left - more, self.held + more),
            Err(exceeded) => self.exceeded = Some(exceeded),
        }
        admitted.is_ok()
    }

    /// Like [`Self::take`], for a client at `host`, which is noted.
    pub(crate) fn take_for(&mut self, host: &str, more: usize) -> bool {
        let is_taken = self.take(more);
        if is_taken && more > 0 {
            self.taken_by = Some(Address::of(host));
        }
        is_taken
    }
}

#[cfg(test)]
impl Allowance {
    /// An allowance without a limit.
    pub(crate) fn of_all() -> Self {
        Self::new(usize::MAX, 0, 0)
    }
}
