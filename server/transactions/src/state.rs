//! The durable state of a transactional id, and its transitions.
//!
//! | to | from | cause | producer id, epoch |
//! |---|---|---|---|
//! | Empty | (new), Empty, Complete* | InitProducerId | epoch + 1; a retry: the same; new: 0 |
//! | Ongoing | Empty, Ongoing, Complete* | a partition is added | the same |
//! | PrepareCommit | Ongoing | EndTxn | version 2: epoch + 1; before: the same |
//! | PrepareAbort | Ongoing; version 2 also Empty, Complete* | EndTxn | as for PrepareCommit |
//! | PrepareAbort | Ongoing | InitProducerId, timeout, lost writes, reset | always epoch + 1 |
//! | Complete* | Prepare* | all markers are written | the same, or the next producer id at 0 |
//! | (none) | Empty, Complete* | the id expires, reset | |
//!
//! An id whose epochs are used up gets a new producer id with epoch 0 (`TransactionMetadata`,
//! `TransactionState`).

use crate::partition_set::PartitionSet;
use crate::text::owned;
use alloc::boxed::Box;
use alloc::vec::Vec;
use muster_codec::Wall;
use muster_codec::record_batch::{Producer, TransactionOutcome};
use muster_codec::records::{
    KeptCommit, TransactionLogKey, TransactionLogValue, TransactionRecord,
};

/// Means that there is no producer id.
pub(crate) const NO_PRODUCER_ID: i64 = -1;
/// Means that there is no epoch.
pub(crate) const NO_EPOCH: i16 = -1;
/// The timeout of a two-phase transaction, which never times out.
pub(crate) const NO_TIMEOUT: i32 = i32::MAX;
/// The version of a transaction whose epoch increases when it ends (KIP-890).
pub(crate) const EPOCH_PER_TRANSACTION: i16 = 2;

/// The last epoch with which a producer writes data. In transaction version 2, the marker of such a
/// transaction has the epoch after it.
pub(crate) const LAST_EPOCH: i16 = i16::MAX - 1;

/// The states. Names and numbers are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i8)]
pub enum State {
    Empty = 0,
    Ongoing = 1,
    PrepareCommit = 2,
    PrepareAbort = 3,
    CompleteCommit = 4,
    CompleteAbort = 5,
}

impl State {
    pub const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// Whether no transaction is open.
    pub(crate) fn is_at_rest(self) -> bool {
        match self {
            Self::Empty | Self::CompleteCommit | Self::CompleteAbort => true,
            Self::Ongoing | Self::PrepareCommit | Self::PrepareAbort => false,
        }
    }

    /// The state of a record; None for states that Kafka never writes.
    pub(crate) fn from_record(status: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as i8 == status)
    }

    /// The decided outcome, while its markers are being written.
    pub fn prepared(self) -> Option<TransactionOutcome> {
        match self {
            Self::PrepareCommit => Some(TransactionOutcome::Commit),
            Self::PrepareAbort => Some(TransactionOutcome::Abort),
            Self::Empty | Self::Ongoing | Self::CompleteCommit | Self::CompleteAbort => None,
        }
    }

    /// The outcome of the last transaction, if it has ended.
    pub fn completed(self) -> Option<TransactionOutcome> {
        match self {
            Self::CompleteCommit => Some(TransactionOutcome::Commit),
            Self::CompleteAbort => Some(TransactionOutcome::Abort),
            Self::Empty | Self::Ongoing | Self::PrepareCommit | Self::PrepareAbort => None,
        }
    }
}

/// The durable state of a transactional id, which records change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Durable {
    pub(crate) producer_id: i64,
    /// The producer id before the last transition.
    pub(crate) previous_producer_id: i64,
    /// The time of the last transition. `started` is the time at which the transaction began, or -1
    /// in the state Empty. Both times are in milliseconds since 1970.
    pub(crate) updated: i64,
    pub(crate) started: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) epoch: i16,
    pub(crate) state: State,
    /// The transaction version of the client that caused the last transition, or of the server: 0
    /// or 2.
    pub(crate) client_version: i8,
    /// The open transaction, in the states Ongoing and Prepare*.
    pub(crate) open: Option<Box<Open>>,
    /// The kept commits (`kept.rs`). The methods that compute a new state copy them; they change
    /// only when the record of the new state is written.
    pub(crate) kept: Option<Box<Kept>>,
}

