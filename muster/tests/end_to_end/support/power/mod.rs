//! A disk that can lose its power or hang: an ext4 file system on a loop device, over a disk with a
//! volatile cache. This needs root, `/dev/fuse`, loop devices and `mkfs.ext4`.

mod disk;

use super::{PATIENCE, Random};
pub use disk::{Disk, Hang};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A mounted file system whose power can fail.
pub struct PowerSupply {
    /// Must be dropped before `disk`: its file system is on this disk.
    volume: Option<Volume>,
    disk: Disk,
    mount_point: PathBuf,
    _directory: tempfile::TempDir,
}

impl PowerSupply {
    /// # Errors
    /// The machine lacks something, which the text names.
    pub fn new(bytes: u64) -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let [fuse, mount_point] = ["fuse", "mnt"].map(|name| directory.path().join(name));
        [&fuse, &mount_point].iter().for_each(|path| std::fs::create_dir(path).unwrap());
        let disk = Disk::mount(&fuse, bytes).map_err(|error| format!("no FUSE here: {error}"))?;
        let volume = Volume::attach(disk.path(), &mount_point)?;
        // No blocks are reserved for root, so that a full disk is really full.
        run("mkfs.ext4", &["-q", "-b", "4096", "-m", "0", &volume.device])?;
        volume.mount()?;
        Ok(Self { volume: Some(volume), disk, mount_point, _directory: directory })
    }

    /// A directory on the file system.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Cuts the power. Returns the result of [`Disk::power_off`]. Processes with open files get
    /// errors.
    pub fn cut(&self, random: &mut Random) -> (usize, usize) {
        self.disk.power_off(random)
    }

    /// The disk does not answer until the returned value is dropped.
    pub fn hang(&self) -> Hang<'_> {
        self.disk.hang()
    }

    /// Restores the power, and mounts the file system as after a boot. All files must be closed.
    pub fn restore(&mut self) {
        drop(self.volume.take());
        self.disk.power_on();
        let volume = Volume::attach(self.disk.path(), &self.mount_point).unwrap();
        volume.mount().unwrap();
        self.volume = Some(volume);
    }
}

impl Drop for PowerSupply {
    fn drop(&mut self) {
        drop(self.volume.take());
    }
}

/// A loop device with a mounted file system.
struct Volume {
    device: String,
    mount_point: PathBuf,
}

impl Volume {
    fn attach(file: &Path, mount_point: &Path) -> Result<Self, String> {
        let output = run("losetup", &["--find", "--show", &text(file)])?;
        let device = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Self { device, mount_point: mount_point.to_owned() })
    }

    fn mount(&self) -> Result<(), String> {
        run("mount", &["-t", "ext4", &self.device, &text(&self.mount_point)]).map(drop)
    }
}

impl Drop for Volume {
    /// Unmounts the file system. The kernel may still be releasing the files of a killed process,
    /// so this is retried.
    fn drop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let is_mounted = || {
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
            mounts.contains(&*text(&self.mount_point))
        };
        let mut unmounted = Ok(());
        while is_mounted() && Instant::now() < deadline {
            unmounted = run("umount", &[&text(&self.mount_point)]).map(drop);
            std::thread::sleep(Duration::from_millis(10));
        }
        if is_mounted() {
            // A process still uses the volume. It is unmounted when the process ends.
            let _ = run("umount", &["--lazy", &text(&self.mount_point)]);
        }
        let detached = run("losetup", &["--detach", &self.device]).map(drop);
        // If a panic is in progress, its message says more.
        let is_clean = unmounted.is_ok() && detached.is_ok();
        assert!(is_clean || std::thread::panicking(), "{unmounted:?}, {detached:?}");
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn run(program: &str, arguments: &[&str]) -> Result<Output, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
