//! What `muster log` can be told.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The tools for data directories.
#[derive(Debug, Clone, Subcommand)]
pub enum LogCommand {
    /// Print segments, blocks and records, as far as they can be read.
    Dump(Dump),
    /// Check a data directory as a start would, and more, without changing anything.
    Verify(Verify),
}

#[derive(Debug, Clone, Args)]
pub struct Dump {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Only the log of this shard.
    #[arg(long, value_name = "N")]
    pub shard: Option<u32>,
    /// Only blocks with operations from this position on.
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    pub from: u64,
    /// Only blocks with operations up to this position.
    #[arg(long, value_name = "POSITION", default_value_t = u64::MAX)]
    pub to: u64,
    /// Only records of this group.
    #[arg(long, value_name = "ID")]
    pub group: Option<String>,
    /// Only the partitions of this user topic.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["shard", "group"])]
    pub topic: Option<String>,
    /// Leave the values out.
    #[arg(long)]
    pub keys_only: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
}
