//! The files of a run: looked at before it begins, so that an hour's result is not lost to a
//! misspelt folder.

use std::fs::OpenOptions;
use std::path::Path;

use loadgen::history::Writer;
use loadgen::report::model::Report;
use loadgen::report::{csv, html, json};

use crate::args::Outputs;

impl Outputs {
    /// # Errors
    /// One sentence about the first file that can't be written.
    pub(crate) fn check(&self) -> Result<(), String> {
        let files = [&self.json, &self.csv, &self.html].into_iter().flatten();
        files.map(AsRef::as_ref).try_for_each(can_be_written)
    }

    /// Begins the history, if one is wanted.
    pub(crate) fn history(&self) -> Result<Option<Writer>, String> {
        let history = self.history.as_ref().map(|path| Writer::create(path)).transpose();
        history.map_err(|error| error.to_string())
    }

    pub(crate) fn save(&self, report: &Report) -> Result<(), String> {
        let json = self.json.as_ref().map(|path| json::save(report, path));
        let csv = self.csv.as_ref().map(|path| csv::save(report, path));
        let html = self.html.as_ref().map(|path| html::save(report, path));
        // Each is tried, whatever became of the others.
        let failed = [json, csv, html].into_iter().flatten().filter_map(Result::err);
        let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}

/// Leaves a file that is there as it is, and none that was not.
fn can_be_written(path: &Path) -> Result<(), String> {
    let was_there = path.exists();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|_| if was_there { Ok(()) } else { std::fs::remove_file(path) })
        .map_err(|error| format!("{} can't be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_found_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("result.json");
        assert_eq!(can_be_written(&file), Ok(()));
        assert!(!file.exists());
        std::fs::write(&file, "old").unwrap();
        assert_eq!(can_be_written(&file), Ok(()));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");

        let error = can_be_written(&folder.path().join("none").join("x")).unwrap_err();
        assert!(error.contains("none/x can't be written: "), "{error}");
    }
}
