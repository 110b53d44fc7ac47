//! Rules against files and modules that use each other.

use crate::graph::{CrateGraph, Graph, components};
use crate::{Breach, Canary, Rule, Workspace};
use std::collections::BTreeSet;

/// Files that no `mod` leads to. Such a file is dead code, and the rules about cycles would not see
/// it.
pub(super) struct Unreached;

impl Rule for Unreached {
    fn name(&self) -> &'static str {
        "unreached"
    }

    fn asks(&self) -> &'static str {
        "each file of a crate is a module of it"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let unreached = workspace.graphs().iter().flat_map(|it| &it.unreached);
        unreached.map(|file| Breach::one(file, file)).collect()
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(
                &[("a/src/lib.rs", "mod b;"), ("a/src/b.rs", ""), ("a/src/b/c.rs", "")],
                &["a/src/b/c.rs"],
            )
            .keeps(&[
                ("a/src/lib.rs", "mod b { mod c; } #[path = \"e/../other.rs\"] mod d;"),
                ("a/src/b/c.rs", "#[cfg(test)] mod tests;"),
                ("a/src/b/c/tests.rs", "mod case;"),
                ("a/src/b/c/tests/case.rs", ""),
                ("a/src/other.rs", "mod f;"),
                ("a/src/f/mod.rs", "mod g;"),
                ("a/src/f/g.rs", ""),
                ("a/src/bin/h.rs", ""),
                ("b/tests/h.rs", ""),
            ])
    }
}

/// Groups of files that use each other (strongly connected components). For each file in a group,
/// the ratchet counts the files in the group. So no group may grow, and no file may join one.
pub(super) struct Components;

impl Rule for Components {
    fn name(&self) -> &'static str {
        "components"
    }

    fn asks(&self) -> &'static str {
        "the files of a crate use each other in one direction"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for graph in workspace.graphs().iter().map(|it| &it.files) {
            for component in components(graph) {
                breaches.extend(component.iter().map(|file| Breach {
                    key: (*file).to_owned(),
                    amount: component.len(),
                    place: edges(graph, file, &component),
                }));
            }
        }
        breaches
    }

    fn canary(&self) -> Canary {
        canaries::files(canaries::below_tests(
            Canary::default(),
            &["a/src/b.rs -> a/src/c/mod.rs", "a/src/c/mod.rs -> a/src/b.rs"],
        ))
    }
}

/// Like [`Components`], for the top-level modules of a crate. If there are no cycles, the crate can
/// be read from the modules that use no other one up to its root.
pub(super) struct Modules;

impl Rule for Modules {
    fn name(&self) -> &'static str {
        "cycles"
    }

    fn asks(&self) -> &'static str {
        "the top-level modules of a crate use each other in one direction"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for it in workspace.graphs() {
            let (folder, graph) = (&it.folder, module_graph(it));
            for component in components(&graph) {
                breaches.extend(component.iter().map(|module| {
                    let place = format!("{folder}: {}", edges(&graph, module, &component));
                    Breach { key: format!("{folder}: {module}"), amount: component.len(), place }
                }));
            }
        }
        breaches
    }

    fn canary(&self) -> Canary {
        canaries::below_tests(Canary::default(), &["a/src: b -> c", "a/src: c -> b"]).keeps(&[
            ("a/src/lib.rs", "mod b; pub use b::X; const A: u8 = 1;"),
            ("a/src/b/mod.rs", "mod c; mod d; use crate::A;"),
            ("a/src/b/c.rs", "use super::d::D; struct C;"),
            ("a/src/b/d.rs", "use super::c::C; struct D;"),
        ])
    }
}

/// Describes which other nodes of its component a node uses.
fn edges(graph: &Graph, node: &str, component: &BTreeSet<&str>) -> String {
    let ahead = graph.get(node).into_iter().flatten().map(String::as_str);
    let within: Vec<&str> = ahead.filter(|it| component.contains(it)).collect();
    format!("{node} -> {}", within.join(", "))
}

/// The top-level modules of a crate, each with the modules that its files use.
fn module_graph(of_crate: &CrateGraph) -> Graph {
    let mut graph = Graph::new();
    for (file, used) in &of_crate.files {
        let Some(module) = of_crate.top_level.get(file) else { continue };
        let others = used.iter().filter_map(|it| of_crate.top_level.get(it));
        let others = others.filter(|it| *it != module).cloned();
        graph.entry(module.clone()).or_default().extend(others);
    }
    graph
}

