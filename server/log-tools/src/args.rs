//! The arguments of `muster log`.

use clap::{Args, Subcommand};
use muster_server::cluster::OFFSETS_TOPIC;
use std::path::PathBuf;

/// The tools for data directories.
#[derive(Debug, Clone, Subcommand)]
pub enum LogCommand {
    /// Print all segments, blocks and records that can be read.
    Dump(Dump),
    /// Check a data directory as the server does at startup, and more, without changing anything.
    Verify(Verify),
    /// Name what is lost from a damaged data directory, and repair the directory on request.
    Recover(Recover),
    /// Write partitions as Kafka's own segment files.
    Export(Export),
    /// Make a data directory from the groups and topics of a stopped Kafka cluster.
    Import(Import),
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
    /// Omit the values.
    #[arg(long)]
    pub keys_only: bool,
    /// One JSON object per line.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub struct Recover {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Repair it. Removed files are kept in its trash.
    #[arg(long)]
    pub accept_loss: bool,
    /// Only this user topic.
    #[arg(long, value_name = "NAME")]
    pub topic: Option<String>,
    /// The server's `offsets.topic.num.partitions`, if meta.properties is lost.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_000))]
    pub offsets_partitions: Option<u32>,
    /// The server's `transaction.state.log.num.partitions`, if meta.properties is lost.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_000))]
    pub transactions_partitions: Option<u32>,
    /// The logs to use, if meta.properties is lost and there are logs for several numbers of
    /// shards.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub shards: Option<u32>,
}

#[derive(Debug, Clone, Args)]
pub struct Export {
    /// The data directory.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Where to write a directory for each partition.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// A topic to export; may be given more than once.
    #[arg(long = "topic", value_name = "NAME", default_value = OFFSETS_TOPIC)]
    pub topics: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct Import {
    /// The log directories (`log.dirs`) of the stopped brokers.
    #[arg(value_name = "KAFKA-DIR", required = true)]
    pub kafka: Vec<PathBuf>,
    /// The data directory to make.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The number of shards; the number of usable cores by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub shards: Option<u32>,
    /// Kafka's `offsets.topic.num.partitions`, if the directories do not show it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_000))]
    pub offsets_partitions: Option<u32>,
    /// Import the records of all topics, too.
    #[arg(long)]
    pub with_data: bool,
    /// Import the records of this topic; may be given more than once.
    #[arg(long, value_name = "TOPIC", conflicts_with = "with_data")]
    pub data_of: Vec<String>,
    /// Accept directories that lack some partitions.
    #[arg(long)]
    pub partial: bool,
    /// Accept a Kafka that was killed: leave out incomplete batches at the end of a log.
    #[arg(long)]
    pub unclean: bool,
    /// Read and check everything, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}
