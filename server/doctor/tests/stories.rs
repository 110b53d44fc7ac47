//! Each machine is a file of facts, with the report that is expected for it. `UPDATE_EXPECT=1`
//! writes the actual reports instead (read them before you commit them), and the list of rules in
//! `docs/doctor.md`.

#![allow(clippy::unwrap_used)]

use muster_doctor::{Facts, Profile, examine, knobs, page, report};
use std::fs;
use std::path::{Path, PathBuf};

const MACHINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/doctor.md");
const LIST: &str = "## The rules\n\n";

fn machines() -> Vec<PathBuf> {
    let files = fs::read_dir(MACHINES).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|it| it == "facts")).collect();
    files.sort();
    files
}

fn compare(path: &Path, found: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, found).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(found, expected, "{}", path.display());
}

#[test]
fn each_machine_has_the_expected_findings() {
    let machines = machines();
    assert!(machines.len() >= 9, "{machines:?}");
    for file in machines {
        let facts = Facts::parse(&fs::read_to_string(&file).unwrap()).unwrap();
        let examination = examine(&facts, Profile::guess(&facts));
        let mut text = report(&examination, false);
        let files = knobs(&examination, &facts);
        if !files.is_empty() {
            text += "\nfor tuning/apply:\n";
            text += &files;
        }
        compare(&file.with_extension("txt"), &text);
    }
}

#[test]
fn the_page_has_all_rules() {
    let text = fs::read_to_string(PAGE).unwrap();
    let (head, _) = text.split_once(LIST).unwrap();
    let page = format!("{head}{LIST}{}", page());
    compare(Path::new(PAGE), &format!("{}\n", page.trim_end()));
}
