//! A transactional id in memory. There may be a million, nearly all idle, so an idle one is small.

use crate::message::Producer;
use crate::operation::Operation;
use crate::partition_set::PartitionSet;
use crate::state::{Durable, EPOCH_PER_TRANSACTION, NO_EPOCH};
use alloc::boxed::Box;
use muster_codec::Wall;
use muster_codec::record_batch::TransactionOutcome;

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) durable: Durable,
    /// The position of its last record.
    pub(crate) written_at: u64,
    /// The epoch before the last bump, by which a retry is recognized; not in records, as in Kafka.
    pub(crate) last_epoch: i16,
    /// None while it is idle.
    pub(crate) active: Option<Box<Active>>,
}

/// The volatile state of an id whose transaction ends, or ended a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Active {
    pub(crate) phase: Phase,
    /// Partitions with a marker of the last decision that may not be on stable storage, if that
    /// matters ([`Durable::keeps_markers_of`]). The records of the next transaction erase the
    /// outcome, so these are synced before.
    pub(crate) unsynced: PartitionSet,
    /// Partitions that have joined the next transaction, while its record would erase the outcome
    /// of the last one too early.
    pub(crate) joined: PartitionSet,
    /// When the first of them did.
    pub(crate) joined_at: Wall,
    /// When the present messages were sent.
    pub(crate) sent_at: i64,
}

#[derive(Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// A decision waits until what it depends on is on stable storage.
    Syncing(Syncing),
    /// The decision is written; markers are under way.
    Marking { sequence: u64, remaining: PartitionSet },
    /// Nothing waits for this sync, after which the id is idle.
    Settling { sequence: u64 },
}

#[derive(Debug)]
pub(crate) struct Syncing {
    pub(crate) sequence: u64,
    pub(crate) remaining: PartitionSet,
    pub(crate) decision: Decision,
    /// The EndTxn that is answered when the decision is durable.
    pub(crate) caller: Option<Operation>,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision {
    pub(crate) outcome: TransactionOutcome,
    /// The version of the client, or of the server if that ends the transaction.
    pub(crate) client_version: i16,
    /// For the next transaction, if the epochs are used up.
    pub(crate) next_producer_id: Option<i64>,
}

impl Phase {
    /// The number of the messages that are under way.
    pub(crate) fn sequence(&self) -> Option<u64> {
        match self {
            Self::Idle => None,
            Self::Syncing(syncing) => Some(syncing.sequence),
            Self::Marking { sequence, .. } | Self::Settling { sequence } => Some(*sequence),
        }
    }
}

impl Entry {
    pub(crate) fn new(durable: Durable) -> Self {
        Self { durable, written_at: 0, last_epoch: NO_EPOCH, active: None }
    }

    pub(crate) fn producer(&self) -> Producer {
        Producer { id: self.durable.producer_id, epoch: self.durable.epoch }
    }

    pub(crate) fn phase(&self) -> &Phase {
        self.active.as_ref().map_or(&Phase::Idle, |active| &active.phase)
    }

    pub(crate) fn active(&mut self) -> &mut Active {
        self.active.get_or_insert_default()
    }

    /// Whether the transaction is about to end, and others have to wait for that.
    pub(crate) fn is_ending(&self) -> bool {
        self.durable.state.prepared().is_some() || matches!(self.phase(), Phase::Syncing(_))
    }

    /// Whether a transition is under way.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_ending() || self.joined().is_some()
    }

    /// The partitions of a transaction that has no record yet.
    pub(crate) fn joined(&self) -> Option<&PartitionSet> {
        self.active.as_ref().map(|active| &active.joined).filter(|joined| !joined.is_empty())
    }

    /// The state that the record of the transaction will have which partitions have joined. Clients
    /// see it before: it is as durable as what was written to the partitions, which report it.
    pub(crate) fn next(&self) -> Option<Durable> {
        let active = self.active.as_ref()?;
        let may_begin = self.durable.state.prepared().is_none();
        let joined = self.joined().filter(|_| may_begin)?;
        Some(self.durable.ongoing(joined, EPOCH_PER_TRANSACTION, active.joined_at))
    }

    pub(crate) fn has_unsynced(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.unsynced.is_empty())
    }

    /// Whether it takes part in sweeps over open transactions, and is loaded with a snapshot.
    pub(crate) fn is_open(&self) -> bool {
        !self.durable.is_at_rest() || self.active.is_some()
    }

    /// Frees what an idle id does not need.
    pub(crate) fn settle(&mut self) {
        self.active.take_if(|it| {
            let is_done = it.unsynced.is_empty() && it.joined.is_empty();
            matches!(it.phase, Phase::Idle) && is_done
        });
    }
}

// A million ids have to fit into 400 MB, with their names and the nodes of the tree.
const _: () = assert!(size_of::<Entry>() <= 80);
