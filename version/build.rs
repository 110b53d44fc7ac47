//! The commit and the target of a build, for `--version` and the log. A debug build names a commit
//! only if MUSTER_COMMIT gives it: otherwise it would have to be compiled again after each commit.

use std::env;
use std::path::Path;

#[path = "src/commit.rs"]
mod commit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/commit.rs");
    println!("cargo::rerun-if-env-changed=MUSTER_COMMIT");
    let sources = Path::new("..");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if is_release {
        for path in commit::changes_with(sources) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let given = env::var("MUSTER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let build = match given.or_else(|| is_release.then(|| commit::of(sources)).flatten()) {
        Some(commit) => format!("commit {commit}"),
        None if is_release => "commit unknown".to_owned(),
        None => "debug build".to_owned(),
    };
    println!("cargo::rustc-env=MUSTER_VERSION={} ({build})", env!("CARGO_PKG_VERSION"));
    println!("cargo::rustc-env=MUSTER_TARGET={}", env::var("TARGET").expect("cargo sets it"));
}
