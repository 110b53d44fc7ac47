//! The command line of `capacity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Cluster, Conduct, duration};

#[derive(Args, Debug, Clone)]
pub(crate) struct Capacity {
    /// The part of the load that grows.
    #[arg(long, value_name = "PART", default_value = "members")]
    pub(crate) by: Part,
    /// The protocol of the groups.
    #[arg(long, value_name = "PROTOCOL", default_value = "classic",
        value_parser = ["classic", "consumer"])]
    pub(crate) protocol: String,
    /// The size of the first step.
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) from: u64,
    /// The largest size to try.
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) to: u64,
    /// The final distance between the largest size that holds and the smallest size that breaks.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub(crate) precision: f64,
    /// A size counts as broken if it breaks this many times in a row, so that chance does not
    /// decide.
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) tries: u32,
    /// The time for which the load of a step lasts, after its groups have formed.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub(crate) lasts: Duration,
    /// The time that the groups of a step may take to form.
    #[arg(long, value_name = "TIME", default_value = "2min", value_parser = duration)]
    pub(crate) forms_within: Duration,
    /// Members of each group [default: 4 by groups, 100 by commits or partitions].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) members: Option<u64>,
    /// Groups.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) groups: u64,
    /// Partitions that each group consumes [default: one for each of its members].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) partitions: Option<u64>,
    /// Commits a second of all members [default: one of each member in 5 seconds].
    #[arg(long, value_name = "PER_SECOND")]
    pub(crate) commits: Option<f64>,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    #[command(flatten)]
    pub(crate) conduct: Conduct,
    #[command(flatten)]
    pub(crate) outputs: CapacityOutputs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Part {
    Members,
    Groups,
    Commits,
    Partitions,
}

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Results")]
pub(crate) struct CapacityOutputs {
    /// Writes all steps.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Writes a page with the curves.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The name of the search in its results.
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Prints nothing while it runs.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
