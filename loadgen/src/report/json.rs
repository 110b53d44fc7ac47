//! The result file of `--json`: the serialized model, which `compare` reads.

use std::path::Path;

use serde::Deserialize;

use super::files::{self, FileError};
use super::model::{FORMAT, Report};

/// Writes the result file.
///
/// # Errors
///
/// The errors of [`files::save_json`].
pub fn save(report: &Report, path: &Path) -> Result<(), FileError> {
    files::save_json(report, path)
}

/// Reads a result file.
///
/// # Errors
///
/// All of [`FileError`] but `Write`.
pub fn load(path: &Path) -> Result<Report, FileError> {
    let text =
        std::fs::read_to_string(path).map_err(|why| FileError::Read { path: path.into(), why })?;
    parse(&text, path)
}

/// Parses a result. The format is checked first, because another format would fail with a confusing
/// message.
fn parse(text: &str, path: &Path) -> Result<Report, FileError> {
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let no_result = |why| FileError::NoResult { path: path.into(), why };
    let Format { format } = serde_json::from_str(text).map_err(no_result)?;
    if !(1..=u64::from(FORMAT)).contains(&format) {
        return Err(FileError::Format { path: path.into(), found: format, known: FORMAT });
    }
    serde_json::from_str(text).map(Report::renewed).map_err(no_result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn a_written_result_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.json");
        save(&sample::report(), &path).unwrap();
        assert!(load(&path).unwrap() == sample::report(), "all figures are equal");
    }

    #[test]
    fn a_result_of_the_first_format_is_read_in_todays_words() {
        let text = serde_json::to_string(&sample::report()).unwrap();
        let former =
            text.replace("\"format\":2", "\"format\":1").replace("\"offset-fetch\":", "\"fetch\":");
        assert_ne!(former, text);
        assert!(parse(&former, Path::new("run.json")).unwrap() == sample::report());
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let table = [
            ("", "run.json is not a result of muster-load: EOF"),
            ("[]", "run.json is not a result of muster-load: "),
            ("{\"format\": 1}", "run.json is not a result of muster-load: missing field `run`"),
            ("{\"format\": 99}", "run.json has format 99, and this muster-load reads 2: use"),
        ];
        for (text, sentence) in table {
            let error = parse(text, Path::new("run.json")).unwrap_err().to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
        let error = load(Path::new("nowhere/run.json")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read nowhere/run.json: "), "{error}");
        let error = save(&sample::report(), Path::new("nowhere/run.json")).unwrap_err().to_string();
        assert!(error.starts_with("cannot write nowhere/run.json: "), "{error}");
    }
}
