//! Stories as text: events, then `----`, then exactly the records, answers and next deadline that
//! follow. `UPDATE_EXPECT=1` rewrites the expected part; `README.md` explains the language.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod coverage;
mod event;
mod ids;
mod print;
mod world;

use coverage::Coverage;
use std::fs;
use std::path::{Path, PathBuf};
use world::World;

#[test]
fn each_script_has_its_expected_output() {
    let mut coverage = Coverage::default();
    let mut differing = Vec::new();
    for path in scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")) {
        let expected = fs::read_to_string(&path).unwrap();
        let actual = run(&expected, &mut coverage);
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
    assert_eq!(coverage.missing(), Vec::<String>::new(), "cells that no script exercises");
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

/// The script with the output of its events.
fn run(script: &str, coverage: &mut Coverage) -> String {
    let mut world = World::default();
    let blocks = script.trim_end().split("\n\n").map(|block| {
        let events: Vec<&str> = block.lines().take_while(|line| *line != "----").collect();
        let mut out: Vec<String> = events.iter().map(|line| (*line).to_owned()).collect();
        let mut output = Vec::new();
        for line in events.iter().filter(|line| !line.starts_with('#')) {
            output.extend(world.apply(line, coverage));
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
