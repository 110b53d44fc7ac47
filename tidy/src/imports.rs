//! Which modules of a crate use each other, from its `use` lines and paths: a graph of its folders.

use crate::Sources;
use std::collections::{BTreeMap, BTreeSet};

/// The top-level modules of a crate, each with those that it uses.
pub type ModuleGraph = BTreeMap<String, BTreeSet<String>>;

/// The modules of the crate whose sources are in this folder (`server/src`). Tests are left out: they
/// may use all.
pub fn module_graph(sources: &Sources, folder: &str) -> ModuleGraph {
    let prefix = format!("{folder}/");
    let own = sources.0.iter().filter(|it| it.path.starts_with(&prefix) && !it.is_test());
    let own: Vec<_> = own.map(|it| (module_path(&it.path[prefix.len()..]), &it.text)).collect();
    let names: BTreeSet<String> =
        own.iter().filter_map(|(path, _)| path.first().cloned()).collect();
    let mut graph = ModuleGraph::new();
    for (path, text) in own {
        let Some(module) = path.first() else { continue };
        let used = graph.entry(module.clone()).or_default();
        let found = text.lines().map_while(not_tests).flat_map(|line| top_level(line, &path));
        used.extend(found.filter(|it| it != module && names.contains(it)));
    }
    graph
}

/// Lines up to those of the tests that a file ends with.
fn not_tests(line: &str) -> Option<&str> {
    (line != "#[cfg(test)]").then_some(line)
}

/// `shard/step.rs` is `["shard", "step"]`; the root of a crate has no names.
fn module_path(file: &str) -> Vec<String> {
    let names = file.trim_end_matches(".rs").split('/');
    let is_name = |it: &&str| !matches!(*it, "mod" | "lib" | "main");
    names.filter(is_name).map(str::to_owned).collect()
}

/// The top-level modules that a line of the module at `path` names.
fn top_level(line: &str, path: &[String]) -> Vec<String> {
    if line.trim_start().starts_with("//") {
        return Vec::new();
    }
    let mut names = names_behind(line, "crate::");
    // As many `super::` as the module is deep lead to the root.
    names.extend(names_behind(line, &"super::".repeat(path.len())));
    names
}

/// The names behind a prefix: one, or those of a list in braces.
fn names_behind(line: &str, prefix: &str) -> Vec<String> {
    let places = line.match_indices(prefix).filter(|(at, _)| {
        let before = line[..*at].chars().next_back();
        before.is_none_or(|it| !it.is_alphanumeric() && it != '_' && it != ':')
    });
    let names = places.flat_map(|(at, _)| {
        let rest = &line[at + prefix.len()..];
        let list = rest.strip_prefix('{').unwrap_or(rest);
        let end = if list.len() < rest.len() { list.len() } else { 1 };
        list.split(", ").take(end).map(first_name).collect::<Vec<_>>()
    });
    names.collect()
}

fn first_name(text: &str) -> String {
    text.chars().take_while(|it| it.is_alphanumeric() || *it == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn uses_are_found_by_the_root_by_super_and_in_lists() {
        let sources = Sources(vec![
            source("a/src/lib.rs", "mod one; mod two; mod three;"),
            source("a/src/one/mod.rs", "use crate::two::X;\nuse super::three;\n"),
            source("a/src/one/inner.rs", "use super::super::three;\nuse super::other;\n"),
            source("a/src/two.rs", "use crate::{one, three::Y};\n#[cfg(test)]\nuse crate::four;"),
            source("a/src/three.rs", "// crate::one is not used\nfn three() {}"),
            source("b/src/lib.rs", "use crate::one;"),
        ]);
        let graph = module_graph(&sources, "a/src");
        let uses = |name: &str| graph[name].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(uses("one"), ["three", "two"]);
        assert_eq!(uses("two"), ["one", "three"]);
        assert_eq!(uses("three"), [""; 0]);
    }
}
