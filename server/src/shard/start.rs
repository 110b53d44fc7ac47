//! The state of a shard while its log is read. It begins with a snapshot, if there is one, and the
//! log is replayed from the snapshot's position on.

use super::reading::read_segments;
use super::{Common, KnownLog, LoadError};
use crate::cluster::ClusterImage;
use crate::groups::{Slots, TransactionCoordinators, read_cluster};
use crate::placement::{Slot, TransactionsPartition};
use crate::shares::SlotStates;
use crate::topics::{self, InternalTopic};
use crate::transactions::Coordinators;
use muster_codec::DecodeError;
use muster_codec::record_batch::{Batch, Record};
use muster_codec::records::{ClusterRecord, ShareRecord, TransactionRecord};
use muster_coordinator::SnapshotBytes;
use muster_faults::Fault;
use muster_shares::state::StoredEnds;
use muster_storage::snapshot::{
    SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME, SlotIndex, Snapshot, SnapshotHeader,
    SnapshotRefusal,
};
use muster_storage::{KnownSegments, LogPartition, Recovered, RecoveredBatch, Recovery};
use muster_uring::MappedFile;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The reason why loading with a snapshot failed.
pub(super) enum Unusable {
    /// Loading must be tried again without the snapshot.
    Snapshot(String),
    Log(LoadError),
}

impl From<LoadError> for Unusable {
    fn from(error: LoadError) -> Self {
        Self::Log(error)
    }
}

/// The state of a shard while its log is read.
pub(super) struct Start {
    pub(super) slots: Slots,
    pub(super) transactions: Coordinators,
    pub(super) shares: SlotStates,
    pub(super) image: ClusterImage,
    known_log: Option<KnownLog>,
    /// Whether all damage is skipped.
    accepts_loss: bool,
    /// Segments that need not be read.
    known: KnownSegments,
    pub(super) snapshot: Option<SnapshotHeader>,
    /// The snapshot's slots with groups, and those with transactions.
    in_snapshot: Vec<SlotIndex>,
    transactions_in_snapshot: Vec<SlotIndex>,
    /// The snapshot's slots with share states, and the records that these states cover.
    shares_in_snapshot: Vec<SlotIndex>,
    share_ends: BTreeMap<Slot, StoredEnds>,
    pub(super) recovered: Recovered,
    pub(super) replayed_bytes: u64,
    pub(super) replayed_records: u64,
}

impl Start {
    /// An empty state.
    pub(super) fn new(common: &Common, number: u32) -> Self {
        Self {
            slots: Slots::new(&common.config, common.placement, number),
            transactions: Coordinators::new(&common.config, common.placement, number, common.life),
            shares: SlotStates::new(&common.config, common.placement, number),
            image: ClusterImage::new(&common.config),
            known_log: common.known_log(number).copied(),
            accepts_loss: false,
            known: KnownSegments::default(),
            snapshot: None,
            in_snapshot: Vec::new(),
            transactions_in_snapshot: Vec::new(),
            shares_in_snapshot: Vec::new(),
            share_ends: BTreeMap::new(),
            recovered: Recovered::default(),
            replayed_bytes: 0,
            replayed_records: 0,
        }
    }

    /// Sets whether all damage of the log is skipped.
    pub(super) fn accepting_loss(self, accepts_loss: bool) -> Self {
        Self { accepts_loss, ..self }
    }

    /// Applies a batch, unless all of it is in the snapshot.
    fn replay(&mut self, batch: RecoveredBatch<'_>) -> Result<(), DecodeError> {
        self.replay_producer(&batch)?;
        let RecoveredBatch { partition, batch, position } = batch;
        if self.from(partition).is_some_and(|from| position <= from) {
            return Ok(());
        }
        self.replayed_bytes += batch.bytes.len() as u64;
        self.replayed_records += u64::from(batch.header.records_count.unsigned_abs());
        let mut records = batch.records()?.filter(|record| !is_lost(record));
        let index = partition.index;
        match InternalTopic::of(partition) {
            InternalTopic::Cluster => records.try_for_each(|record| self.replay_cluster(&record?)),
            InternalTopic::ConsumerOffsets => {
                let foreign = "records of a partition that another shard has";
                let replayed = self.slots.on_led(Slot(index), |coordinator, _| {
                    coordinator.replay_batch(&batch.header, records, position)
                });
                replayed.ok_or(DecodeError::InvalidBatch(foreign))?
            }
            InternalTopic::TransactionState => {
                let partition = TransactionsPartition(index);
                records.try_for_each(|it| self.replay_transaction(partition, &it?, position))
            }
            InternalTopic::ShareState => {
                records.try_for_each(|record| self.replay_share(Slot(index), &batch, &record?))
            }
        }
    }

