//! Hard links to the files of a shard, for a backup.

use super::Extents;
use crate::directories::absent_is_fine;
use crate::partitions::layout;
use crossbeam_channel::Sender;
use muster_storage::partition_log::START_OFFSET_FILE;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// An order to the thread that makes a shard's file system calls. Paths are relative to the data
/// directory.
#[derive(Debug)]
pub struct Links {
    /// The directories whose files are linked. A missing directory is skipped.
    pub(crate) directories: Vec<PathBuf>,
    /// Further files to link. A missing file is skipped.
    pub(crate) files: Vec<PathBuf>,
    /// Also link the recovery-point files of shards with this number or a higher one. These files
    /// remain from a time when the server had more shards.
    pub(crate) former_points_from: Option<u32>,
    /// The directory for the links.
    pub(crate) into: PathBuf,
    /// How many bytes of each file have been written. If the links can be made, this is the answer.
    pub(crate) extents: Extents,
    pub(crate) to: Sender<Result<Extents, String>>,
}

impl Links {
    /// Makes the links below a data directory, and answers.
    pub(crate) fn make(self, data: &Path) {
        let made = self.link_all(data).map_err(|error| error.to_string());
        // If no one receives the answer, the admin side has given up waiting.
        drop(self.to.send(made.map(|()| self.extents)));
    }

    fn link_all(&self, data: &Path) -> io::Result<()> {
        self.directories.iter().try_for_each(|it| self.link_directory(data, it, |_| true))?;
        self.files.iter().try_for_each(|file| {
            self.make_below(data, file.parent().unwrap_or(Path::new("")))?;
            self.link(data, file)
        })?;
        let Some(from) = self.former_points_from else { return Ok(()) };
        let is_former = |name: &str| layout::shard_of_points(name).is_some_and(|it| it >= from);
        self.link_directory(data, Path::new(layout::RECOVERY_POINTS), is_former)
    }

    /// Links those files of a directory for whose name `is_wanted` is true.
    fn link_directory(
        &self,
        data: &Path,
        directory: &Path,
        is_wanted: impl Fn(&str) -> bool,
    ) -> io::Result<()> {
        let entries = match fs::read_dir(data.join(directory)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        self.make_below(data, directory)?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_file() && is_wanted(&name.to_string_lossy()) {
                self.link(data, &directory.join(name))?;
            }
        }
        Ok(())
    }

    /// Makes a directory for links, and its parents up to `into`. It fails if `into` is missing,
    /// which means that the backup was given up.
    fn make_below(&self, data: &Path, directory: &Path) -> io::Result<()> {
        let mut path = data.join(&self.into);
        for part in directory {
            path.push(part);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        Ok(())
    }

    /// Makes a link to a file. A missing file is no error: another thread may just have removed the
    /// directory of a deleted topic.
    fn link(&self, data: &Path, file: &Path) -> io::Result<()> {
        let (from, to) = (data.join(file), data.join(&self.into).join(file));
        absent_is_fine(if file.ends_with(START_OFFSET_FILE) {
            // This file is written in place, so it is copied; it is at most a block long.
            fs::copy(from, to).map(drop)
        } else {
            fs::hard_link(from, to)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::bounded;

    #[test]
    fn files_get_second_names_and_what_is_written_in_place_is_copied() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        for directory in ["shards-1/0", "topics/a-0/of others", "recovery-points"] {
            fs::create_dir_all(data.join(directory)).unwrap();
        }
        for file in ["shards-1/0/1.log", "topics/a-0/0.log", "topics/a-0/log-start-offset"] {
            fs::write(data.join(file), "before").unwrap();
        }
        for shard in 0..4 {
            fs::write(data.join(format!("recovery-points/shard-{shard}")), "before").unwrap();
        }
        let (to, answer) = bounded(1);
        let directories = ["shards-1/0", "topics/a-0", "topics/absent-0"].map(PathBuf::from).into();
        let files = ["recovery-points/shard-0", "recovery-points/absent"].map(PathBuf::from).into();
        let extents = Extents { logs: vec!["shards-1/0".to_owned()], files: Vec::new() };
        let (into, former_points_from) = (PathBuf::from("backup/1"), Some(2));
        fs::create_dir_all(data.join(&into)).unwrap();
        let links = Links {
            directories,
            files,
            former_points_from,
            into: into.clone(),
            extents: extents.clone(),
            to,
        };
        links.make(data);
        assert_eq!(answer.recv().unwrap(), Ok(extents));

        fs::write(data.join("topics/a-0/log-start-offset"), "later").unwrap();
        fs::remove_file(data.join("shards-1/0/1.log")).unwrap();
        let names = [
            "shards-1/0/1.log",
            "topics/a-0/0.log",
            "topics/a-0/log-start-offset",
            "recovery-points/shard-0",
        ];
        for file in names {
            assert_eq!(
                fs::read_to_string(data.join(&into).join(file)).unwrap(),
                "before",
                "{file}"
            );
        }
        assert!(!data.join(&into).join("topics/absent-0").exists());
        let of_another = data.join(&into).join("recovery-points/shard-1");
        assert!(!of_another.exists(), "its shard gives it a name");
    }

    #[test]
    fn a_name_that_is_taken_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        fs::create_dir_all(data.join("a")).unwrap();
        fs::create_dir_all(data.join("backup/1/a")).unwrap();
        fs::write(data.join("a/1"), "").unwrap();
        fs::write(data.join("backup/1/a/1"), "").unwrap();
        let (to, answer) = bounded(1);
        let extents = Extents::default();
        let (directories, into) = (vec!["a".into()], "backup/1".into());
        let (files, former_points_from) = (Vec::new(), None);
        Links { directories, files, former_points_from, into, extents, to }.make(data);
        answer.recv().unwrap().unwrap_err();
    }

    #[test]
    fn nothing_is_made_for_a_backup_that_was_given_up() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        fs::create_dir_all(data.join("a")).unwrap();
        let (to, answer) = bounded(1);
        let (directories, files) = (vec!["a".into()], Vec::new());
        let (former_points_from, extents) = (None, Extents::default());
        let into = "backup/1".into();
        Links { directories, files, former_points_from, into, extents, to }.make(data);
        answer.recv().unwrap().unwrap_err();
        assert!(!data.join("backup").exists());
    }
}
