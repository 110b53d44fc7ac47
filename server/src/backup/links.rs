//! Second names for the files of a shard.

use super::Extents;
use crate::directories::absent_is_fine;
use crossbeam_channel::Sender;
use muster_storage::partition_log::START_OFFSET_FILE;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// An order to the thread that makes a shard's calls of the file system. Paths are relative to the
/// data directory.
#[derive(Debug)]
pub struct Links {
    /// The directories whose files get second names; one that is missing has none.
    pub(crate) directories: Vec<PathBuf>,
    /// Further files; one that is missing gets none.
    pub(crate) files: Vec<PathBuf>,
    /// The directory for the second names.
    pub(crate) into: PathBuf,
    /// How far the files are written, for the answer.
    pub(crate) extents: Extents,
    pub(crate) to: Sender<Result<Extents, String>>,
}

impl Links {
    /// Makes the links below a data directory, and answers.
    pub(crate) fn make(self, data: &Path) {
        let made = self.link_all(data).map_err(|error| error.to_string());
        // The admin side no longer waits if it does not receive this.
        drop(self.to.send(made.map(|()| self.extents)));
    }

    fn link_all(&self, data: &Path) -> io::Result<()> {
        self.directories.iter().try_for_each(|it| self.link_directory(data, it))?;
        self.files.iter().try_for_each(|file| {
            let parent = file.parent().unwrap_or(Path::new(""));
            fs::create_dir_all(data.join(&self.into).join(parent))?;
            self.link(data, file)
        })
    }

    fn link_directory(&self, data: &Path, directory: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(data.join(directory)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        fs::create_dir_all(data.join(&self.into).join(directory))?;
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                self.link(data, &directory.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// A file may be missing: another thread removes the directories of deleted topics.
    fn link(&self, data: &Path, file: &Path) -> io::Result<()> {
        let (from, to) = (data.join(file), data.join(&self.into).join(file));
        absent_is_fine(if file.ends_with(START_OFFSET_FILE) {
            // It is written in place, and as short as a block.
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
        for directory in ["shards-1/0", "topics/a-0/of somebody", "recovery-points"] {
            fs::create_dir_all(data.join(directory)).unwrap();
        }
        for file in ["shards-1/0/1.log", "topics/a-0/0.log", "topics/a-0/log-start-offset"] {
            fs::write(data.join(file), "before").unwrap();
        }
        fs::write(data.join("recovery-points/shard-0"), "before").unwrap();
        let (to, answer) = bounded(1);
        let directories = ["shards-1/0", "topics/a-0", "topics/absent-0"].map(PathBuf::from).into();
        let files = ["recovery-points/shard-0", "recovery-points/absent"].map(PathBuf::from).into();
        let extents = Extents { logs: vec!["shards-1/0".to_owned()], files: Vec::new() };
        let into = PathBuf::from("backup/1");
        Links { directories, files, into: into.clone(), extents: extents.clone(), to }.make(data);
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
        Links { directories, files: Vec::new(), into, extents, to }.make(data);
        answer.recv().unwrap().unwrap_err();
    }
}
