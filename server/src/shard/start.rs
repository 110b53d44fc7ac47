//! The state of a shard while its log is read. It begins with a snapshot, if there is one, and the
//! log is replayed from the snapshot's position on.

use super::reading::read_segments;
use super::topics::Internal;
use super::{Common, KnownLog, LoadError};
use crate::topics::{self, name_of};
use muster_coordinator::SnapshotBytes;
use muster_faults::Fault;
use muster_runtime::{Difference, Load, TopicSet, differences};
use muster_storage::snapshot::{
    SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME, SNAPSHOT_HEADER_BYTES, Snapshot,
    SnapshotHeader, SnapshotRefusal,
};
use muster_storage::{Recovered, Recovery};
use muster_uring::MappedFile;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
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
    pub(super) load: Load<Internal>,
    known_log: Option<KnownLog>,
    /// Whether all damage is skipped.
    accepts_loss: bool,
    pub(super) recovered: Recovered,
}

impl Start {
    /// An empty state.
    pub(super) fn new(common: &Common, number: u32) -> Self {
        Self::of(Load::new(Internal::new(common, number)), common, number)
    }

    /// The state of a snapshot, from the bytes of its file.
    fn of_snapshot(bytes: SnapshotBytes, common: &Common, number: u32) -> Result<Self, Unusable> {
        let load = Load::with_snapshot(Internal::new(common, number), &bytes);
        load.map(|load| Self::of(load, common, number)).map_err(unusable)
    }

    fn of(load: Load<Internal>, common: &Common, number: u32) -> Self {
        let known_log = common.known_log(number).copied();
        Self { load, known_log, accepts_loss: false, recovered: Recovered::default() }
    }

    /// Sets whether all damage of the log is skipped.
    pub(super) fn accepting_loss(self, accepts_loss: bool) -> Self {
        Self { accepts_loss, ..self }
    }

    /// Checks that snapshot and log belong together, after the whole log is read. Loads groups with
    /// members.
    pub(super) fn checked(mut self, directory: &Path) -> Result<Self, Unusable> {
        let Some(header) = self.load.snapshot() else { return Ok(self) };
        let is_others = self.known_log.is_some_and(|known| known.id != header.log_id);
        if !self.accepts_loss {
            belongs_to(&header, directory, &self.recovered)?;
        } else if is_others {
            return Err(unusable("it is of another log"));
        }
        self.load.topics.slots.load_members();
        self.load.refusal(&self.recovered).map_or(Ok(self), |why| Err(unusable(why)))
    }
}

fn unusable(why: impl fmt::Display) -> Unusable {
    Unusable::Snapshot(why.to_string())
}

/// Checks that a snapshot belongs to a log. Before a snapshot got its name, the log was flushed up
/// to the newest position in the snapshot. So a log that ends earlier has lost operations.
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
    let path = |name| directory.join(name);
    let (path, aside) = (path(SNAPSHOT_FILE_NAME), path(SNAPSHOT_DAMAGED_FILE_NAME));
    let file = match MappedFile::open(&path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unusable)?,
    };
    Start::of_snapshot(Arc::new(file), common, number).map(Some)
}

/// The format of the snapshot in a directory, if this version does not read it.
pub fn unread_snapshot(directory: &Path) -> Option<u16> {
    let mut head = Vec::new();
    let file = File::open(directory.join(SNAPSHOT_FILE_NAME)).ok()?;
    file.take(SNAPSHOT_HEADER_BYTES as u64).read_to_end(&mut head).ok()?;
    match Snapshot::open(&head) {
        Err(SnapshotRefusal::Version(format)) => Some(format),
        Ok(_) | Err(_) => None,
    }
}

/// The comparison of a snapshot with the log beside it.
pub struct Compared {
    /// The number of groups in the state that the snapshot and the log after it result in.
    pub groups: usize,
    /// Descriptions of what differs between this state and the state from the whole log alone.
    pub differences: Vec<String>,
}

/// Compares two states: the one that startup would get from a snapshot and the log after it, and
/// the one that replay of the whole log results in. Changes nothing.
///
/// # Errors
/// The reason why startup would not use the snapshot, or would later find it damaged.
pub fn compare_snapshot(
    directory: &Path,
    bytes: Vec<u8>,
    common: &Common,
    number: u32,
) -> Result<Compared, String> {
    let words = |unusable| match unusable {
        Unusable::Snapshot(why) => why,
        Unusable::Log(error) => error.to_string(),
    };
    let replayed = |start| replay_log(directory, start).map_err(|error| error.to_string());
    let start = Start::of_snapshot(Arc::new(bytes), common, number).map_err(words)?;
    let mut one = replayed(start)?.checked(directory).map_err(words)?.load.topics;
    let mut other = replayed(Start::new(common, number))?.load.topics;
    let named = |Difference { partition, noun, id }| {
        format!("{}: {noun} {id:?} differs from its records in the log", name_of(partition))
    };
    let mut differences: Vec<_> =
        differences(&mut one, &mut other).into_iter().map(named).collect();
    let image = |of: &Internal| of.image.as_ref().map(|it| it.image().records(&common.config));
    if image(&one) != image(&other) {
        differences.push("the cluster's state differs from its records in the log".to_owned());
    }
    match one.damage() {
        Some(damage) => Err(damage.to_string()),
        None => Ok(Compared { groups: one.slots.groups(), differences }),
    }
}

/// Replays the part of the log that comes after the state in `start`.
pub(super) fn replay_log(directory: &Path, mut start: Start) -> Result<Start, LoadError> {
    let Start { load, accepts_loss, .. } = &mut start;
    let recovery =
        if *accepts_loss { Recovery::new(topics::RULES).accepting_loss() } else { load.recovery() };
    let mut failed = None;
    start.recovered = read_segments(directory, recovery, |batch| {
        failed = failed.take().or(load.replay(batch).err());
    })?;
    let Some(error) = failed else { return Ok(start) };
    // If this is the log of another shard, its records fail because they are of other partitions.
    if let Some(known) = start.known_log.filter(|_| !start.accepts_loss) {
        known.check(directory, &start.recovered)?;
    }
    Err(LoadError::Record { directory: directory.to_owned(), error })
}
