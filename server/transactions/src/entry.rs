//! A transactional id in memory. There may be 1,000,000, nearly all idle, so an idle id must be
//! small.

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
    /// The position of the id's last record.
    pub(crate) written_at: u64,
    /// The number of the id's last record among the records that the coordinator has applied; 0 for
    /// a record that is only in the opened snapshot. Records of one block have the same position,
    /// but different numbers.
    pub(crate) record: u32,
    /// The epoch before the last bump, to recognize a retry. As in Kafka, records do not contain
    /// it.
    pub(crate) last_epoch: i16,
    /// None while the id is idle.
    pub(crate) active: Option<Box<Active>>,
}

/// The volatile state of an id whose transaction is ending, has just ended, or has no record yet.
#[derive(Debug, Default)]
pub(crate) struct Active {
    pub(crate) phase: Phase,
    /// Partitions whose marker of the last decision must be on stable storage
    /// ([`Durable::keeps_markers_of`]), but may not be yet. The record of the next transaction
    /// erases the outcome of the last one, so these partitions are synced before that record is
    /// written.
    pub(crate) unsynced: PartitionSet,
    /// Partitions that have joined the next transaction, which has no record yet: the record would
    /// erase the last outcome while partitions may still need it.
    pub(crate) joined: PartitionSet,
    /// When the first of these partitions joined.
    pub(crate) joined_at: Wall,
    /// When the messages under way were sent.
    pub(crate) sent_at: i64,
}

#[derive(Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// A decision waits until everything on which it depends is on stable storage.
    Syncing(Syncing),
    /// The decision is written, and markers are under way.
    Marking { sequence: u64, remaining: PartitionSet },
    /// The markers of the last commit are being synced. After that the id is idle. An operation
    /// waits for these syncs only if its record would erase the outcome of the commit.
    Settling { sequence: u64 },
}

#[derive(Debug)]
pub(crate) struct Syncing {
    pub(crate) sequence: u64,
    pub(crate) remaining: PartitionSet,
    pub(crate) decision: Decision,
    /// The EndTxn to answer when the decision is durable.
    pub(crate) caller: Option<Operation>,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision {
    pub(crate) outcome: TransactionOutcome,
    /// The transaction version of the client that ends the transaction, or of the server if the
    /// server ends it.
    pub(crate) client_version: i16,
    /// The producer id of the next transaction, if the epochs are used up.
    pub(crate) next_producer_id: Option<i64>,
}

impl Phase {
    /// The sequence of the messages under way.
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
        Self { durable, written_at: 0, record: 0, last_epoch: NO_EPOCH, active: None }
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

    /// Whether the transaction is ending, so that other operations must wait.
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

    /// The state that the id will have when the record of its next transaction is written. Clients
    /// see this state earlier. Nothing is lost by that: the joined partitions have the
    /// transaction's data, and after a crash their slots report the transaction.
    pub(crate) fn next(&self) -> Option<Durable> {
        let active = self.active.as_ref()?;
        let may_begin = self.durable.state.prepared().is_none();
        let joined = self.joined().filter(|_| may_begin)?;
        Some(self.durable.ongoing(joined, EPOCH_PER_TRANSACTION, active.joined_at))
    }

    pub(crate) fn has_unsynced(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.unsynced.is_empty())
    }

    /// Whether the id needs attention: then sweeps over open transactions visit it, and it is
    /// loaded as soon as a snapshot is opened.
    pub(crate) fn is_open(&self) -> bool {
        !self.durable.is_at_rest() || self.active.is_some()
    }

    /// Frees the volatile state of an idle id.
    pub(crate) fn settle(&mut self) {
        self.active.take_if(|it| {
            let is_done = it.unsynced.is_empty() && it.joined.is_empty();
            matches!(it.phase, Phase::Idle) && is_done
        });
    }
}

// 1,000,000 ids must fit into 400 MB, with their names and the nodes of the tree.
const _: () = assert!(size_of::<Entry>() <= 80);
