//! Finds which files of a crate use each other.
//!
//! A file uses another file if it names an item that is defined there: in a `use`, in a path, or in
//! the tokens of a macro. Re-exports are followed to the definition. A module that only re-exports
//! items of the modules below it does not use these modules.
//!
//! Tests may use everything, so files of tests and items for tests only are left out.

mod cfg;
mod components;
mod edges;
mod modules;
mod names;

pub(crate) use components::{Graph, components};

use crate::Source;
use modules::Crate;
use std::collections::BTreeMap;

/// A crate as the rules see it.
pub(crate) struct CrateGraph {
    /// The folder of its sources, such as `server/src`.
    pub(crate) folder: String,
    /// The files of the crate, each with the files that it uses.
    pub(crate) files: Graph,
    /// The top-level module of each file. `lib.rs` and `main.rs` are in none.
    pub(crate) top_level: BTreeMap<String, String>,
    /// The files that no `mod` item leads to.
    pub(crate) unreached: Vec<String>,
}

/// The graph of each crate.
pub(crate) fn crate_graphs(code: &[Source]) -> Vec<CrateGraph> {
    let graph = |folder: &str| {
        let all = Crate::read(code, folder);
        CrateGraph {
            folder: folder.to_owned(),
            files: edges::file_graph(&all),
            top_level: all.top_level(),
            unreached: all.unreached(),
        }
    };
    Crate::folders(code).into_iter().map(graph).collect()
}
