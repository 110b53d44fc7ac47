//! How a test reports that it cannot run on this machine. It is only for conditions known at run
//! time, such as root, FUSE, or an address family. A test that needs a variable is `#[ignore]`d
//! instead.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "only tests depend on this crate")]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::panic::Location;
use std::path::Path;

/// The environment variable that names a file. Each skipped test adds a line to the file.
///
/// libtest counts a skipped test as passed, and hides what it prints. So `.ci/run` sets this
/// variable and corrects the counts of `cargo test` by the number of lines: fewer tests have
/// passed, and more tests were ignored.
pub const FILE: &str = "MUSTER_SKIPPED";

/// Reports that the calling test is skipped, because the machine lacks what `why` names. The test
/// calls this once and then returns.
///
/// # Panics
/// The file of [`FILE`] cannot be written.
#[track_caller]
pub fn skip(why: impl Display) {
    let thread = std::thread::current();
    let test = match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        // With `--test-threads=1` the tests share the main thread.
        _ => Location::caller().to_string(),
    };
    let line = line(&test, &why.to_string());
    // It is written directly to the stream, because libtest captures `eprintln!`.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if let Some(file) = std::env::var_os(FILE) {
        append(file.as_ref(), &line);
    }
}

/// The line for a skipped test. It has no line break inside, because lines are counted.
fn line(test: &str, why: &str) -> String {
    let why: Vec<&str> = why.split_whitespace().collect();
    format!("skipped: {test}: {}\n", why.join(" "))
}

/// Appends with a single write, because tests of several processes use the file.
fn append(file: &Path, line: &str) {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skipped_test_is_one_line_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("skipped");
        append(&file, &line("power::loss", "no FUSE here:\n  not permitted\n"));
        append(&file, &line("doctor::ramfs", "needs root"));
        let expected = "skipped: power::loss: no FUSE here: not permitted\n\
                        skipped: doctor::ramfs: needs root\n";
        assert_eq!(std::fs::read_to_string(file).unwrap(), expected);
    }

    #[test]
    #[should_panic(expected = "Is a directory")]
    fn a_file_that_cannot_be_written_is_a_failure() {
        append(Path::new("/"), "skipped: a: b\n");
    }
}
