//! Looks at the host, the data directory and the ports: the only part that touches them. Files of
//! knobs are read below a root, so that a tree of files can stand for a host.

mod data;
mod files;
mod knobs;
mod process;

use crate::Facts;
use std::path::{Path, PathBuf};

/// The server that the host is to run.
#[derive(Debug, Clone)]
pub struct Asked {
    /// A prefix of /proc and /sys; empty for the host itself.
    pub root: PathBuf,
    pub data: PathBuf,
    pub shards: u32,
    /// The addresses that the shards would listen on.
    pub listen: Vec<std::net::SocketAddr>,
    /// The network interface; None for that of the default route.
    pub interface: Option<String>,
    /// The cores for its interrupts.
    pub irq_cpus: Option<String>,
    /// Lines of the config that prevent startup.
    pub wrong_lines: usize,
}

/// Writes a file in the data directory, or where that would be made, and removes it; sets up a ring
/// and opens the ports for a moment; changes nothing.
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
