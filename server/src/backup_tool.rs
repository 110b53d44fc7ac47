//! `muster backup`: collects the files that a running server has linked, or the files of a data
//! directory that no server uses.

use crate::backup::{Extents, FileExtent, Stage, give};
use crate::data_dir::{
    self, DataDir, DataDirError, Entry, Meta, STAMP_FILE_NAME, entries, stamp_file,
};
use crate::directories::sync_name;
use crate::http_agent;
use crate::partitions::layout::TOPICS;
use crate::random::RandomIds;
use muster_coordinator::Ids;
use muster_storage::partition_log::START_OFFSET_FILE;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait for the server's answer.
const PATIENCE: Duration = Duration::from_secs(90);

/// The longest answer of the server: about a million files.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The source, the target and the options of a backup.
#[derive(Debug)]
pub struct Backup<'b> {
    pub data: &'b Path,
    /// A directory that does not exist yet.
    pub target: &'b Path,
    /// The server's admin listener, and its token if it requires one.
    pub admin: SocketAddr,
    pub token: Option<&'b str>,
    /// Whether to copy all files. Otherwise files that are never written again are hard-linked if
    /// both directories are on one file system.
    pub copies: bool,
}

/// The result of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupDone {
    pub source: Source,
    pub linked: u64,
    pub copied: u64,
    /// The bytes of the files that were copied.
    pub copied_bytes: u64,
}

/// Where the files came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A running server.
    Server,
    /// A data directory that no server used.
    Directory,
}

impl Backup<'_> {
    /// Makes the backup.
    ///
    /// # Errors
    /// The reason why the backup failed, for the operator. The target is then unchanged.
    pub fn make(&self) -> Result<BackupDone, String> {
        let owner = fs::metadata(self.data).map_err(|error| failed("read", self.data, &error))?;
        let target = Target::make(self.target, owner)?;
        let done = match DataDir::open_read_only(self.data) {
            Ok(_held) => self.take_directory(&target)?,
            Err(DataDirError::Held { .. }) => self.take_from_server(&target)?,
            Err(error) => return Err(error.to_string()),
        };
        target.finish()?;
        Ok(done)
    }

    /// Takes the files of a data directory that this process has locked.
    fn take_directory(&self, target: &Target) -> Result<BackupDone, String> {
        let mut taking = self.taking(target, Source::Directory, Extents::default());
        for (name, entry) in entries(self.data).map_err(|it| failed("read", self.data, &it))? {
            match entry {
                Entry::ShardLogs(_) | Entry::Topics | Entry::RecoveryPoints => {
                    taking.take_all(self.data, Path::new(&name))?;
                }
                Entry::Stamp
                | Entry::StampAside
                | Entry::Trash
                | Entry::Reserve
                | Entry::Backup
                | Entry::Passing
                | Entry::Unknown => {}
            }
        }
        taking.put_stamp(&self.stamp()?)?;
        Ok(taking.done)
    }

    fn take_from_server(&self, target: &Target) -> Result<BackupDone, String> {
        let id = RandomIds::new().map_err(|error| format!("no random numbers: {error}"))?.next_id();
        let stage = Stage::make(self.data, id)
            .map_err(|error| failed("make a backup in", self.data, &error))?;
        // The stamp must be read first. Later the server may replace it by one that names logs
        // which the backup does not have.
        let (stamp, starts) = (self.stamp()?, self.starts()?);
        let extents = self.begin(&stage.ticket)?;
        let mut taking = self.taking(target, Source::Server, extents);
        taking.take_all(&stage.names, Path::new(""))?;
        if let Some(missing) = taking.untaken.first() {
            return Err(format!("the server has lost {missing}: see docs/damage-and-recovery.md"));
        }
        taking.put_stamp(&stamp)?;
        // If the server was restarted, the new process may have written in files that the previous
        // process never changed again, so that this backup took links to them.
        if self.starts()? != starts {
            return Err("the server was started again meanwhile".to_owned());
        }
        Ok(taking.done)
    }

    fn taking<'t>(&self, target: &'t Target, source: Source, extents: Extents) -> Taking<'t> {
        let in_log =
            |it: &&FileExtent| extents.logs.iter().any(|log| Path::new(&it.path).starts_with(log));
        let untaken = extents.files.iter().filter(in_log).map(|it| it.path.clone()).collect();
        Taking {
            target: &target.partial,
            owner: &target.owner,
            copies: self.copies,
            logs: extents.logs.into_iter().map(PathBuf::from).collect(),
            extents: extents.files.into_iter().map(|it| (it.path.clone(), it)).collect(),
            untaken,
            done: BackupDone { source, linked: 0, copied: 0, copied_bytes: 0 },
        }
    }

    fn starts(&self) -> Result<u32, String> {
        Ok(Meta::read(self.data).map_err(|error| error.to_string())?.starts)
    }

    fn stamp(&self) -> Result<Vec<u8>, String> {
        let path = stamp_file(self.data);
        fs::read(&path).map_err(|error| failed("read", &path, &error))
    }

    /// Asks the server to link its files.
    fn begin(&self, ticket: &str) -> Result<Extents, String> {
        let agent = http_agent::agent(&[], false, PATIENCE);
        let url = format!("http://{}/api/v1/backup?ticket={ticket}", self.admin);
        let mut request = agent.post(&url);
        if let Some(token) = self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let no_answer = |error: &dyn std::fmt::Display| {
            format!(
                "a server runs in {}, but its admin listener did not answer at {}: {error}. Name \
                 its config with --config, or the listener with --admin",
                self.data.display(),
                self.admin
            )
        };
        let mut answer = request.send_empty().map_err(|error| no_answer(&error))?;
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| no_answer(&error))?;
        if answer.status() != 200 {
            let found: Option<serde_json::Value> = serde_json::from_str(&body).ok();
            let words = found.as_ref().and_then(|it| it.get("error")?.as_str()).unwrap_or(&body);
            let (status, admin) = (answer.status(), self.admin);
            return Err(format!("the server at {admin} made no backup: {words} ({status})"));
        }
        serde_json::from_str(&body).map_err(|error| no_answer(&error))
    }
}

