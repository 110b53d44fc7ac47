//! The sources keep the rules, but for what `ratchet.toml` has.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use tidy::{
    BANNED, COLUMNS, LINES, ModuleGraph, Ratchet, Source, Sources, lacks_noun, module_graph,
    says_behind, starts_with_pronoun,
};

/// The folders with the sources of a crate whose modules are looked at.
const CRATES: [&str; 13] = [
    "codec/src",
    "storage/src",
    "muster/src",
    "server/src",
    "server/coordinator/src",
    "server/uring/src",
    "server/simulator/src",
    "server/differential/src",
    "server/log-tools/src",
    "server/tls/src",
    "server/shares/src",
    "server/transactions/src",
    "loadgen/src",
];

/// The only crate that may have unsafe code.
const UNSAFE: &str = "server/uring/src/lib.rs";

/// Which lines do not keep a rule, each with its place.
type Places = Vec<String>;

fn places(sources: &Sources, is_found: impl Fn(&str) -> usize) -> Places {
    let all = sources.0.iter().flat_map(|it| it.lines().map(move |line| (it, line)));
    let found = all.flat_map(|(source, (number, line))| {
        (0..is_found(line)).map(move |_| format!("{}:{number}: {}", source.path, line.trim()))
    });
    found.collect()
}

/// The rules' own words are no breach of them.
fn judged() -> Sources {
    let mut sources = Sources::of_workspace().unwrap();
    sources.0.retain(|it| !it.path.starts_with("tidy/"));
    sources
}

fn found(sources: &Sources) -> (Ratchet, BTreeMap<String, Places>) {
    let columns = places(sources, |line| usize::from(line.chars().count() > COLUMNS));
    let pronouns = places(sources, |line| usize::from(starts_with_pronoun(line)));
    let nounless = places(sources, |line| usize::from(lacks_noun(line)));
    let behind = places(sources, |line| usize::from(says_behind(line)));
    let matches = places(sources, |line| usize::from(line.trim_start().starts_with("true =>")));
    let words = BANNED.iter().map(|banned| {
        let name = format!("{} (say: {})", banned.phrase, banned.instead);
        (name, places(sources, |line| banned.count(line)))
    });
    let words: BTreeMap<String, Places> = words.collect();
    let lines = |it: &Source| (it.path.clone(), it.text.lines().count());
    let long_files = sources.0.iter().map(lines).filter(|(_, lines)| *lines > LINES).collect();
    let cycles = CRATES.iter().map(|it| (it.to_string(), cyclic(&module_graph(sources, it))));
    let ratchet = Ratchet {
        long_lines: columns.len(),
        pronouns: pronouns.len(),
        nounless: nounless.len(),
        behind: behind.len(),
        bool_matches: matches.len(),
        words: words.iter().map(|(name, places)| (name.clone(), places.len())).collect(),
        long_files,
        cycles: cycles.filter(|(_, modules)| !modules.is_empty()).collect(),
    };
    let named = [
        ("long lines", columns),
        ("pronouns", pronouns),
        ("comments without a noun", nounless),
        ("behind for after", behind),
        ("match on a bool", matches),
    ];
    let named = named.map(|(name, places)| (name.to_owned(), places));
    (ratchet, named.into_iter().chain(words).collect())
}

/// The modules that can be reached from themselves.
fn cyclic(graph: &ModuleGraph) -> BTreeSet<String> {
    let is_cyclic = |from: &&String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*from]);
        while let Some(module) = next.pop() {
            let used = graph.get(module).into_iter().flatten();
            next.extend(used.filter(|it| seen.insert(*it)));
        }
        seen.contains(from)
    };
    graph.keys().filter(is_cyclic).cloned().collect()
}

/// What is more than the ratchet has, in words.
fn excess(found: &Ratchet, left: &Ratchet) -> Vec<String> {
    let one = |name: &str, found: usize, left: usize| {
        (found > left).then(|| format!("{name}: {found}, and {left} were left"))
    };
    let singles = [
        one("long lines", found.long_lines, left.long_lines),
        one("pronouns", found.pronouns, left.pronouns),
        one("comments without a noun", found.nounless, left.nounless),
        one("behind for after", found.behind, left.behind),
        one("match on a bool", found.bool_matches, left.bool_matches),
    ];
    let of_map = |found: &BTreeMap<String, usize>, left: &BTreeMap<String, usize>, least: usize| {
        let more = found.iter().filter_map(|(name, count)| {
            one(name, *count, left.get(name).copied().unwrap_or(least))
        });
        more.collect::<Vec<_>>()
    };
    let cycles = found.cycles.iter().filter_map(|(folder, modules)| {
        let known = left.cycles.get(folder).cloned().unwrap_or_default();
        let more: Vec<_> = modules.difference(&known).cloned().collect();
        (!more.is_empty()).then(|| format!("{folder}: {} in a cycle", more.join(", ")))
    });
    let mut all: Vec<String> = singles.into_iter().flatten().collect();
    all.extend(of_map(&found.words, &left.words, 0));
    all.extend(of_map(&found.long_files, &left.long_files, LINES));
    all.extend(cycles);
    all
}

#[test]
fn nothing_is_added_to_what_breaks_the_rules() {
    let (found, places) = found(&judged());
    let excess = excess(&found, &Ratchet::read().unwrap());
    if excess.is_empty() && std::env::var_os("TIDY_UPDATE").is_some() {
        found.write().unwrap();
    }
    for (name, places) in &places {
        if excess.iter().any(|it| it.starts_with(&format!("{name}: "))) {
            println!("{name}\n    {}", places.join("\n    "));
        }
    }
    assert!(excess.is_empty(), "{}", excess.join("\n"));
}

#[test]
fn the_modules_of_each_crate_are_printed_with_what_they_use() {
    let sources = judged();
    for folder in CRATES {
        let graph = module_graph(&sources, folder);
        assert!(!graph.is_empty(), "no module in {folder}");
        println!("{folder}");
        for (module, used) in graph {
            println!("    {module} -> {}", used.into_iter().collect::<Vec<_>>().join(", "));
        }
    }
}

#[test]
fn each_file_opens_with_what_it_is() {
    let without = judged().0.into_iter().filter(|it| !it.text.starts_with("//! "));
    let without: Vec<_> = without.map(|it| it.path).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn unsafe_code_is_forbidden_in_all_crates_but_one() {
    let is_root = |it: &&Source| {
        let is_tests = it.path.contains("/tests/");
        it.path != UNSAFE
            && !is_tests
            && (it.path.ends_with("src/lib.rs") || it.path.ends_with("src/main.rs"))
    };
    let sources = Sources::of_workspace().unwrap();
    let without = sources.0.iter().filter(is_root);
    let without: Vec<_> = without
        .filter(|it| !it.text.contains("#![forbid(unsafe_code)]"))
        .map(|it| it.path.as_str())
        .collect();
    assert!(without.is_empty(), "{without:?}");
}
