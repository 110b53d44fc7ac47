//! Facts about the data directory and its disk.

use super::{Asked, below, files};
use crate::Facts;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

const PROBE: &str = ".muster-doctor";
const WRITES: usize = 16;
const BLOCK_BYTES: usize = 4_096;

/// Adds the facts. Returns the folder in /sys of the disk's request queue; None if it has none.
pub(super) fn add(facts: &mut Facts, asked: &Asked) -> Option<PathBuf> {
    let folder = existing(&asked.data);
    let is_writable = probe(facts, &folder);
    facts.set(
        "data.writable",
        is_writable.map_or_else(|error| error.to_string(), |()| "yes".into()),
    );
    if let Ok(it) = rustix::fs::statvfs(&folder)
        && it.f_blocks > 0
    {
        facts.set("disk.free_percent", it.f_bavail * 100 / it.f_blocks);
    }
    add_mount(facts, &folder);
    let queue = queue(&asked.root, &folder)?;
    if let Some(cache) = files::value(&queue.join("write_cache")) {
        let has_fua = files::value(&queue.join("fua")).is_some_and(|it| it == "1");
        facts.set("disk.write_cache", if has_fua { cache + ", fua" } else { cache });
    }
    Some(queue)
}

/// Adds the process id of the server that has locked the directory. If no server is found there,
/// adds whether the directory can be locked. Adds nothing if the directory does not exist.
pub(super) fn add_lock(facts: &mut Facts, data: &Path) {
    let Ok(taken) = File::open(data).map(|directory| directory.try_lock()) else { return };
    match (taken, server(data)) {
        (Err(_), Some(id)) => facts.set("data.server", id),
        (Err(_), None) => facts.set("data.unlocked", "no"),
        (Ok(()), _) => facts.set("data.unlocked", "yes"),
    }
}

/// The process id of the `muster serve` that has locked the directory. If that server runs in
/// another container, it is not found.
fn server(data: &Path) -> Option<u32> {
    let inode = fs::metadata(data).ok()?.ino();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().filter_map(|line| holder(line, inode)).find(|id| is_server(*id))
}

/// The process id in a line of /proc/locks, if the line is about this inode. A line is
/// `1: FLOCK  ADVISORY  WRITE 708 fe:00:5317046 0 EOF`.
fn holder(line: &str, inode: u64) -> Option<u32> {
    let mut words = line.split_whitespace().skip(4);
    let (id, file) = (words.next()?, words.next()?);
    let (_, of) = file.rsplit_once(':')?;
    (of.parse() == Ok(inode)).then(|| id.parse().ok()).flatten()
}

fn is_server(id: u32) -> bool {
    let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == b"serve")
}

/// The directory, or its nearest ancestor that exists.
fn existing(data: &Path) -> PathBuf {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    data.ancestors().find(|it| it.is_dir()).map_or_else(|| "/".into(), Path::to_owned)
}

/// Writes a file, finds out whether the file system supports direct I/O, and measures durable
/// writes.
fn probe(facts: &mut Facts, folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("{PROBE}-{}", std::process::id()));
    let outcome = write_probe(facts, &path);
    let _ = fs::remove_file(&path);
    outcome
}

fn write_probe(facts: &mut Facts, path: &Path) -> io::Result<()> {
    let mut first = OpenOptions::new().write(true).create_new(true).open(path)?;
    first.write_all(&[0; WRITES * BLOCK_BYTES])?;
    first.sync_all()?;
    let direct = OFlags::WRONLY | OFlags::DIRECT | OFlags::DSYNC;
    let is_direct = rustix::fs::open(path, direct, Mode::empty()).is_ok();
    facts.set("disk.o_direct", if is_direct { "yes" } else { "no" });
    let durable = OFlags::DSYNC.bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(durable).open(path)?;
    facts.set("disk.durable_write_micros", median_write(&file)?);
    Ok(())
}

fn median_write(file: &File) -> io::Result<u128> {
    let mut times = [0; WRITES];
    for (place, time) in times.iter_mut().enumerate() {
        let began = Instant::now();
        file.write_all_at(&[1; BLOCK_BYTES], (place * BLOCK_BYTES) as u64)?;
        *time = began.elapsed().as_micros();
    }
    times.sort_unstable();
    Ok(times[WRITES / 2])
}

/// Adds the file system and the options of the folder's mount. It is the mount with the longest
/// path that contains the folder, among the mounts of the folder's device.
fn add_mount(facts: &mut Facts, folder: &Path) {
    let Ok(device) = fs::metadata(folder).map(|it| it.dev()) else { return };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let of_device = mounts.lines().filter_map(Mount::parse);
    let of_device = of_device.filter(|it| it.device == format!("{major}:{minor}"));
    let Some(mount) = of_device.filter(|it| folder.starts_with(it.at)).max_by_key(|it| it.at.len())
    else {
        return;
    };
    let has = |option: &str| mount.options.split(',').any(|it| it == option);
    facts.set("disk.filesystem", mount.filesystem);
    let is_memory = matches!(mount.filesystem, "tmpfs" | "ramfs");
    facts.set("disk.survives", if is_memory { "no" } else { "yes" });
    facts.set("disk.noexec", if has("noexec") { "yes" } else { "no" });
    facts.set("disk.atime", if has("noatime") { "noatime" } else { "relatime" });
}

/// A line of /proc/self/mountinfo.
struct Mount<'m> {
    device: &'m str,
    at: &'m str,
    options: &'m str,
    filesystem: &'m str,
}

impl<'m> Mount<'m> {
    fn parse(line: &'m str) -> Option<Self> {
        let (mount, rest) = line.split_once(" - ")?;
        let columns: Vec<&str> = mount.split(' ').collect();
        let [_, _, device, _, at, options, ..] = columns[..] else { return None };
        Some(Self { device, at, options, filesystem: rest.split(' ').next()? })
    }
}

fn queue(root: &Path, folder: &Path) -> Option<PathBuf> {
    let device = fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = below(root, &format!("/sys/dev/block/{major}:{minor}"));
    let device = fs::canonicalize(device).ok()?;
    let disk = if device.join("partition").exists() { device.parent()? } else { &device };
    let queue = disk.join("queue");
    queue.is_dir().then_some(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_has_device_place_options_and_file_system() {
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime,noexec master:1 - ext3 /dev/root rw,errors=x";
        let mount = Mount::parse(line).unwrap();
        let Mount { device, at, options, filesystem } = mount;
        assert_eq!((device, at, options), ("98:0", "/mnt2", "rw,noatime,noexec"));
        assert_eq!(filesystem, "ext3");
        assert!(Mount::parse("36 35").is_none());
    }
}
