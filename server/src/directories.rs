//! Durable names: POSIX makes the name of a file or directory durable only once its parent
//! directory is synced.

use rustix::fs::Mode;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Permissions that a data directory never grants: it holds keys of SCRAM users and of TLS.
const WITHHELD: Mode = Mode::WGRP.union(Mode::RWXO);

/// Makes this process create directories with at most 0750 and files with at most 0640. A stricter
/// umask is obeyed. To be called before other threads create files.
pub fn withhold_permissions() {
    let inherited = rustix::process::umask(WITHHELD);
    rustix::process::umask(inherited | WITHHELD);
}

/// Makes the name of a file durable, and those of its parent directories below `data`. (A sync of
/// an unchanged directory costs next to nothing.)
///
/// # Errors
/// The file system refuses.
pub fn sync_names(data: &Path, file: &Path) -> io::Result<()> {
    let directories = file.ancestors().skip(1).take_while(|it| it.starts_with(data));
    directories.into_iter().try_for_each(|directory| File::open(directory)?.sync_all())
}

/// Makes names durable that a killed process may have left in a directory below `data`, if it
/// exists.
///
/// # Errors
/// The file system refuses.
pub(crate) fn sync_left(data: &Path, directory: &Path) -> io::Result<()> {
    if !directory.exists() { Ok(()) } else { sync_names(data, &directory.join("any")) }
}

/// Makes the name of a file or directory durable.
///
/// # Errors
/// The file system refuses.
pub fn sync_name(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// Moves a directory, and makes its new parent. The names are not durable yet.
///
/// # Errors
/// The file system refuses.
pub(crate) fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::rename(from, to)
}

/// Gives a file another name, too.
pub(crate) fn link(path: &Path, name: &Path) -> io::Result<()> {
    name.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::hard_link(path, name)
}

/// The result of a removal, of which the target may be missing.
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
    fn a_name_without_a_directory_is_in_the_current_one() {
        sync_name(Path::new("Cargo.toml")).unwrap();
        sync_name(Path::new("/")).unwrap();
    }
}
