//! The directory `trash/`: files that muster takes out of use without deleting them. The name of an
//! entry is the date and the file's former path. The files are logs for another number of shards,
//! directories of unknown topics, the segments of a damaged log that a running server has
//! rewritten, and files that `muster log recover` removes. There are also copies of bytes that a
//! file loses: the torn end of a shard's log, and parts that a repair cuts out of segments. Entries
//! are removed after `trash.retention.ms`, and never if it is -1.

use crate::calendar::{civil_date, days};
use crate::clock::wall;
use crate::directories::sync_names;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tracing::{info, warn};

/// The name of the trash in the data directory.
pub(crate) const TRASH: &str = "trash";

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// How often old entries are removed.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Moves a file or directory of a data directory into its trash, durably. Returns the new path.
/// `path` is relative to the data directory, `now` is in milliseconds since the epoch.
///
/// # Errors
/// A file system operation failed.
pub fn move_aside(data: &Path, path: &Path, now: i64) -> io::Result<PathBuf> {
    let from = data.join(path);
    let place = free_place(data, &what(path), now)?;
    fs::rename(&from, &place)?;
    sync_names(data, &place)?;
    sync_names(data, &from)?;
    Ok(place)
}

/// Copies bytes that will be overwritten, or cut out of a file, to an entry of the trash, durably.
/// Returns the path of the entry.
///
/// # Errors
/// A file system operation failed.
pub fn keep(data: &Path, what: &str, bytes: &[u8], now: i64) -> io::Result<PathBuf> {
    let place = free_place(data, what, now)?;
    let mut file = File::create_new(&place)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_names(data, &place)?;
    Ok(place)
}

/// The path of the trash entry for a file or directory. Both paths are relative to the data
/// directory.
pub(crate) fn place_of(path: &Path, now: i64) -> PathBuf {
    place(&what(path), now)
}

/// The path of a trash entry, relative to the data directory.
pub(crate) fn place(what: &str, now: i64) -> PathBuf {
    Path::new(TRASH).join(format!("{}-{what}", date(now)))
}

/// Removes old entries now and every hour, on a thread that runs until the process ends. A negative
/// retention keeps all entries.
pub(crate) fn keep_emptying(data: &Path, retention_ms: i64) -> io::Result<()> {
    if retention_ms < 0 {
        return Ok(());
    }
    let data = data.to_owned();
    let keep_emptying = move || {
        loop {
            match empty(&data, retention_ms, wall().0) {
                Ok(removed) => {
                    removed.iter().for_each(|path| info!("removed {}", path.display()));
                }
                Err(error) => warn!("could not empty the trash in {}: {error}", data.display()),
            }
            thread::sleep(INTERVAL);
        }
    };
    thread::Builder::new().name("trash".to_owned()).spawn(keep_emptying).map(drop)
}

/// Removes entries that are at least `retention_ms` old, and returns their paths. Entries without a
/// date in their name are not muster's, and stay.
///
/// # Errors
/// A file system operation failed.
pub(crate) fn empty(data: &Path, retention_ms: i64, now: i64) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(data.join(TRASH)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut removed = Vec::new();
    for entry in entries {
        let entry = entry?;
        let since = date_of(&entry.file_name().to_string_lossy());
        if since.is_some_and(|since| now.saturating_sub(since) >= retention_ms) {
            remove(&entry)?;
            removed.push(entry.path());
        }
    }
    Ok(removed)
}

fn remove(entry: &fs::DirEntry) -> io::Result<()> {
    let path = entry.path();
    if entry.file_type()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

/// An unused path for an entry. Creates the trash if it does not exist.
fn free_place(data: &Path, what: &str, now: i64) -> io::Result<PathBuf> {
    fs::create_dir_all(data.join(TRASH))?;
    let mut path = data.join(place(what, now));
    for number in 2.. {
        if !path.try_exists()? {
            break;
        }
        path = data.join(place(&format!("{what}-{number}"), now));
    }
    Ok(path)
}

/// A path as a part of an entry's name.
fn what(path: &Path) -> String {
    path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "-")
}

/// A date in an entry's name: `2026-11-22T17-14-38Z`.
fn date(ms: i64) -> String {
    let (days, seconds) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS) / 1_000);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}Z")
}

/// Parses the date at the start of an entry's name.
fn date_of(name: &str) -> Option<i64> {
    let number = |at: std::ops::Range<usize>| name.get(at)?.parse::<i64>().ok();
    let days = days(number(0..4)?, number(5..7)?, number(8..10)?);
    let seconds = number(11..13)? * 3_600 + number(14..16)? * 60 + number(17..19)?;
    let ms = days * DAY_MS + seconds * 1_000;
    // An invalid date would be formatted differently.
    name.starts_with(&date(ms)).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_367_678_000;

    #[test]
    fn names_begin_with_a_date_that_is_read_again() {
        assert_eq!(date(NOW), "2026-11-22T17-14-38Z");
        assert_eq!(date(0), "1970-01-01T00-00-00Z");
        assert_eq!(date(951_827_696_000), "2000-02-29T12-34-56Z");
        assert_eq!(date_of("2026-11-22T17-14-38Z-shards-3"), Some(NOW));
        for name in ["", "shards-3", "2026-11-32T17-14-38Z", "2026-13-01T00-00-00Z", "2026-11-22"] {
            assert_eq!(date_of(name), None, "{name}");
        }
    }

    #[test]
    fn entries_stay_for_the_retention_time_and_are_then_removed() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        let mut places = Vec::new();
        for round in 0..2 {
            fs::create_dir_all(data.join("shards-3/0")).unwrap();
            fs::write(data.join("shards-3/0/file"), [round]).unwrap();
            places.push(move_aside(data, Path::new("shards-3"), NOW).unwrap());
            assert!(!data.join("shards-3").exists());
        }
        places.push(keep(data, "bytes", b"kept", NOW).unwrap());
        fs::write(data.join("trash/of another program"), "").unwrap();
        assert_eq!(empty(data, DAY_MS, NOW + DAY_MS - 1).unwrap(), [""; 0].map(PathBuf::from));
        for (round, place) in places[..2].iter().enumerate() {
            assert_eq!(fs::read(place.join("0/file")).unwrap(), [round as u8]);
        }
        assert_eq!(fs::read(&places[2]).unwrap(), b"kept");
        let mut removed = empty(data, DAY_MS, NOW + DAY_MS).unwrap();
        removed.sort();
        places.sort();
        assert_eq!(removed, places);
        assert!(data.join("trash/of another program").exists());
        assert!(places.iter().all(|place| !place.exists()));
    }

    #[test]
    fn a_directory_without_trash_is_accepted() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(empty(data.path(), 0, NOW).unwrap(), [""; 0].map(PathBuf::from));
    }
}