    /// Notes the transaction of a batch of offsets, or its end, unless it is in the snapshot.
    fn replay_producer(&mut self, found: &RecoveredBatch<'_>) -> Result<(), DecodeError> {
        let index = found.partition.index;
        if InternalTopic::of(found.partition) != InternalTopic::ConsumerOffsets {
            return Ok(());
        }
        let from = self.snapshot.map(|it| from(&self.transactions_in_snapshot, index, &it));
        if from.is_some_and(|from| found.position <= from) {
            return Ok(());
        }
        self.slots.replay_producer(Slot(index), &found.batch)
    }

    /// The position up to which all operations of a partition are in the snapshot.
    fn from(&self, partition: LogPartition) -> Option<u64> {
        let header = self.snapshot?;
        let index = partition.index;
        Some(match InternalTopic::of(partition) {
            InternalTopic::ConsumerOffsets => from(&self.in_snapshot, index, &header),
            InternalTopic::ShareState => from(&self.shares_in_snapshot, index, &header),
            InternalTopic::Cluster | InternalTopic::TransactionState => header.from,
        })
    }

    fn replay_cluster(&mut self, record: &Record<'_>) -> Result<(), DecodeError> {
        let read = record.key.map(|key| ClusterRecord::read(key, record.value)).transpose()?;
        read.flatten().iter().for_each(|record| self.image.apply(record));
        Ok(())
    }

    fn replay_transaction(
        &mut self,
        partition: TransactionsPartition,
        record: &Record<'_>,
        position: u64,
    ) -> Result<(), DecodeError> {
        let read = record.key.map(|key| TransactionRecord::read(key, record.value)).transpose()?;
        let mut records = read.flatten().into_iter();
        records.try_for_each(|record| self.transactions.replay(partition, &record, position))
    }

    fn replay_share(
        &mut self,
        slot: Slot,
        batch: &Batch<'_>,
        record: &Record<'_>,
    ) -> Result<(), DecodeError> {
        let read = record.key.map(|key| ShareRecord::read(key, record.value)).transpose()?;
        let Some(read) = read.flatten() else { return Ok(()) };
        let ends = self.share_ends.get(&slot);
        if ends.is_some_and(|ends| ends.have(&read, batch.offset(record))) {
            return Ok(());
        }
        self.shares.replay(slot, &read)
    }

    /// Checks that snapshot and log belong together, after the whole log is read. Loads groups with
    /// members.
    pub(super) fn checked(mut self, directory: &Path) -> Result<Self, Unusable> {
        let Some(header) = self.snapshot else { return Ok(self) };
        self.slots.load_members();
        let refuse = |why: &dyn fmt::Display| Err(Unusable::Snapshot(why.to_string()));
        let is_others = self.known_log.is_some_and(|known| known.id != header.log_id);
        if !self.accepts_loss {
            belongs_to(&header, directory, &self.recovered)?;
        } else if is_others {
            return refuse(&"it is of another log");
        }
        if self.recovered.dropped_position() > header.from {
            return refuse(&SnapshotRefusal::LogIsAhead);
        }
        match (self.slots.damage(), self.transactions.damage()) {
            (Some(damage), _) => refuse(damage),
            (_, Some(damage)) => refuse(&damage),
            (None, None) => Ok(self),
        }
    }
}

/// The position up to which all operations of a slot are in one of the tables of a snapshot.
fn from(rows: &[SlotIndex], slot: u32, header: &SnapshotHeader) -> u64 {
    let row = rows.binary_search_by_key(&slot, |of_slot| of_slot.slot).ok();
    row.map_or(header.from, |row| rows[row].from)
}

/// Whether a snapshot belongs to a log. A snapshot gets its name once the log is flushed up to the
/// newest position in the snapshot, so a shorter log has lost operations.
fn belongs_to(
    header: &SnapshotHeader,
    directory: &Path,
    found: &Recovered,
) -> Result<(), LoadError> {
    match found.log_id() {
        None if Fault::StartDeletes.is_injected() => Ok(()),
        None => Err(LoadError::Missing { directory: directory.to_owned() }),
        Some(id) if id != header.log_id => {
            Err(LoadError::OtherSnapshot { path: directory.join(SNAPSHOT_FILE_NAME) })
        }
        Some(_) if found.position() < header.newest && !Fault::SilentCut.is_injected() => {
            let (directory, when) = (directory.to_owned(), "when its snapshot was named");
            Err(LoadError::short(directory, found, header.newest, when))
        }
        Some(_) => Ok(()),
    }
}

/// See [`Fault::LostTombstone`] and [`Fault::LostTarget`].
fn is_lost(record: &Result<Record<'_>, DecodeError>) -> bool {
    let is_tombstone = |record: &Record<'_>| {
        record.value.is_none() && record.key.is_some_and(|key| key.len() % 4 == 1)
    };
    let is_target = |record: &Record<'_>| {
        let is_of_some =
            |key: &[u8]| key.starts_with(&[0, 21]) && key.last().is_some_and(|last| last % 4 == 1);
        record.value.is_some() && record.key.is_some_and(is_of_some)
    };
    record.as_ref().is_ok_and(|record| {
        (Fault::LostTombstone.is_injected() && is_tombstone(record))
            || (Fault::LostTarget.is_injected() && is_target(record))
    })
}

