//! The rule that keeps modules apart: certain modules may not use certain others.

use crate::graph::CrateGraph;
use crate::{Breach, Canary, Rule, Workspace};
use std::collections::{BTreeMap, BTreeSet};

/// Modules that must not use certain other modules, neither directly nor through further files.
const APART: &[Pair] = &[
    // The code for sockets and answers knows nothing of records. It depended on all partitions when
    // it used the type of the messages to shards.
    Pair { folder: "server/src", module: "net", from: "partitions" },
];

struct Pair {
    folder: &'static str,
    module: &'static str,
    from: &'static str,
}

pub(super) struct Apart;

impl Rule for Apart {
    fn name(&self) -> &'static str {
        "apart"
    }

    fn asks(&self) -> &'static str {
        "no chain of uses leads from a module to one from which it is kept apart"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let graphs = workspace.graphs();
        let pairs = APART.iter().flat_map(|pair| {
            let of_folder = graphs.iter().filter(|it| it.folder == pair.folder);
            of_folder.map(move |graph| (pair, graph))
        });
        let chains = pairs.filter_map(|(pair, graph)| chain(graph, pair));
        chains.map(|chain| Breach::one(chain[0], chain.join(" -> "))).collect()
    }

    fn canary(&self) -> Canary {
        let root = ("server/src/lib.rs", "mod net; mod mail; mod partitions;");
        let partitions = ("server/src/partitions.rs", "pub struct P; use crate::net::N;");
        Canary::default()
            .breaks(
                &[
                    root,
                    ("server/src/net.rs", "pub struct N; use crate::mail::M;"),
                    ("server/src/mail.rs", "pub struct M; use crate::partitions::P;"),
                    partitions,
                ],
                &["server/src/net.rs -> server/src/mail.rs -> server/src/partitions.rs"],
            )
            .keeps(&[
                root,
                ("server/src/net.rs", "pub struct N; #[cfg(test)] use crate::partitions::P;"),
                ("server/src/mail.rs", "use crate::partitions::P; use crate::net::N;"),
                partitions,
            ])
    }
}

/// The shortest chain of files through which the first module uses the second one. None if it does
/// not.
fn chain<'g>(graph: &'g CrateGraph, pair: &Pair) -> Option<Vec<&'g str>> {
    let is_in = |file: &str, module| graph.top_level.get(file).is_some_and(|it| it == module);
    let mut before: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    let mut next: BTreeSet<&str> = graph.files.keys().map(String::as_str).collect();
    next.retain(|file| is_in(file, pair.module));
    before.extend(next.iter().map(|file| (*file, None)));
    while !next.is_empty() {
        let mut further = BTreeSet::new();
        for file in next {
            if is_in(file, pair.from) {
                let mut chain: Vec<&str> =
                    std::iter::successors(Some(file), |file| before[file]).collect();
                chain.reverse();
                return Some(chain);
            }
            for used in graph.files.get(file).into_iter().flatten() {
                if !before.contains_key(used.as_str()) {
                    before.insert(used, Some(file));
                    further.insert(used.as_str());
                }
            }
        }
        next = further;
    }
    None
}
