//! How a test that cannot run on this machine says so. Only what is known at run time is skipped
//! here (root, FUSE, an address family); a test that needs a variable is `#[ignore]`d instead.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "only tests depend on this crate")]

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::panic::Location;
use std::path::Path;

/// Names the file to which skipped tests are appended, a line each.
///
/// libtest counts a skipped test as passed and hides what it prints. `.ci/run` therefore sets this
/// variable, takes the number of lines in the file off the passed tests and adds it to the skipped
/// ones, beside those that `cargo test` counts as ignored.
pub const FILE: &str = "MUSTER_SKIPPED";

/// Notes that the calling test is skipped, as the machine lacks what `why` names. The test calls
/// this once, and then returns.
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
    // Written to the stream itself, past libtest's capture: whoever runs tests sees the line.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if let Some(file) = std::env::var_os(FILE) {
        append(file.as_ref(), &line);
    }
}

/// Always a single line, as lines are counted.
fn line(test: &str, why: &str) -> String {
    let why: Vec<&str> = why.split_whitespace().collect();
    format!("skipped: {test}: {}\n", why.join(" "))
}

/// In one write, as tests of several processes append to the file.
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
