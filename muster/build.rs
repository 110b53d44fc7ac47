//! Determines the commit from which a release is built, for `muster --version` and the log. A debug
//! build has none, because each commit would compile it again.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MUSTER_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let given = std::env::var("MUSTER_COMMIT").ok().filter(|commit| !commit.is_empty());
    let build = match given.or_else(|| is_release.then(commit).flatten()) {
        Some(commit) => format!("commit {commit}"),
        None if is_release => "commit unknown".to_owned(),
        None => "debug build".to_owned(),
    };
    println!("cargo::rustc-env=MUSTER_BUILD={build}");
}

fn commit() -> Option<String> {
    println!("cargo::rerun-if-changed=../.git/logs/HEAD");
    let describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let output = Command::new("git").args(describe).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
