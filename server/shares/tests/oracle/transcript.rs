//! Transcripts: operations with Kafka's outcomes, as JSON lines.

use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// One operation and its outcome.
#[derive(Debug, Clone)]
pub struct Line {
    pub input: Value,
    pub output: Value,
}

/// A run of the oracle. It starts with the operation `new`.
#[derive(Debug, Clone)]
pub struct Transcript {
    pub name: String,
    pub lines: Vec<Line>,
}

/// The transcripts of the test data whose names start with `prefix`.
pub fn transcripts(prefix: &str) -> Vec<Transcript> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts");
    let mut paths: Vec<PathBuf> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read: Vec<_> = paths.iter().map(|path| Transcript::read(path)).collect();
    let found: Vec<_> = read.into_iter().filter(|it| it.name.starts_with(prefix)).collect();
    assert!(!found.is_empty());
    found
}

impl Transcript {
    /// Reads a file of JSON lines. It is compressed if its name ends with `gz`.
    pub fn read(path: &Path) -> Self {
        let mut file = File::open(path).unwrap();
        let mut text = String::new();
        if path.extension().is_some_and(|extension| extension == "gz") {
            GzDecoder::new(file).read_to_string(&mut text).unwrap();
        } else {
            file.read_to_string(&mut text).unwrap();
        }
        let name = path.file_name().unwrap().to_string_lossy();
        let name = name.trim_end_matches(".gz").trim_end_matches(".jsonl").to_owned();
        Self { name, lines: text.lines().map(parse).collect() }
    }
}

fn parse(line: &str) -> Line {
    let mut line: Value = serde_json::from_str(line).unwrap();
    Line { input: line["in"].take(), output: line["out"].take() }
}
