//! Stories as text files. A story consists of blocks. A block has lines with events, then a line
//! `----`, and then exactly the output of these events. Lines that begin with `#` are comments.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "only tests depend on this crate")]

use std::fs;
use std::path::{Path, PathBuf};

/// Runs each script (`*.txt`) in a folder and its subfolders. `begin` makes the world of a script:
/// the state that its events change. `apply` passes an event to the world, and returns the lines of
/// its output. If the environment has `UPDATE_EXPECT=1`, outputs in the scripts are rewritten.
///
/// # Panics
/// The output of a script differs from the expected output, or a file cannot be read or written.
pub fn run_all<W>(
    folder: &Path,
    mut begin: impl FnMut() -> W,
    mut apply: impl FnMut(&mut W, &str) -> Vec<String>,
) {
    let mut differing = Vec::new();
    for path in scripts(folder) {
        let expected = fs::read_to_string(&path).unwrap();
        let mut world = begin();
        let actual = run(&expected, |event| apply(&mut world, event));
        if actual == expected {
            continue;
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, actual).unwrap();
        } else {
            println!("{}:\n{}", path.display(), difference(&expected, &actual));
            differing.push(path);
        }
    }
    assert!(differing.is_empty(), "{differing:?}");
}

fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|it| it == "txt") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Runs a script. Returns its text, with the actual output of its events in place of the expected.
fn run(script: &str, mut apply: impl FnMut(&str) -> Vec<String>) -> String {
    let blocks = script.trim_end().split("\n\n").map(|block| {
        let events: Vec<&str> = block.lines().take_while(|line| *line != "----").collect();
        let mut out: Vec<String> = events.iter().map(|line| (*line).to_owned()).collect();
        let mut output = Vec::new();
        for event in events.iter().filter(|line| !line.starts_with('#')) {
            output.extend(apply(event));
        }
        if block.lines().any(|line| line == "----") || !output.is_empty() {
            out.push("----".to_owned());
            out.extend(output);
        }
        out.join("\n")
    });
    blocks.collect::<Vec<_>>().join("\n\n") + "\n"
}

fn difference(expected: &str, actual: &str) -> String {
    let (mut expected, mut actual) = (expected.lines(), actual.lines());
    for number in 1.. {
        match (expected.next(), actual.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => {
                let rest: Vec<_> = actual.take(8).collect();
                return format!("line {number}\n  expected {a:?}\n  actual   {b:?}\n{rest:#?}");
            }
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_each_block_follows_its_events() {
        let script = "# why\none\ntwo\n----\nstale\n\nnone\n";
        let apply = |event: &str| if event == "none" { vec![] } else { vec![format!("> {event}")] };
        assert_eq!(run(script, apply), "# why\none\ntwo\n----\n> one\n> two\n\nnone\n");
        assert!(difference("a\nb\n", "a\nc\n").starts_with("line 2\n"));
    }
}