/// The directory for the backup. Its name is `partial` until the backup is complete, and then
/// `path`. An incomplete one is removed when this value is dropped.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    partial: PathBuf,
    /// The owner of the data directory, who will also own the backup.
    owner: Metadata,
    /// Locked until the target is complete.
    _lock: File,
}

impl Target {
    fn make(path: &Path, owner: Metadata) -> Result<Self, String> {
        if path.exists() {
            return Err(format!("{} exists: a backup is a new directory", path.display()));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        // An incomplete target may be left from a backup that was killed.
        if partial.join(MARK).exists() {
            let _held = lock(&partial)?;
            fs::remove_dir_all(&partial).map_err(|error| failed("remove", &partial, &error))?;
        }
        fs::create_dir(&partial).map_err(|error| failed("make", &partial, &error))?;
        let (path, _lock) = (path.to_owned(), lock(&partial)?);
        let target = Self { path, partial, owner, _lock };
        let marked = fs::write(target.partial.join(MARK), "");
        marked.map_err(|error| failed("write to", &target.partial, &error))?;
        Ok(target)
    }

    fn finish(self) -> Result<(), String> {
        let finished = fs::remove_file(self.partial.join(MARK))
            .and_then(|()| give(&File::open(&self.partial)?, &self.owner))
            .and_then(|()| File::open(&self.partial)?.sync_all())
            .and_then(|()| fs::rename(&self.partial, &self.path))
            .and_then(|()| sync_name(&self.path));
        finished.map_err(|error| failed("finish", &self.path, &error))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After the rename there is nothing to remove. If something cannot be removed now, the next
        // backup removes it.
        drop(fs::remove_dir_all(&self.partial));
    }
}

fn lock(partial: &Path) -> Result<File, String> {
    let held = |_| format!("another backup to {} is under way", partial.display());
    data_dir::lock(partial).map_err(held)
}

/// The file that marks a target as incomplete.
const MARK: &str = "backup-under-way";

/// A backup under way.
struct Taking<'t> {
    target: &'t Path,
    /// The owner of the data directory, who will also own the backup.
    owner: &'t Metadata,
    copies: bool,
    logs: BTreeSet<PathBuf>,
    extents: BTreeMap<String, FileExtent>,
    /// The log segments in `extents` that have not been taken yet.
    untaken: BTreeSet<String>,
    done: BackupDone,
}

