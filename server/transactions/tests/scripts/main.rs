//! Tests that are written as text. A script has events, the line `----`, and then exactly the
//! records, messages, answers and next deadline that result. `UPDATE_EXPECT=1` rewrites the part
//! after that line. `README.md` explains the language.
#![allow(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod coverage;
mod event;
mod print;
mod world;

use coverage::Coverage;
use std::path::Path;
use world::World;

#[test]
fn each_script_has_its_expected_output() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut coverage = Coverage::default();
    test_scripts::run_all(&folder, World::default, |world, event| {
        world.apply(event, &mut coverage)
    });
    assert_eq!(coverage.missing(), Vec::<String>::new(), "cells that no script exercises");
}
