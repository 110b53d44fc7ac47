//! Snapshots of the ids of a coordinator.

use muster_transactions::{Coordinator, IdsWalk, SnapshotPart};
use std::sync::Arc;

/// The place of a walk's first byte.
const BODY_AT: usize = 64;

/// A snapshot, which may be incomplete.
pub struct Snapshot {
    walk: IdsWalk,
    pub bytes: Vec<u8>,
    pub part: SnapshotPart,
    /// The position at which the snapshot was begun: it has all records up to there. As its ids are
    /// written in slices, it has some later records, too, up to the position `newest`.
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

    /// A snapshot of the current ids.
    pub fn of(coordinator: &Coordinator, position: u64) -> Self {
        let mut snapshot = Self::begin(position);
        loop {
            match snapshot.write(coordinator, position) {
                Written::Some(begun) => snapshot = begun,
                Written::Whole(snapshot) => return snapshot,
            }
        }
    }

    /// Opens the snapshot in a new coordinator. Returns a position: the caller must replay the
    /// records of the log after it.
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

/// The snapshots that a process wrote.
#[derive(Default)]
pub struct Snapshots {
    whole: Vec<Snapshot>,
    begun: Option<Snapshot>,
}

impl Snapshots {
    /// Begins a snapshot, or continues the one under way.
    pub fn write(&mut self, coordinator: &Coordinator, position: u64) {
        let begun = self.begun.take().unwrap_or_else(|| Snapshot::begin(position));
        match begun.write(coordinator, position) {
            Written::Some(begun) => self.begun = Some(begun),
            Written::Whole(snapshot) => self.whole.push(snapshot),
        }
    }

    /// Opens the last snapshot at startup. A snapshot counts only if the log was flushed up to its
    /// newest position. Returns the position after which the log must be replayed.
    pub fn open_last(&mut self, flushed: u64, coordinator: &mut Coordinator) -> u64 {
        self.begun = None;
        self.whole.retain(|it| it.newest <= flushed);
        self.whole.last().map_or(0, |snapshot| snapshot.open(coordinator))
    }
}