/// The state of a snapshot, if there is one.
pub(super) fn open_snapshot(
    directory: &Path,
    common: &Common,
    number: u32,
) -> Result<Option<Start>, Unusable> {
    let unusable = |why: &dyn fmt::Display| Unusable::Snapshot(why.to_string());
    let path = |name| directory.join(name);
    let (path, aside) = (path(SNAPSHOT_FILE_NAME), path(SNAPSHOT_DAMAGED_FILE_NAME));
    let file = match MappedFile::open(&path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| unusable(&error))?,
    };
    begin_with(Arc::new(file), common, number).map(Some)
}

/// The state of a snapshot, from the bytes of its file.
fn begin_with(bytes: SnapshotBytes, common: &Common, number: u32) -> Result<Start, Unusable> {
    let unusable = |why: &dyn fmt::Display| Unusable::Snapshot(why.to_string());
    let file = (*bytes).as_ref();
    let Snapshot { header, slots, cluster, log, transactions, offset_transactions, shares } =
        Snapshot::open(file).map_err(|why| unusable(&why))?;
    let mut start = Start::new(common, number);
    start.snapshot = Some(header);
    let known = KnownSegments::read(&file[log], topics::RULES);
    start.known = known.map_err(|error| unusable(&error))?;
    read_cluster(&file[cluster], &mut start.image).map_err(|error| unusable(&error))?;
    for SlotIndex { slot, index, .. } in &transactions {
        let place = (index.range(), index.crc);
        let (partition, bytes) = (TransactionsPartition(*slot), Arc::clone(&bytes));
        let opened = start.transactions.open(partition, bytes, place, header.from);
        opened.map_err(|why| unusable(&why))?;
    }
    for SlotIndex { slot, index, .. } in &offset_transactions {
        let what = SnapshotRefusal::Damaged("the transactions in a slot");
        let bytes = index.of_file(file).ok_or_else(|| unusable(&what))?;
        let opened = start.slots.open_producers(Slot(*slot), bytes);
        opened.map_err(|error| unusable(&error))?;
    }
    for SlotIndex { slot, index, .. } in &slots {
        let opened = start.slots.on_led(Slot(*slot), |coordinator, _| {
            coordinator.open_snapshot(Arc::clone(&bytes), index.range(), index.crc)
        });
        let foreign = || unusable(&"it has groups of a slot that another shard has");
        opened.ok_or_else(foreign)?.map_err(|damage| unusable(&damage))?;
    }
    for SlotIndex { slot, index, .. } in &shares {
        let what = SnapshotRefusal::Damaged("the share states of a slot");
        let bytes = index.of_file(file).ok_or_else(|| unusable(&what))?;
        let ends = start.shares.open(Slot(*slot), bytes).map_err(|error| unusable(&error))?;
        start.share_ends.insert(Slot(*slot), ends);
    }
    (start.in_snapshot, start.transactions_in_snapshot) = (slots, offset_transactions);
    start.shares_in_snapshot = shares;
    Ok(start)
}

/// The groups that startup would produce from a snapshot and the log after it, all loaded. Changes
/// nothing.
///
/// # Errors
/// The reason why the snapshot would not be used, or would be found damaged later.
pub fn groups_of_snapshot(
    directory: &Path,
    bytes: Vec<u8>,
    common: &Common,
    number: u32,
) -> Result<Slots, String> {
    let words = |unusable| match unusable {
        Unusable::Snapshot(why) => why,
        Unusable::Log(error) => error.to_string(),
    };
    let start = begin_with(Arc::new(bytes), common, number).map_err(words)?;
    let start = replay_log(directory, start).map_err(|error| error.to_string())?;
    let mut slots = start.checked(directory).map_err(words)?.slots;
    slots.load_all();
    match slots.damage() {
        Some(damage) => Err(damage.to_string()),
        None => Ok(slots),
    }
}

/// Replays the log after the state of `start`.
pub(super) fn replay_log(directory: &Path, mut start: Start) -> Result<Start, LoadError> {
    let from = start.snapshot.map_or(0, |header| header.from);
    let recovery = Recovery::new(topics::RULES);
    let recovery = if start.accepts_loss {
        recovery.accepting_loss()
    } else {
        recovery.knowing(std::mem::take(&mut start.known)).sparing(from)
    };
    let mut failed = None;
    start.recovered = read_segments(directory, recovery, |batch| {
        failed = failed.take().or(start.replay(batch).err());
    })?;
    let Some(error) = failed else { return Ok(start) };
    // The log of another shard has records of other partitions.
    if let Some(known) = start.known_log.filter(|_| !start.accepts_loss) {
        known.check(directory, &start.recovered)?;
    }
    Err(LoadError::Record { directory: directory.to_owned(), error })
}
