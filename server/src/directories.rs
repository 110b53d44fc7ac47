//! Makes names durable: in POSIX the name of a file is durable only once its directory is synced.

use rustix::fs::Mode;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Permissions that the files of a server do not grant, because these files contain SCRAM
/// credentials and TLS keys. Only [`share_with_group`] lets the group write.
const WITHHELD: Mode = Mode::WGRP.union(Mode::RWXO);

/// Makes this process create directories with at most 0750 and files with at most 0640. A stricter
/// umask is kept. Call this before other threads create files.
pub fn withhold_permissions() {
    let inherited = rustix::process::umask(WITHHELD);
    rustix::process::umask(inherited | WITHHELD);
}

/// Gives the group write permission (0770 and 0660) for the directories and files that this process
/// creates, if the group can write in the data directory. The next server may then run as another
/// user of the group, as on OpenShift. A umask that withholds everything from the group is kept.
pub(crate) fn share_with_group(data: &Path) -> io::Result<()> {
    let umask = rustix::process::umask(WITHHELD);
    let is_shared = !umask.contains(Mode::RGRP) && is_shared_with_group(data)?;
    rustix::process::umask(if is_shared { umask - Mode::WGRP } else { umask });
    Ok(())
}

/// Whether the group can write in a directory that has no sticky bit. If the directory does not
/// exist yet, its nearest existing parent is checked instead. The parent must also have the setgid
/// bit, which gives its group to the new directory.
fn is_shared_with_group(data: &Path) -> io::Result<bool> {
    let has = |mode: Mode, bits: Mode| mode.contains(bits) && !mode.contains(Mode::SVTX);
    match fs::metadata(data) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let around = data.ancestors().skip(1).find_map(|it| fs::metadata(it).ok());
            Ok(around.is_some_and(|it| has(it.mode().into(), Mode::WGRP | Mode::SGID)))
        }
        found => Ok(has(found?.mode().into(), Mode::WGRP)),
    }
}

/// Makes the name of a file durable, and the names of its parent directories below `data`. (Syncing
/// an unchanged directory costs almost nothing.)
///
/// # Errors
/// A file system operation failed.
pub fn sync_names(data: &Path, file: &Path) -> io::Result<()> {
    let directories = file.ancestors().skip(1).take_while(|it| it.starts_with(data));
    directories.into_iter().try_for_each(|directory| File::open(directory)?.sync_all())
}

/// Makes durable the names in a directory below `data`, because a killed process may not have done
/// so. Does nothing if the directory does not exist.
///
/// # Errors
/// A file system operation failed.
pub(crate) fn sync_left(data: &Path, directory: &Path) -> io::Result<()> {
    if !directory.exists() { Ok(()) } else { sync_names(data, &directory.join("any")) }
}

/// Makes the name of a file or directory durable.
///
/// # Errors
/// A file system operation failed.
pub fn sync_name(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Renames a file, durably. If it fails with an error of the kind NotFound, nothing was renamed.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    // The directory is opened first, because it may be moved away after the rename.
    let directory = to.parent().map(File::open).transpose()?;
    fs::rename(from, to)?;
    directory.map_or(Ok(()), |directory| directory.sync_all())
}

/// Moves a directory, and creates its new parent. The new names are not durable yet.
///
/// # Errors
/// A file system operation failed.
pub(crate) fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::rename(from, to)
}

/// Makes a hard link to a file, and creates the directory for it. If the file is missing, nothing
/// is created.
pub(crate) fn link(path: &Path, name: &Path) -> io::Result<()> {
    fs::symlink_metadata(path)?;
    name.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::hard_link(path, name)
}

/// Like [`link`], but moves a file that cannot be linked if it `may_move`. There are no hard links
/// on FAT, on some network file systems, and on some file systems in user space.
pub(crate) fn keep(path: &Path, name: &Path, may_move: bool) -> io::Result<()> {
    match link(path, name) {
        Err(error) if may_move && error.kind() != io::ErrorKind::NotFound => fs::rename(path, name),
        linked => linked,
    }
}

/// The result of a removal; a missing target is not an error.
pub(crate) fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_synced_up_to_the_data_directory() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("shards-2/1");
        fs::create_dir_all(&directory).unwrap();
        sync_names(place.path(), &directory.join("00000000000000000001.log")).unwrap();
        let elsewhere = place.path().join("shards-3/1/file");
        assert!(sync_names(place.path(), &elsewhere).is_err(), "an absent directory");
    }

    #[test]
    fn a_directory_is_the_groups_where_it_or_the_one_around_it_says_so() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let of_place = |mode| {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
            [is_shared_with_group(place.path()), is_shared_with_group(&data)].map(Result::unwrap)
        };
        assert_eq!(of_place(0o755), [false, false]);
        assert_eq!(of_place(0o770), [true, false], "it exists, and makes no promise for others");
        assert_eq!(of_place(0o2770), [true, true], "as volumes with fsGroup");
        assert_eq!(of_place(0o1777), [false, false], "as /tmp");
        assert_eq!(of_place(0o3777), [false, false]);
    }

    #[test]
    fn what_cannot_be_linked_is_moved_if_it_may() {
        let place = tempfile::tempdir().unwrap();
        let [file, unlinkable, absent] = ["a", "b", "c"].map(|name| place.path().join(name));
        let kept = |path: &Path| path.with_extension("kept");
        fs::write(&file, "1").unwrap();
        // Linux answers a link to a directory as FAT answers every link: EPERM.
        fs::create_dir(&unlinkable).unwrap();
        keep(&unlinkable, &kept(&unlinkable), false).unwrap_err();
        assert_eq!([unlinkable.exists(), kept(&unlinkable).exists()], [true, false]);
        for path in [&file, &unlinkable] {
            keep(path, &kept(path), true).unwrap();
            assert!(kept(path).exists());
        }
        assert_eq!([file.exists(), unlinkable.exists()], [true, false]);
        let error = keep(&absent, &kept(&absent), true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!kept(&absent).exists());
    }

    #[test]
    fn a_name_without_a_directory_is_in_the_current_one() {
        sync_name(Path::new("Cargo.toml")).unwrap();
        sync_name(Path::new("/")).unwrap();
    }
}
