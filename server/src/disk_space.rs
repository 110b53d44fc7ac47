//! The space of the volume that the data directory is on, as a thread of its own last saw it: a
//! look may wait for a disk, and no shard does.

use crate::volume::{Volume, volume};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The last look at the volume; clones share it.
#[derive(Debug, Clone, Default)]
pub struct DiskSpace(Arc<Look>);

#[derive(Debug, Default)]
struct Look {
    /// 0 if nobody has looked.
    total: AtomicU64,
    usable: AtomicU64,
}

impl DiskSpace {
    /// A volume that was looked at once.
    pub fn of(volume: Volume) -> Self {
        let space = Self::default();
        space.set(volume);
        space
    }

    /// The volume; None if nobody has looked, or it cannot be asked.
    pub fn volume(&self) -> Option<Volume> {
        let (total, usable) = (self.0.total.load(Relaxed), self.0.usable.load(Relaxed));
        (total > 0).then_some(Volume { total, usable })
    }

    /// Notes a look.
    pub fn set(&self, volume: Volume) {
        self.0.usable.store(volume.usable, Relaxed);
        self.0.total.store(volume.total, Relaxed);
    }

    /// Looks at the volume of a directory, and keeps looking on a thread of its own.
    ///
    /// # Errors
    /// There can be no further thread.
    pub(crate) fn watch(directory: &Path) -> io::Result<Self> {
        let (space, directory) = (Self::default(), directory.to_owned());
        let look = move |space: &Self| {
            let volume = directory.to_str().and_then(volume);
            volume.into_iter().for_each(|volume| space.set(volume));
        };
        look(&space);
        let watched = space.clone();
        let watch = move || {
            loop {
                thread::sleep(INTERVAL);
                look(&watched);
            }
        };
        thread::Builder::new().name("disk".to_owned()).spawn(watch)?;
        Ok(space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_of_a_directory_is_known_from_the_first_look_on() {
        let directory = tempfile::tempdir().unwrap();
        let found = DiskSpace::watch(directory.path()).unwrap().volume().unwrap();
        assert!(found.total > found.usable && found.usable > 0, "{found:?}");
        assert_eq!(DiskSpace::default().volume(), None);
        let none = DiskSpace::watch(Path::new("/no/such/path")).unwrap();
        assert_eq!(none.volume(), None);
    }
}
