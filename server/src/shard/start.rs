//! The state of a shard while its log is read. It begins with a snapshot, if there is one, and the
//! log is replayed from the snapshot's position on.

use super::reading::read_segments;
use super::{Common, KnownLog, LoadError};
use crate::cluster::ClusterImage;
use crate::controller::Accepted;
use crate::groups::{Slots, TransactionCoordinators};
use crate::placement::{CONTROLLER, Slot, TransactionsPartition};
use crate::shares::SlotStates;
use crate::topics::{self, InternalTopic};
use crate::transactions::Coordinators;
use muster_codec::DecodeError;
use muster_coordinator::SnapshotBytes;
use muster_faults::Fault;
use muster_runtime::{Topic, TopicSet, open_sections};
use muster_storage::snapshot::{
    SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME, Snapshot, SnapshotHeader, SnapshotRefusal,
};
use muster_storage::{KnownSegments, Recovered, RecoveredBatch, Recovery};
use muster_uring::MappedFile;
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
    number: u32,
    pub(super) slots: Slots,
    pub(super) transactions: Coordinators,
    pub(super) shares: SlotStates,
    pub(super) image: Accepted,
    known_log: Option<KnownLog>,
    /// Whether all damage is skipped.
    accepts_loss: bool,
    /// Segments that need not be read.
    known: KnownSegments,
    pub(super) snapshot: Option<SnapshotHeader>,
    pub(super) recovered: Recovered,
    pub(super) replayed_bytes: u64,
    pub(super) replayed_records: u64,
}

impl Start {
    /// An empty state.
    pub(super) fn new(common: &Common, number: u32) -> Self {
        Self {
            number,
            slots: Slots::new(&common.config, common.placement, number),
            transactions: Coordinators::new(&common.config, common.placement, number, common.life),
            shares: SlotStates::new(&common.config, common.placement, number),
            image: Accepted::new(ClusterImage::new(&common.config), &common.config),
            known_log: common.known_log(number).copied(),
            accepts_loss: false,
            known: KnownSegments::default(),
            snapshot: None,
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
    fn replay(&mut self, found: RecoveredBatch<'_>) -> Result<(), DecodeError> {
        let RecoveredBatch { partition, batch, position } = found;
        let index = partition.index;
        let replayed = match InternalTopic::of(partition) {
            InternalTopic::Cluster => self.image.replay(&batch, position),
            InternalTopic::ConsumerOffsets => self.slots.replay(Slot(index), &batch, position),
            InternalTopic::TransactionState => {
                self.transactions.replay(TransactionsPartition(index), &batch, position)
            }
            InternalTopic::ShareState => self.shares.replay(Slot(index), &batch, position),
        };
        let is_new = match replayed {
            Some(replayed) => replayed?,
            None if self.snapshot.is_some_and(|it| position <= it.from) => false,
            None => {
                let foreign = "records of a partition that another shard has";
                return Err(DecodeError::InvalidBatch(foreign));
            }
        };
        if is_new {
            self.replayed_bytes += batch.bytes.len() as u64;
            self.replayed_records += u64::from(batch.header.records_count.unsigned_abs());
        }
        Ok(())
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

impl TopicSet for Start {
    fn get(&mut self, number: u8) -> Option<&mut dyn Topic> {
        Some(match InternalTopic::of_number(number)? {
            InternalTopic::Cluster if self.number != CONTROLLER => return None,
            InternalTopic::Cluster => self.image.topic(),
            InternalTopic::ConsumerOffsets => self.slots.topic(),
            InternalTopic::TransactionState => self.transactions.topic(),
            InternalTopic::ShareState => self.shares.topic(),
        })
    }
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
    let snapshot = Snapshot::open(file).map_err(|why| unusable(&why))?;
    let mut start = Start::new(common, number);
    start.snapshot = Some(snapshot.header);
    let known = KnownSegments::read(&file[snapshot.log.clone()], topics::RULES);
    start.known = known.map_err(|error| unusable(&error))?;
    let opened = open_sections(&mut start, topics::RULES, &snapshot, &bytes);
    opened.map_err(|why| unusable(&why))?;
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
