//! The free space of the data directory's volume. A separate thread checks it, as a check may wait
//! for the disk; shards read the last result.

use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The result of the last check. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct DiskSpace(Arc<Look>);

#[derive(Debug, Default)]
struct Look {
    /// 0 before the first check.
    total: AtomicU64,
    usable: AtomicU64,
    is_short: AtomicBool,
}

impl DiskSpace {
    /// A fixed result.
    pub fn of(volume: Volume) -> Self {
        let space = Self::default();
        space.set(volume, false);
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

    /// Stores the result of a check.
    pub fn set(&self, volume: Volume, is_short: bool) {
        self.0.usable.store(volume.usable, Relaxed);
        self.0.total.store(volume.total, Relaxed);
        self.0.is_short.store(is_short, Relaxed);
    }
}
