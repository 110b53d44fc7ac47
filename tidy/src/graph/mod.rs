//! Which files of a crate use each other.
//!
//! A file uses another if it names something that is defined there: in a `use`, in a path, or in
//! the tokens of a macro. Re-exports are followed to the definition. A module that re-exports what
//! a module below it defines does not use it by that: it only says where it is found.
//!
//! Tests may use all, and are left out: files of tests, and items that are only there for tests.

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
    /// The folder of its sources, as `server/src`.
    pub(crate) folder: String,
    /// The files of the crate, each with the files that it uses.
    pub(crate) files: Graph,
    /// The top-level module that a file is in; the files of the roots are in none.
    pub(crate) top_level: BTreeMap<String, String>,
    /// The files that no `mod` leads to.
    pub(crate) unreached: Vec<String>,
}

/// The graphs of all crates, by folder.
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
