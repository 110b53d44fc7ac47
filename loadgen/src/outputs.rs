//! The output files of a run. They are checked before the run begins, so that an hour's result is
//! not lost to a misspelt directory.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use loadgen::history::{self, Writer};
use loadgen::report::files::STANDARD_OUTPUT;
use loadgen::report::model::Report;
use loadgen::report::{csv, html, json, junit, markdown};

use crate::args::Outputs;

pub(crate) const TOOL: &str = concat!("muster-load ", env!("CARGO_PKG_VERSION"));

impl Outputs {
    /// Checks the files before the run. `source` is the scenario; if it is a file, no output may
    /// overwrite it.
    ///
    /// # Errors
    /// A file can't be written, or would overwrite another. The error is a sentence for the user
    /// about the first such file.
    pub(crate) fn check(&self, source: &str) -> Result<(), String> {
        let results = [
            ("--json", &self.json),
            ("--csv", &self.csv),
            ("--html", &self.html),
            ("--junit", &self.junit),
            ("--markdown", &self.markdown),
            ("--ndjson", &self.ndjson),
            ("--history", &self.history),
        ];
        let results = results.iter().filter_map(|(name, path)| Some((*name, path.as_deref()?)));
        let source = Some(Path::new(source)).filter(|path| path.is_file());
        let files = source.map(|path| ("the scenario", path)).into_iter().chain(results);
        apart(&Vec::from_iter(files))?;
        let files = [&self.json, &self.csv, &self.html, &self.junit, &self.markdown];
        let files = files.into_iter().flatten().map(AsRef::as_ref);
        files.filter(|path| !is_standard_output(path)).try_for_each(can_be_written)
    }

    /// The files of a repetition, such as `result-2.json`.
    pub(crate) fn numbered(&self, repetition: u32) -> Self {
        let number = |path: &PathBuf| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let extension = path.extension().map(|it| format!(".{}", it.to_string_lossy()));
            path.with_file_name(format!("{stem}-{repetition}{}", extension.unwrap_or_default()))
        };
        let of = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| if is_standard_output(path) { path.clone() } else { number(path) })
        };
        Self {
            json: of(&self.json),
            csv: of(&self.csv),
            html: of(&self.html),
            junit: of(&self.junit),
            markdown: of(&self.markdown),
            ndjson: of(&self.ndjson),
            history: of(&self.history),
            prometheus: self.prometheus.clone(),
            live: self.live.clone(),
            otlp: self.otlp.clone(),
            label: self.label.clone(),
            quiet: self.quiet,
        }
    }

    /// Creates the history file, if the user asked for one.
    pub(crate) fn history(&self) -> Result<Option<Writer>, String> {
        let history = self.history.as_ref().map(|path| Writer::create(path)).transpose();
        history.map_err(|error| error.to_string())
    }

    /// Whether a result goes to standard output, so that the summary must go elsewhere.
    pub(crate) fn takes_standard_output(&self) -> bool {
        let files = [&self.json, &self.csv, &self.html, &self.junit, &self.markdown, &self.ndjson];
        files.into_iter().flatten().any(|path| is_standard_output(path))
    }

    pub(crate) fn save(&self, report: &Report) -> Result<(), String> {
        let json = self.json.as_ref().map(|path| json::save(report, path));
        let csv = self.csv.as_ref().map(|path| csv::save(report, path));
        let html = self.html.as_ref().map(|path| html::save(report, path));
        let junit = self.junit.as_ref().map(|path| junit::save(report, path));
        let markdown = self.markdown.as_ref().map(|path| markdown::save(report, path));
        // If one file fails, the others are still written.
        let failed =
            [json, csv, html, junit, markdown].into_iter().flatten().filter_map(Result::err);
        let failed: Vec<String> = failed.map(|error| error.to_string()).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }
}

/// Whether the path is `-`, which means standard output as in other tools.
fn is_standard_output(path: &Path) -> bool {
    path == Path::new(STANDARD_OUTPUT)
}

/// Checks that these files are all different.
///
/// # Errors
/// Two of them are the same. The error is a sentence for the user about the first two.
pub(crate) fn apart(files: &[(&str, &Path)]) -> Result<(), String> {
    for (at, (name, path)) in files.iter().enumerate() {
        let same = |(_, other): &&(&str, &Path)| resolved(path) == resolved(other);
        if let Some((other, _)) = files[..at].iter().find(same) {
            let path = path.display();
            return Err(format!("{other} and {name} are the same file, {path}: name two"));
        }
    }
    Ok(())
}

/// The canonical path of a file, which need not exist.
fn resolved(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let whole = path.canonicalize();
    whole.unwrap_or_else(|_| match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    })
}

/// Checks that a file can be written. Does not change an existing file, and leaves no new file.
pub(crate) fn can_be_written(path: &Path) -> Result<(), String> {
    let existed = path.exists();
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|_| if existed { Ok(()) } else { std::fs::remove_file(path) })
        .map_err(|error| format!("{} can't be written: {error}", path.display()))
}

/// The first line of a history.
pub(crate) fn history_header(scenario: String, seed: u64) -> history::Header {
    history::Header::Run(history::Run {
        format: history::FORMAT,
        tool: TOOL.into(),
        scenario,
        seed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_found_before_the_run() {
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

    #[test]
    fn a_repetition_has_its_number_in_the_names_of_its_files() {
        let some = |path: &str| Some(PathBuf::from(path));
        let first = Outputs { json: some("a/kafka.json"), html: some("-"), ..Outputs::default() };
        let third = first.numbered(3);
        assert_eq!((third.json, third.html), (some("a/kafka-3.json"), some("-")));
        assert_eq!(third.csv, None);
    }

    #[test]
    fn two_spellings_of_one_path_are_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let also_a = folder.path().join(".").join("a");
        assert_eq!(apart(&[("--json", &a), ("--html", &b)]), Ok(()));
        for there in [false, true] {
            if there {
                std::fs::write(&a, "old").unwrap();
            }
            let error = apart(&[("--json", &a), ("--csv", &b), ("--html", &also_a)]).unwrap_err();
            assert!(error.starts_with("--json and --html are the same file, "), "{error}");
        }
        std::os::unix::fs::symlink(&a, &b).unwrap();
        assert!(apart(&[("--json", &a), ("--html", &b)]).is_err());
        assert!(apart(&[("x", Path::new("x")), ("y", Path::new("./x"))]).is_err());
    }
}
