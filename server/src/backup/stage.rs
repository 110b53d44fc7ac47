//! The directory `backup` in the data directory, in which a backup is made. The file
//! `backup/ticket` names the subdirectory for the server's hard links.

use super::BACKUP;
use crate::directories::absent_is_fine;
use muster_codec::Uuid;
use rustix::fs::{Mode, OFlags, open, openat};
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use tracing::warn;

/// A limit for reading tickets, which are shorter.
const TICKET_BYTES_MAX: u64 = 64;

/// The directory of a backup under way. Dropping this value removes the directory.
#[derive(Debug)]
pub(crate) struct Stage {
    path: PathBuf,
    pub(crate) ticket: String,
    /// The directory of the hard links.
    pub(crate) names: PathBuf,
    /// Locked while the backup is under way.
    _lock: File,
}

impl Stage {
    /// Makes the directory and gives it to the owner of the data directory. A directory that a
    /// killed tool has left is removed first.
    ///
    /// # Errors
    /// Another backup is under way, or a file system operation failed.
    pub(crate) fn make(data: &Path, id: Uuid) -> io::Result<Self> {
        let path = data.join(BACKUP);
        if path.exists() {
            let _held = lock(&path)?;
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path)?;
        let lock = lock(&path)?;
        let ticket: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
        write_ticket(&path, &ticket, &fs::metadata(data)?)?;
        Ok(Self { names: data.join(names_in(&ticket)), path, ticket, _lock: lock })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The next backup or the next startup removes the rest.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Writes a ticket. The server may run as another user, who owns the data directory; the directory
/// of the backup and the ticket are given to this user. Symbolic links are not followed, because
/// this user may have put one here.
fn write_ticket(path: &Path, ticket: &str, owner: &Metadata) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = File::from(open(path, flags, Mode::empty())?);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(openat(&directory, TICKET, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(ticket.as_bytes())?;
    give(&file, owner)?;
    give(&directory, owner)
}

/// Gives a file to the user and the group that own another file.
pub(crate) fn give(file: &File, owner: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (owner.uid(), owner.gid()) == (own.uid(), own.gid()) {
        return Ok(());
    }
    fchown(file, Some(owner.uid()), Some(owner.gid()))
}

/// Whether a backup of the data directory is under way, or was interrupted.
pub(crate) fn is_under_way(data: &Path) -> bool {
    data.join(BACKUP).exists()
}

/// Removes the directory that a killed tool has left.
pub(crate) fn remove_left(data: &Path) {
    let path = data.join(BACKUP);
    let removed = match lock(&path) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return,
        held => held.and_then(|_held| fs::remove_dir_all(&path)),
    };
    if let Err(error) = absent_is_fine(removed) {
        warn!("could not remove the directory of an earlier backup: {error}");
    }
}

/// The ticket in a data directory.
///
/// # Errors
/// There is no ticket, or it is invalid.
pub(crate) fn ticket_of(data: &Path) -> io::Result<String> {
    let file = File::open(data.join(BACKUP).join(TICKET))?;
    let mut ticket = String::new();
    file.take(TICKET_BYTES_MAX).read_to_string(&mut ticket)?;
    let is_ticket = ticket.len() == 32 && ticket.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_ticket { Ok(ticket) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The directory for hard links, relative to the data directory.
pub(crate) fn names_in(ticket: &str) -> PathBuf {
    Path::new(BACKUP).join(ticket)
}

const TICKET: &str = "ticket";

fn lock(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::Error(error)) => Err(error),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "another backup is under way"))
        }
    }
}