/// The record of an id. Without a state it is a tombstone.
pub(crate) fn record(id: &str, durable: Option<&Durable>) -> TransactionRecord<'static> {
    let key = TransactionLogKey { transactional_id: owned(id) };
    TransactionRecord { key, value: durable.map(Durable::to_record) }
}

/// The part that only an open transaction has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) partitions: PartitionSet,
    /// The producer id of the next transaction if the epochs are used up; else -1.
    pub(crate) next_producer_id: i64,
}

/// The kept commits. There is at least one: without any, the field is None.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept(Vec<KeptCommit>);

impl Kept {
    fn from_record(commits: &[KeptCommit]) -> Option<Box<Self>> {
        (!commits.is_empty()).then(|| Box::new(Self(commits.to_vec())))
    }
}

impl Durable {
    /// A new transactional id.
    pub(crate) fn new(producer_id: i64, timeout_ms: i32, wall: Wall) -> Self {
        Self {
            producer_id,
            previous_producer_id: producer_id,
            updated: wall.0,
            started: -1,
            timeout_ms,
            epoch: 0,
            state: State::Empty,
            client_version: 0,
            open: None,
            kept: None,
        }
    }

    /// All producer ids with which partitions may know this transactional id, each once: the
    /// current, the previous and the next producer id, and the producer ids of kept commits.
    pub(crate) fn producer_ids(&self) -> impl Iterator<Item = i64> {
        let previous = Some(self.previous_producer_id).filter(|it| *it != self.producer_id);
        let next = self.state.prepared().map(|_| self.next_identity().id);
        let next = next.filter(|it| *it != self.producer_id);
        let ids = previous.into_iter().chain([self.producer_id]).chain(next);
        let kept = self.kept().iter().map(|kept| kept.producer_id);
        let others = ids.clone();
        ids.chain(kept.filter(move |it| others.clone().all(|id| id != *it)))
    }

