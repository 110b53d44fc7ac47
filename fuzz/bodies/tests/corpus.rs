//! Runs the committed corpora through the same code as the fuzz targets, so that fixed defects stay
//! fixed and the targets keep working.

#![allow(clippy::unwrap_used)]

use flate2::read::GzDecoder;
use muster_fuzz_bodies::TARGETS;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use tar::Archive;

/// Memory is counted for the whole process, so all inputs run in one test.
#[test]
fn every_input_of_the_corpora_is_handled() {
    let corpora = corpora();
    for (target, run) in TARGETS {
        let inputs = corpora.get(*target).unwrap_or_else(|| panic!("no inputs for {target}"));
        for (name, input) in inputs {
            println!("{target}/{name}");
            run(input);
        }
    }
    for target in corpora.keys() {
        assert!(TARGETS.iter().any(|(name, _)| name == target), "no target {target}");
    }
}

type Inputs = BTreeMap<String, Vec<u8>>;

/// The inputs in `corpus.tar.gz`, by target and name.
fn corpora() -> BTreeMap<String, Inputs> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus.tar.gz");
    let mut archive = Archive::new(GzDecoder::new(std::fs::File::open(path).unwrap()));
    let mut corpora: BTreeMap<String, Inputs> = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path().unwrap().into_owned();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut input = Vec::new();
        entry.read_to_end(&mut input).unwrap();
        corpora.entry(name(path.parent().unwrap())).or_default().insert(name(&path), input);
    }
    corpora
}
