//! The reserve of disk space for shard logs, `meta.properties` and deletions.
//!
//! Its size is `disk.reserve.bytes`, but at most 1/16 of the volume. A file of this size occupies
//! the space, because other programs may fill the disk, too. A thread watches the volume. Shards
//! refuse produces while less than twice this size is free, where the file's own bytes count as
//! free. Groups, fetches and deletions work as before. The file is emptied when little other space
//! is left: without space for `meta.properties` and the next log segments the server could not
//! start, and so could not delete topics.

use crate::disk_space::DiskSpace;
use crate::volume::{Volume, volume};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// The file that occupies the reserve, in the data directory.
pub const RESERVE_FILE_NAME: &str = "reserve";

/// The reserve takes at most 1 / this number of the volume.
const PARTS_OF_VOLUME: u64 = 16;

/// The time between two checks. The short one applies while a fast writer could fill the disk
/// within the normal one.
const INTERVAL: Duration = Duration::from_secs(1);
const SHORT_INTERVAL: Duration = Duration::from_millis(50);

/// If less than this is free beyond twice the size of the reserve, the thread checks more often.
const NEAR_BYTES: u64 = 4 << 30;

/// Checks the volume of a data directory. Empties the file of the reserve if startup needs its
/// space. Starts a thread, which continues the checks and creates the file.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn keep(data: &Path, configured: i64, shards: u32) -> io::Result<DiskSpace> {
    let mut reserve = Reserve::open(data, configured, shards);
    let space = reserve.space.clone();
    let watch = move || {
        loop {
            thread::sleep(reserve.look());
        }
    };
    thread::Builder::new().name("disk".to_owned()).spawn(watch)?;
    Ok(space)
}

/// The reserve of a data directory.
#[derive(Debug)]
struct Reserve {
    data: PathBuf,
    /// `disk.reserve.bytes`
    configured: u64,
    shards: u64,
    /// The length of the file in bytes.
    held: u64,
    space: DiskSpace,
    /// Whether the file system cannot make the file; this was logged.
    is_refused: bool,
}

/// The decision of a check: whether space is short, how many bytes each shard may accept until the
/// next check, and the new length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decision {
    is_short: bool,
    room: u64,
    held: u64,
}

impl Reserve {
    fn open(data: &Path, configured: i64, shards: u32) -> Self {
        let file = data.join(RESERVE_FILE_NAME);
        let held = std::fs::metadata(file).map_or(0, |file| file.len());
        let configured = configured.max(0).unsigned_abs();
        let (space, data, shards) = (DiskSpace::default(), data.to_owned(), shards.max(1).into());
        let mut reserve = Self { data, configured, shards, held, space, is_refused: false };
        if let Some(volume) = reserve.volume() {
            let decision = reserve.decide(volume);
            // The file may only shrink here. Only the thread lets it grow, because that may take
            // long.
            reserve.carry_out(volume, Decision { held: decision.held.min(held), ..decision });
        }
        reserve
    }

    /// Checks the volume. Returns the time until the next check.
    fn look(&mut self) -> Duration {
        let Some(volume) = self.volume() else {
            self.space.set_unknown();
            return INTERVAL;
        };
        let decision = self.decide(volume);
        self.carry_out(volume, decision);
        if self.is_near(volume) { SHORT_INTERVAL } else { INTERVAL }
    }

    fn volume(&self) -> Option<Volume> {
        volume(self.data.to_str()?)
    }

    /// The size of the reserve on a volume.
    fn bytes(&self, volume: Volume) -> u64 {
        self.configured.min(volume.total / PARTS_OF_VOLUME)
    }

    /// Whether a fast writer could reach the reserve before the next normal check.
    fn is_near(&self, volume: Volume) -> bool {
        self.configured > 0 && volume.usable + self.held < 2 * self.bytes(volume) + NEAR_BYTES
    }

    fn decide(&self, volume: Volume) -> Decision {
        let (bytes, was_short) = (self.bytes(volume), self.space.is_short());
        // The bytes of the file count as free. A shortage ends only when clearly more is free than
        // when it began, so that the state does not change back and forth.
        let free = volume.usable + self.held;
        let enough = 2 * bytes + if was_short { bytes / 8 } else { 0 };
        let is_short = free < enough;
        let held = if bytes == 0 || (is_short && volume.usable < bytes / 2) {
            0
        } else if !is_short && volume.usable >= 4 * bytes {
            bytes
        } else {
            self.held
        };
        let room = if self.is_near(volume) {
            free.saturating_sub(2 * bytes) / self.shards
        } else {
            u64::MAX
        };
        Decision { is_short, room, held }
    }

    fn carry_out(&mut self, volume: Volume, decision: Decision) {
        let Decision { is_short, room, held } = decision;
        if held != self.held {
            self.hold(held);
        }
        let was_short = self.space.is_short();
        self.space.set(volume, is_short, room);
        let (bytes, data) = (self.bytes(volume), self.data.display());
        let usable = volume.usable;
        if is_short && !was_short {
            error!(
                "{data} has {usable} bytes left, and {bytes} are kept for groups and deletions \
                 (disk.reserve.bytes): produces get KAFKA_STORAGE_ERROR. Delete topics or records, \
                 or make room"
            );
        } else if was_short && !is_short {
            info!("{data} has {usable} bytes again: produces are served");
        }
    }

