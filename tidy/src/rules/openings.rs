//! Rules about the first lines of a file.

use crate::{Breach, Canary, Rule, Source, Workspace};

/// The root of the only crate that may contain unsafe code.
const UNSAFE: &str = "server/uring/src/lib.rs";

/// Files that syn cannot parse: the rules about items would not see them.
pub(super) struct IsRust;

impl Rule for IsRust {
    fn name(&self) -> &'static str {
        "is_rust"
    }

    fn asks(&self) -> &'static str {
        "each .rs file can be parsed, so that no rule passes over it"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let refused = workspace.code.iter().filter_map(|it| Some((it, it.refusal()?)));
        refused.map(|(it, why)| Breach::one(&it.path, format!("{}: {why}", it.path))).collect()
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(&[("a.rs", "//! a\nfn {}")], &["a.rs: line 2: expected identifier"])
            .keeps(&[("a.rs", "//! a\n#![allow(a)]\nfn f() { if let 1 = 2 && true {} }")])
    }
}

pub(super) struct Heads;

impl Rule for Heads {
    fn name(&self) -> &'static str {
        "heads"
    }

    fn asks(&self) -> &'static str {
        "a file opens with `//! ` and what it is"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let without = workspace.code.iter().filter(|it| !it.text.starts_with("//! "));
        without.map(|it| Breach::one(&it.path, &it.path)).collect()
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(&[("a.rs", "// a\n//! b\n"), ("b.rs", "")], &["a.rs", "b.rs"])
            .keeps(&[("a.rs", "//! a\n")])
    }
}

pub(super) struct Unsafe;

impl Rule for Unsafe {
    fn name(&self) -> &'static str {
        "unsafe"
    }

    fn asks(&self) -> &'static str {
        "each crate but uring forbids unsafe code at its root: #![forbid(unsafe_code)]"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let roots = workspace.code.iter().filter(|it| is_root(it) && it.path != UNSAFE);
        let without = roots.filter(|it| !it.lines().any(|(_, it)| it == "#![forbid(unsafe_code)]"));
        without.map(|it| Breach::one(&it.path, &it.path)).collect()
    }

    fn canary(&self) -> Canary {
        let forbids = "//! a\n#![forbid(unsafe_code)]\n";
        let denies = "//! #![forbid(unsafe_code)]\n#![deny(unsafe_code)]\n";
        Canary::default()
            .breaks(
                &[("a/src/lib.rs", denies), ("a/src/main.rs", ""), ("a/src/bin/b.rs", "")],
                &["a/src/lib.rs", "a/src/main.rs", "a/src/bin/b.rs"],
            )
            .keeps(&[("a/src/main.rs", forbids), ("a/src/b/mod.rs", ""), (UNSAFE, "")])
    }
}

/// Whether the file is the root of a crate.
fn is_root(source: &Source) -> bool {
    let path = source.path.as_str();
    let of_program = || path.split_once("src/bin/").is_some_and(|(_, name)| !name.contains('/'));
    !path.contains("/tests/")
        && (path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") || of_program())
}