    /// Whether the id has neither an open transaction nor kept commits. Such an id is needed only
    /// when a request names it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.open.is_none() && self.kept.is_none()
    }

    pub(crate) fn kept(&self) -> &[KeptCommit] {
        self.kept.as_deref().map_or(&[], |Kept(all)| all)
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.epoch >= LAST_EPOCH
    }

    /// Whether the client that wrote last uses an epoch per transaction.
    pub(crate) fn has_epochs(&self) -> bool {
        i16::from(self.client_version) == EPOCH_PER_TRANSACTION
    }

    /// Whether markers with this outcome must be on stable storage before the next decision. If a
    /// crash loses the marker of an abort, its partition reports the transaction as open. The
    /// coordinator does not know the transaction and aborts it again. But without an epoch per
    /// transaction, it would take it for the next one, and could commit it.
    pub(crate) fn keeps_markers_of(&self, outcome: TransactionOutcome) -> bool {
        outcome == TransactionOutcome::Commit || !self.has_epochs()
    }

    pub(crate) fn partitions(&self) -> Option<&PartitionSet> {
        self.open.as_ref().map(|open| &open.partitions)
    }

    /// The state Empty, after InitProducerId has assigned this producer id and epoch.
    pub(crate) fn initialized(&self, producer: Producer, timeout_ms: i32, wall: Wall) -> Self {
        debug_assert!(self.state.is_at_rest());
        Self {
            producer_id: producer.id,
            previous_producer_id: self.producer_id,
            updated: wall.0,
            started: -1,
            timeout_ms,
            epoch: producer.epoch,
            state: State::Empty,
            client_version: self.client_version,
            open: None,
            kept: self.kept.clone(),
        }
    }

    /// Ongoing, with these partitions added.
    pub(crate) fn ongoing(&self, added: &PartitionSet, client_version: i16, wall: Wall) -> Self {
        debug_assert!(self.state.prepared().is_none());
        let mut partitions = self.partitions().cloned().unwrap_or_default();
        partitions.insert_all(added);
        Self {
            previous_producer_id: self.producer_id,
            updated: wall.0,
            started: if self.state == State::Ongoing { self.started } else { wall.0 },
            state: State::Ongoing,
            client_version: client_version as i8,
            open: Some(Box::new(Open { partitions, next_producer_id: NO_PRODUCER_ID })),
            ..self.clone()
        }
    }

    /// Whether a decision must assign a new producer id to the next transaction.
    pub(crate) fn needs_next_producer_id(&self, client_version: i16) -> bool {
        client_version == EPOCH_PER_TRANSACTION && self.is_exhausted()
    }

    /// The state PrepareCommit or PrepareAbort. In version 2 the epoch increases with it.
    pub(crate) fn prepared(
        &self,
        outcome: TransactionOutcome,
        client_version: i16,
        next_producer_id: Option<i64>,
        wall: Wall,
    ) -> Self {
        debug_assert!(self.state.prepared().is_none());
        debug_assert!(self.state == State::Ongoing || outcome == TransactionOutcome::Abort);
        let bump = i16::from(client_version == EPOCH_PER_TRANSACTION);
        let open = Open {
            partitions: self.partitions().cloned().unwrap_or_default(),
            next_producer_id: next_producer_id.unwrap_or(NO_PRODUCER_ID),
        };
        Self {
            previous_producer_id: self.producer_id,
            updated: wall.0,
            started: if self.state == State::Ongoing { self.started } else { wall.0 },
            epoch: self.epoch.saturating_add(bump),
            state: match outcome {
                TransactionOutcome::Commit => State::PrepareCommit,
                TransactionOutcome::Abort => State::PrepareAbort,
            },
            client_version: client_version as i8,
            open: Some(Box::new(open)),
            ..self.clone()
        }
    }

    /// The producer id and epoch that the client uses after the decision.
    pub(crate) fn next_identity(&self) -> Producer {
        match &self.open {
            Some(open) if open.next_producer_id != NO_PRODUCER_ID => {
                Producer { id: open.next_producer_id, epoch: 0 }
            }
            Some(_) | None => Producer { id: self.producer_id, epoch: self.epoch },
        }
    }

    /// The state CompleteCommit or CompleteAbort. Its times are still those of the Prepare state.
    pub(crate) fn completed(&self) -> Self {
        debug_assert!(self.state.prepared().is_some());
        let Producer { id: producer_id, epoch } = self.next_identity();
        Self {
            producer_id,
            previous_producer_id: self.producer_id,
            epoch,
            state: match self.state {
                State::PrepareCommit => State::CompleteCommit,
                State::Empty
                | State::Ongoing
                | State::PrepareAbort
                | State::CompleteCommit
                | State::CompleteAbort => State::CompleteAbort,
            },
            open: None,
            ..self.clone()
        }
    }

    /// Whether the transaction has been open longer than its client's timeout.
    pub(crate) fn is_timed_out(&self, wall: Wall) -> bool {
        self.state == State::Ongoing
            && self.timeout_ms != NO_TIMEOUT
            && wall.since(self.started) > i64::from(self.timeout_ms)
    }

    /// Whether the id has not been used for `expiration_ms`.
    pub(crate) fn is_expired(&self, wall: Wall, expiration_ms: i64) -> bool {
        self.open.is_none() && wall.since(self.updated) >= expiration_ms
    }

    /// The state of a record; None for a state that Kafka never writes.
    pub(crate) fn from_record(value: &TransactionLogValue<'_>) -> Option<Self> {
        let state = State::from_record(value.transaction_status)?;
        let open = (!state.is_at_rest()).then(|| {
            let partitions = value.transaction_partitions.as_deref().unwrap_or_default();
            let next_producer_id = value.next_producer_id;
            Box::new(Open { partitions: partitions.into(), next_producer_id })
        });
        Some(Self {
            producer_id: value.producer_id,
            previous_producer_id: value.previous_producer_id,
            updated: value.transaction_last_update_timestamp_ms,
            started: value.transaction_start_timestamp_ms,
            timeout_ms: value.transaction_timeout_ms,
            epoch: value.producer_epoch,
            state,
            client_version: value.client_transaction_version as i8,
            open,
            kept: Kept::from_record(&value.kept_commits),
        })
    }

    pub(crate) fn to_record(&self) -> TransactionLogValue<'static> {
        let partitions = self.partitions().map(PartitionSet::to_record);
        let partitions = partitions.unwrap_or_default();
        TransactionLogValue {
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            transaction_timeout_ms: self.timeout_ms,
            transaction_status: self.state as i8,
            transaction_partitions: (self.state != State::Empty).then_some(partitions),
            transaction_last_update_timestamp_ms: self.updated,
            transaction_start_timestamp_ms: self.started,
            previous_producer_id: self.previous_producer_id,
            next_producer_id: self.open.as_ref().map_or(NO_PRODUCER_ID, |it| it.next_producer_id),
            client_transaction_version: i16::from(self.client_version),
            kept_commits: self.kept().to_vec(),
            ..Default::default()
        }
    }
}