impl Taking<'_> {
    /// Takes the directory `from`/`directory` with everything in it.
    fn take_all(&mut self, from: &Path, directory: &Path) -> Result<(), String> {
        let (source, target) = (from.join(directory), self.target.join(directory));
        fs::create_dir_all(&target).map_err(|error| failed("make", &target, &error))?;
        let read = |error| failed("read", &source, &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&source).map_err(read)? {
            let entry = entry.map_err(read)?;
            let (path, of_type) = (directory.join(entry.file_name()), entry.file_type());
            let of_type = of_type.map_err(read)?;
            if of_type.is_dir() {
                self.take_all(from, &path)?;
            } else if of_type.is_file() {
                names.push(path);
            }
        }
        // The last segment of a partition has to be copied, because the server appends to it, even
        // after a restart.
        let last = names.iter().filter(|path| is_segment(path)).max().cloned();
        for path in names {
            self.take(from, &path, Some(&path) == last.as_ref())?;
        }
        let finished = File::open(&target).and_then(|directory| {
            give(&directory, self.owner)?;
            directory.sync_all()
        });
        finished.map_err(|error| failed("sync", &target, &error))
    }

    fn take(&mut self, from: &Path, path: &Path, is_last: bool) -> Result<(), String> {
        let name = path.to_string_lossy();
        let extent = self.extents.get(&*name).map(|it| (it.bytes, it.length));
        let is_segment = is_segment(path);
        let is_of_log = path.parent().is_some_and(|it| self.logs.contains(it));
        let is_unfinished = path.extension().is_some_and(|it| it == "new");
        if is_unfinished || is_segment && is_of_log && extent.is_none() {
            return Ok(());
        }
        self.untaken.remove(&*name);
        let (source, target) = (from.join(path), self.target.join(path));
        // These files are never changed, so that a link is enough: all segments of a partition
        // except its last one, and all files that are no segments, except the start offset.
        let is_written = if is_segment {
            is_last || !path.starts_with(TOPICS)
        } else {
            path.ends_with(START_OFFSET_FILE)
        };
        let taken = match extent {
            Some(extent) => self.copy(&source, &target, Some(extent)),
            None if self.copies || is_written => self.copy(&source, &target, None),
            None => self.link(&source, &target),
        };
        taken.map_err(|error| failed("take over", &source, &error))
    }

    fn link(&mut self, source: &Path, target: &Path) -> io::Result<()> {
        match fs::hard_link(source, target) {
            Ok(()) => {
                self.done.linked += 1;
                File::open(target)?.sync_all()
            }
            Err(error) if cannot_link(&error) => self.copy(source, target, None),
            Err(error) => Err(error),
        }
    }

    /// Copies a file, or only its first bytes, followed by zeros up to a length.
    fn copy(&mut self, source: &Path, target: &Path, extent: Option<(u64, u64)>) -> io::Result<()> {
        // The user of the server may have put a symbolic link here: do not follow it.
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let source = File::options().read(true).custom_flags(no_link).open(source)?;
        let mut copy = File::create_new(target)?;
        let (bytes, length) = extent.map_or((u64::MAX, None), |(bytes, len)| (bytes, Some(len)));
        let copied = io::copy(&mut (&source).take(bytes), &mut copy)?;
        if let Some(length) = length {
            if copied < bytes {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            copy.set_len(length)?;
        }
        give(&copy, self.owner)?;
        self.done.copied += 1;
        self.done.copied_bytes += copied;
        copy.sync_all()
    }

    /// Writes the stamp, which makes the directory a data directory.
    fn put_stamp(&mut self, stamp: &[u8]) -> Result<(), String> {
        let path = self.target.join(STAMP_FILE_NAME);
        let put = File::create_new(&path).and_then(|mut file| {
            file.write_all(stamp)?;
            give(&file, self.owner)?;
            file.sync_all()
        });
        self.done.copied += 1;
        self.done.copied_bytes += stamp.len() as u64;
        put.map_err(|error| failed("write", &path, &error))
    }
}

/// Whether the error says that the file cannot be hard-linked, so that it must be copied.
fn cannot_link(error: &io::Error) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "log")
}

fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("could not {what} {}: {error}", path.display())
}
