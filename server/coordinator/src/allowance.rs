//! The bytes that one call may still take from a limit that all coordinators of a shard share.

use crate::budget::OfClient;
use crate::counters::Counted;
use crate::payers::Payers;
use crate::pending::PendingOffsets;
use muster_fairness::{Address, Exceeded, admit};

/// The part of a limit that one call may still use.
#[derive(Debug)]
pub(crate) struct Allowance {
    limit: usize,
    left: usize,
    /// The bytes that count for the client's address: those that it already holds, and those of
    /// other addresses that it would have to pay for after the call. 0 while plenty of the limit is
    /// left.
    held: usize,
    /// The reason of the refusal, if the client was refused.
    pub(crate) exceeded: Option<Exceeded>,
    /// The address of the client that took bytes with [`Self::take_for`].
    pub(crate) taken_by: Option<Address>,
}

/// The bytes that count for the client of a call: those that it already holds, and those of other
/// clients that it would have to pay for after the call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OfCall {
    pub(crate) member_bytes: usize,
    pub(crate) pending_bytes: usize,
}

impl OfCall {
    /// The sum of the client's own bytes and of those that it would take over: the group's, if
    /// another address pays for the group, and those of pending offsets.
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

    /// Takes `more` bytes. Returns false, and notes why, if the client may not have them.
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

    /// Like [`Self::take`], and notes the address of the client at `host`.
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
    /// An unlimited allowance.
    pub(crate) fn of_all() -> Self {
        Self::new(usize::MAX, 0, 0)
    }
}
