//! Snapshots of the ids of a coordinator.

use muster_transactions::{Coordinator, IdsWalk, SnapshotPart};
use std::sync::Arc;

/// The place of the first byte of a walk.
const BODY_AT: usize = 64;

/// A snapshot, perhaps one that is being written.
pub struct Snapshot {
    walk: IdsWalk,
    pub bytes: Vec<u8>,
    pub part: SnapshotPart,
    /// All records up to this position are in it, and those of some ids up to the other.
    pub from: u64,
    pub newest: u64,
}

pub enum Written {
    Some(Snapshot),
    Whole(Snapshot),
}

impl Snapshot {
    pub fn begin(from: u64) -> Self {
        let (walk, bytes) = (IdsWalk::new(BODY_AT as u64), vec![0; BODY_AT]);
        Self { walk, bytes, part: SnapshotPart::default(), from, newest: from }
    }

    /// Writes the next slice.
    pub fn write(mut self, coordinator: &Coordinator, position: u64) -> Written {
        self.newest = position;
        match coordinator.write_snapshot(&mut self.walk, 1_000, &mut self.bytes).unwrap() {
            Some(part) => Written::Whole(Self { part, ..self }),
            None => Written::Some(self),
        }
    }

    /// That of the ids as they are.
    pub fn of(coordinator: &Coordinator, position: u64) -> Self {
        let mut snapshot = Self::begin(position);
        loop {
            match snapshot.write(coordinator, position) {
                Written::Some(begun) => snapshot = begun,
                Written::Whole(snapshot) => return snapshot,
            }
        }
    }

    /// Opens it in a new coordinator; returns the position from which the log is to be replayed.
    pub fn open(&self, coordinator: &mut Coordinator) -> u64 {
        self.try_open(coordinator).unwrap();
        self.from
    }

    pub fn try_open(&self, coordinator: &mut Coordinator) -> Result<(), &'static str> {
        let SnapshotPart { at, len, crc } = self.part;
        let place = at as usize..(at + len) as usize;
        coordinator.open_snapshot(Arc::new(self.bytes.clone()), place, crc, self.from)
    }
}

/// The snapshots of a process.
#[derive(Default)]
pub struct Snapshots {
    whole: Vec<Snapshot>,
    begun: Option<Snapshot>,
}

impl Snapshots {
    /// Begins a snapshot, or writes the next slice of the one under way.
    pub fn write(&mut self, coordinator: &Coordinator, position: u64) {
        let begun = self.begun.take().unwrap_or_else(|| Snapshot::begin(position));
        match begun.write(coordinator, position) {
            Written::Some(begun) => self.begun = Some(begun),
            Written::Whole(snapshot) => self.whole.push(snapshot),
        }
    }

    /// A start: opens the last one; one gets its name when the log is flushed up to the last
    /// position in it. Returns the position from which the log is to be replayed.
    pub fn open_last(&mut self, flushed: u64, coordinator: &mut Coordinator) -> u64 {
        self.begun = None;
        self.whole.retain(|it| it.newest <= flushed);
        self.whole.last().map_or(0, |snapshot| snapshot.open(coordinator))
    }
}
