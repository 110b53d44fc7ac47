//! The free space of the data directory's volume. A separate thread checks it, as a check may wait
//! for the disk; shards read the last result.

use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

/// The result of the last check. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct DiskSpace(Arc<Look>);

#[derive(Debug, Default)]
struct Look {
    /// 0 before the first check.
    total: AtomicU64,
    usable: AtomicU64,
    is_short: AtomicBool,
    /// See [`DiskSpace::room`].
    room: AtomicU64,
    checks: AtomicU64,
}

impl DiskSpace {
    /// A fixed result.
    pub fn of(volume: Volume) -> Self {
        let space = Self::default();
        space.set(volume, false, u64::MAX);
        space
    }

    /// The sizes that the last successful check found. None if no check has succeeded yet.
    pub fn volume(&self) -> Option<Volume> {
        let (total, usable) = (self.0.total.load(Relaxed), self.0.usable.load(Relaxed));
        (total > 0).then_some(Volume { total, usable })
    }

    /// Whether so little space is free that produces are refused.
    pub fn is_short(&self) -> bool {
        self.0.is_short.load(Relaxed)
    }

    /// The number of checks that have succeeded so far.
    pub fn checks(&self) -> u64 {
        self.0.checks.load(Acquire)
    }

    /// How many bytes each shard may accept from producers until the next check, so that all shards
    /// together leave the reserve free. Unlimited far from the reserve; 0 before the first check.
    pub fn room(&self) -> u64 {
        self.0.room.load(Relaxed)
    }

    /// Lifts the limit of what shards may accept, because a check has failed.
    pub fn set_unknown(&self) {
        self.0.room.store(u64::MAX, Relaxed);
    }

    /// Stores the result of a check.
    pub fn set(&self, volume: Volume, is_short: bool, room: u64) {
        self.0.usable.store(volume.usable, Relaxed);
        self.0.total.store(volume.total, Relaxed);
        self.0.is_short.store(is_short, Relaxed);
        self.0.room.store(room, Relaxed);
        // A shard that sees the number of this check sees its results, too.
        self.0.checks.fetch_add(1, Release);
    }
}

/// The part of one shard in what producers may write until the next check.
///
/// Near the reserve a check takes place every 50 ms. In this time a fast producer could fill a
/// small volume, so each shard counts what it has accepted since.
#[derive(Debug)]
pub struct DiskRoom {
    space: DiskSpace,
    /// The newest check that this shard knows.
    check: u64,
    /// The bytes that the shard has accepted since that check, and those that were not written by
    /// then.
    accepted: u64,
}

impl DiskRoom {
    pub fn new(space: DiskSpace) -> Self {
        Self { space, check: 0, accepted: 0 }
    }

    /// Whether a batch of `len` bytes may be accepted, while `unwritten` bytes of earlier batches
    /// are not written yet.
    pub fn admits(&mut self, len: usize, unwritten: usize) -> bool {
        let checks = self.space.checks();
        if checks != self.check {
            (self.check, self.accepted) = (checks, unwritten as u64);
        }
        let fits = self.accepted.saturating_add(len as u64) <= self.space.room();
        // Without a check, as on a file system that does not report its space, nothing is limited.
        checks == 0 || (fits && !self.space.is_short())
    }

    /// Counts an accepted batch.
    pub fn accept(&mut self, len: usize) {
        self.accepted = self.accepted.saturating_add(len as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: Volume = Volume { total: 1000, usable: 500 };

    #[test]
    fn a_shard_accepts_its_room_once_between_two_checks_and_counts_what_is_unwritten() {
        let space = DiskSpace::default();
        let mut room = DiskRoom::new(space.clone());
        assert!(room.admits(1_000_000, 0), "no check has succeeded yet");
        space.set(VOLUME, false, 100);
        assert!(room.admits(100, 0) && !room.admits(101, 0));
        room.accept(60);
        assert!(room.admits(40, 60) && !room.admits(41, 60));
        // The 60 bytes are written, but the last check does not know it.
        assert!(!room.admits(41, 0));
        space.set(VOLUME, false, 100);
        assert!(room.admits(70, 30) && !room.admits(71, 30));
        space.set(VOLUME, true, 0);
        assert!(!room.admits(1, 0));
        space.set(VOLUME, false, u64::MAX);
        room.accept(7);
        assert!(room.admits(usize::MAX, 0));
    }
}