mod canaries {
    //! Test crates with cycles of files.

    use crate::Canary;

    /// Items for tests only, each followed by code with which file `b` uses `c`. (`c` uses `b`,
    /// too.) The rules must ignore the test items, but find this use.
    const TESTS: [&str; 6] = [
        "#[cfg(test)]\nmod tests;\n\nuse crate::c::C;\n",
        "#[cfg(test)]\n#[path = \"elsewhere.rs\"]\npub(crate) mod tests;\nuse super::c::C;\n",
        "#[cfg(all(test, unix))]\nmod tests {\n    // }\n    fn f() {\n        let it = \"}{\";\n\
         }\n}\n\
         use crate::{\n    d::D,\n    c::{\n        self,\n        C as It,\n    },\n};\n",
        "#[cfg(test)]\nuse crate::d::D;\nfn f() -> self::super::c::C { crate::d::d() }\n",
        "#[cfg(test)] impl B { fn f() {} }\n\
         mod inline { fn f() { vec![1, super::super::c::C::new()] } }\n",
        "use crate::c;\n#[cfg(test)]\nmod tests {}\nfn f<T: c::inner::C>() {}\n",
    ];

    /// One crate for each text of `TESTS`, which is the beginning of `b`. In each crate `b` and `c`
    /// form a cycle.
    pub(super) fn below_tests(canary: Canary, places: &[&str]) -> Canary {
        let break_by = |canary: Canary, tests: &&str| {
            canary.breaks(
                &[
                    ("a/src/lib.rs", "mod b; mod c; mod d;"),
                    ("a/src/b.rs", &format!("{tests}\npub struct B;")),
                    ("a/src/b/tests.rs", "use crate::d::D;"),
                    ("a/src/c/mod.rs", "mod inner { pub trait C {} } struct C; use crate::b::B;"),
                    ("a/src/d.rs", "pub fn d() {} pub struct D;"),
                ],
                places,
            )
        };
        let broken = TESTS.iter().fold(canary, break_by);
        broken.keeps(&[
            ("a/src/lib.rs", "mod b; mod c;"),
            (
                "a/src/b.rs",
                "#[cfg(test)] use crate::c::C; // crate::c::C\n/// [`crate::c::C`]\nstruct B;",
            ),
            ("a/src/c.rs", "use crate::b::B; struct C;"),
        ])
    }

    /// Cycles of files in one top-level module, and similar code without a cycle.
    pub(super) fn files(canary: Canary) -> Canary {
        let root = ("a/src/lib.rs", "mod b;");
        // A facade is a module that only re-exports names. It is not part of a cycle, because a use
        // of its names counts as a use of the files that define them.
        let facade = ("a/src/b/mod.rs", "mod c; mod d; pub use c::*; pub use d::{D, E};");
        let uses_facade = ("a/src/b/c.rs", "use super::D; pub struct C;");
        let both = ["a/src/b/c.rs -> a/src/b/d.rs", "a/src/b/d.rs -> a/src/b/c.rs"];
        canary
            .breaks(
                &[root, facade, uses_facade, ("a/src/b/d.rs", "fn d() -> crate::b::C {}")],
                &both,
            )
            .breaks(
                &[
                    root,
                    facade,
                    ("a/src/b/c.rs", "use crate::b::D as Other; macro_rules! make { () => {} }"),
                    ("a/src/b/d.rs", "make!();"),
                ],
                &both,
            )
            .breaks(
                &[
                    root,
                    ("a/src/b/mod.rs", "mod c; pub use c::C; fn b() -> C {}"),
                    ("a/src/b/c.rs", "fn c() { super::b() }"),
                ],
                &["a/src/b/c.rs -> a/src/b/mod.rs", "a/src/b/mod.rs -> a/src/b/c.rs"],
            )
            .keeps(&[root, facade, uses_facade, ("a/src/b/d.rs", "use super::{E, std}; struct D;")])
            .keeps(&[
                root,
                ("a/src/b/mod.rs", "mod c; pub use c::C; struct B;"),
                ("a/src/b/c.rs", "use super::B; struct C;"),
            ])
    }
}
