//! Gathers the facts about host, data directory and ports. Only this module accesses them. Files in
//! /proc and /sys are read below a root folder: a test can replace the host by a directory tree.

mod data;
mod files;
mod knobs;
mod process;

use crate::Facts;
use std::path::{Path, PathBuf};

/// The server that is to run on the host.
#[derive(Debug, Clone)]
pub struct Asked {
    /// A prefix for /proc and /sys; empty for the real host.
    pub root: PathBuf,
    pub data: PathBuf,
    pub shards: u32,
    /// The addresses that the shards will listen on.
    pub listen: Vec<std::net::SocketAddr>,
    /// The network interface. None means that of the default route.
    pub interface: Option<String>,
    /// The cores for the interface's interrupts.
    pub irq_cpus: Option<String>,
    /// The number of config lines that prevent startup.
    pub wrong_lines: usize,
}

/// Gathers all facts. It writes a file in the data directory (or where that would be created),
/// creates a ring, and opens the ports. All of this is undone at once.
pub fn gather(asked: &Asked) -> Facts {
    let mut facts = Facts::default();
    facts.set("shards", asked.shards);
    facts.set("config.wrong_lines", asked.wrong_lines);
    if let Some(cpus) = &asked.irq_cpus {
        facts.set("asked.irq_cpus", cpus);
    }
    data::add_lock(&mut facts, &asked.data);
    process::add(&mut facts, asked);
    let disk = data::add(&mut facts, asked);
    knobs::add(&mut facts, asked, disk.as_deref());
    facts
}

/// A path of the host, below the root.
fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}
