//! Messages between the coordinators of transactions and slots.

use muster_transactions::message::{FromSlot, ToSlot, ToSlotBody};

/// A message to the coordinators of transactions and the slots of a shard.
#[derive(Debug)]
pub enum ToTransactions {
    /// Messages from shard `from`: from its coordinators of transactions, and from its slots.
    Letters { from: u32, letters: Vec<Letter> },
    /// Shard `by` has taken letters out of its mailbox: their number and bytes.
    LettersTaken { by: u32, letters: usize, bytes: usize },
}

/// A message between a coordinator of transactions and a slot. The number `coordinator` is that of
/// the coordinator's partition of `__transaction_state`.
#[derive(Debug)]
pub enum Letter {
    ToSlot { coordinator: u32, message: ToSlot },
    ToCoordinator { coordinator: u32, message: FromSlot },
}

impl Letter {
    /// The approximate bytes of memory that the letter takes.
    pub(crate) fn bytes(&self) -> usize {
        let held = match self {
            Self::ToSlot { message, .. } => match &message.body {
                ToSlotBody::ReportWanted { .. } => 0,
                ToSlotBody::Reported(reported) => size_of_val(&reported.known[..]),
                ToSlotBody::Verdict(verdict) => verdict.refused.bytes(),
                ToSlotBody::Sync(sync) => sync.partitions.bytes(),
                ToSlotBody::Marker(marker) => marker.partitions.bytes(),
            },
            Self::ToCoordinator { message, .. } => match message {
                FromSlot::Report(report) => size_of_val(&report.open[..]),
                FromSlot::Question(question) => {
                    question.transactional_id.len() + question.partitions.bytes()
                }
                FromSlot::Synced { partitions, .. } | FromSlot::Marked { partitions, .. } => {
                    partitions.bytes()
                }
            },
        };
        size_of::<Self>() + held
    }
}