    /// Sets the length of the file.
    fn hold(&mut self, bytes: u64) {
        match resize(&self.data.join(RESERVE_FILE_NAME), bytes) {
            Ok(()) if bytes < self.held => {
                warn!("gave up {} bytes that were kept for a full disk", self.held - bytes);
                self.held = bytes;
            }
            Ok(()) => self.held = bytes,
            Err(error) => {
                if !std::mem::replace(&mut self.is_refused, true) {
                    debug!("could not keep {bytes} bytes for a full disk: {error}");
                }
            }
        }
    }
}

/// Makes a file occupy this number of bytes on the volume.
fn resize(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::options().create(true).write(true).truncate(false).open(path)?;
    file.set_len(0)?;
    if bytes == 0 {
        return Ok(());
    }
    let taken = fallocate(&file, FallocateFlags::empty(), 0, bytes);
    if taken.is_err() {
        file.set_len(0)?;
    }
    Ok(taken?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const TOTAL: u64 = 10_240 * MIB;

    /// The decision for a configured reserve of 64 MiB: whether the disk is short, and the new
    /// length of the reserve's file. `held` is its present length. All sizes are in MiB.
    fn decided(was_short: bool, usable: u64, held: u64) -> (bool, u64) {
        let space = DiskSpace::default();
        space.set(Volume { total: TOTAL, usable: 0 }, was_short, 0);
        let data = PathBuf::from("data");
        let configured = 64 * MIB;
        let held = held * MIB;
        let reserve = Reserve { data, configured, shards: 2, held, space, is_refused: false };
        let Decision { is_short, held, .. } =
            reserve.decide(Volume { total: TOTAL, usable: usable * MIB });
        (is_short, held / MIB)
    }

    #[test]
    fn produces_are_refused_while_less_than_the_reserve_is_free_beside_the_file() {
        for (was_short, usable, held, expected) in [
            (false, 1_000, 0, (false, 64)),
            (false, 255, 0, (false, 0)),
            (false, 64, 64, (false, 64)),
            (false, 63, 64, (true, 64)),
            (true, 71, 64, (true, 64)),
            (true, 72, 64, (false, 64)),
            // Other programs continue to fill the disk, so the file is emptied. Other files can
            // then use its space.
            (true, 31, 64, (true, 0)),
            (true, 95, 0, (true, 0)),
            (true, 136, 0, (false, 0)),
            (true, 256, 0, (false, 64)),
            (false, 127, 0, (true, 0)),
        ] {
            let case = format!("{usable} MiB are free, {held} in the file, short: {was_short}");
            assert_eq!(decided(was_short, usable, held), expected, "{case}");
        }
    }

    #[test]
    fn all_shards_together_may_accept_what_is_free_beyond_twice_the_reserve() {
        let (space, data) = (DiskSpace::default(), PathBuf::from("data"));
        let configured = 64 * MIB;
        let mut reserve =
            Reserve { data, configured, shards: 2, held: 5 * MIB, space, is_refused: false };
        let small = |usable| Volume { total: 80 * MIB, usable };
        assert_eq!(reserve.decide(small(40 * MIB)).room, (45 - 10) * MIB / 2);
        assert_eq!(reserve.decide(small(5 * MIB)).room, 0);
        assert_eq!(reserve.decide(small(0)).room, 0);
        let large = Volume { total: TOTAL, usable: 4_300 * MIB };
        assert_eq!(reserve.decide(large).room, u64::MAX);
        reserve.configured = 0;
        assert_eq!(reserve.decide(small(0)).room, u64::MAX);
    }

    #[test]
    fn a_small_volume_keeps_a_sixteenth_and_no_reserve_keeps_nothing() {
        let of = |configured: i64, total: u64| {
            let data = tempfile::tempdir().unwrap();
            let reserve = Reserve::open(data.path(), configured, 1);
            reserve.bytes(Volume { total, usable: 0 })
        };
        assert_eq!(of(1 << 20, 32 << 20), 1 << 20);
        assert_eq!(of(1 << 20, 8 << 20), 512 << 10);
        assert_eq!(of(0, 8 << 20), 0);
    }

    #[test]
    fn the_file_takes_the_space_until_there_is_no_reserve() {
        let data = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::open(data.path(), 1 << 20, 1);
        let file = data.path().join(RESERVE_FILE_NAME);
        assert!(!file.exists(), "it is made later");
        reserve.look();
        let len = || std::fs::metadata(&file).unwrap().len();
        assert_eq!((len(), reserve.held), (1 << 20, 1 << 20));
        assert!(reserve.space.volume().is_some() && !reserve.space.is_short());
        // The next startup finds the file, and empties it if the reserve is switched off.
        assert_eq!(Reserve::open(data.path(), 1 << 20, 1).held, 1 << 20);
        assert_eq!(Reserve::open(data.path(), 0, 1).held, 0);
        assert_eq!(len(), 0);
    }
}
