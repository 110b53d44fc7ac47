//! The space of the volume that the data directory is on, as a thread of its own last saw it: a
//! look may wait for a disk, and no shard does.

use crate::volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The last look at the volume; clones share it.
#[derive(Debug, Clone, Default)]
pub struct DiskSpace(Arc<Look>);

#[derive(Debug, Default)]
struct Look {
    /// 0 before the first look.
    total: AtomicU64,
    usable: AtomicU64,
    is_short: AtomicBool,
}

impl DiskSpace {
    /// A volume that was looked at once.
    pub fn of(volume: Volume) -> Self {
        let space = Self::default();
        space.set(volume, false);
        space
    }

    /// The volume; None before the first look, or if it cannot be asked.
    pub fn volume(&self) -> Option<Volume> {
        let (total, usable) = (self.0.total.load(Relaxed), self.0.usable.load(Relaxed));
        (total > 0).then_some(Volume { total, usable })
    }

    /// Whether the reserve is all that is left: produces are refused.
    pub fn is_short(&self) -> bool {
        self.0.is_short.load(Relaxed)
    }

    /// Notes a look.
    pub fn set(&self, volume: Volume, is_short: bool) {
        self.0.usable.store(volume.usable, Relaxed);
        self.0.total.store(volume.total, Relaxed);
        self.0.is_short.store(is_short, Relaxed);
    }
}
