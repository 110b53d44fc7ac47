//! The command line.

mod capacity;
mod cluster;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use loadgen::report::thresholds::Rule;
use loadgen::scenario::{Overrides, SPAN};
use muster_version::{VERSION, WITH_TARGET};

pub(crate) use self::capacity::{Capacity, Part};
pub(crate) use self::cluster::{Cluster, SECRETS, Secrets};

/// Simulates thousands of group members against any Kafka-compatible cluster, measures how long
/// rebalances and commits take, and checks the coordinator's guarantees.
///
/// Without arguments it runs the scenario `quick` against 127.0.0.1:9092, which takes about a
/// minute. It makes topics and groups whose names begin with `muster-load-`, and deletes them at
/// the end, even after Ctrl-C.
#[derive(Parser, Debug)]
#[command(name = "muster-load", version = VERSION, long_version = WITH_TARGET)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Exit status: 0 if nothing failed, 1 if a threshold was broken, a phase did not finish or the
coordinator violated a guarantee, 2 if the run could not start or continue, 3 if this machine could
not keep up with the load that it was to generate, 4 if a machine of --workers was lost, 130 if
Ctrl-C ended it.

Examples:
  muster-load --html result.html
  muster-load join-storm --members 5000 --bootstrap broker:9092 --json storm.json
  muster-load commit --rate 100 --in-flight 32 --threshold 'commit.p99 < 5ms'
  muster-load --show crash > mine.toml; muster-load mine.toml
  muster-load capacity --threshold 'heartbeat.p99 < 50ms' --threshold 'rebalance.max < 10s'
  muster-load compare before.json after.json --html compared.html")]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: Box<Run>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Runs a scenario; the same as without a subcommand.
    Run(Box<Run>),
    /// Checks the history of an earlier run (--history) again.
    Check {
        /// A history: JSON lines.
        file: PathBuf,
    },
    /// Puts the results of runs (--json) side by side, with ratios to the first.
    Compare {
        #[arg(required = true, num_args = 2.., value_name = "RESULT")]
        files: Vec<PathBuf>,
        /// Writes the comparison as a page, too.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Finds how much a cluster holds: doubles the load until a rule breaks, then halves the step.
    Capacity(Box<Capacity>),
    /// Deletes the topics and groups that dead runs left behind.
    Clean(Box<Clean>),
    /// Generates load for a run on another machine (run --workers): connects to the cluster given
    /// here, and obeys any machine that connects to it. Only for networks that you trust.
    Serve(Box<Serve>),
    /// Measures muster-load itself: heartbeats against a server that sends every frame back
    /// (server/uring/examples/echo.rs).
    Echo(Box<Echo>),
}

#[derive(Args, Debug, Clone)]
pub(crate) struct Run {
    /// The scenario: the name of a built-in one, or a TOML file.
    #[arg(value_name = "SCENARIO")]
    pub(crate) source: Option<String>,
    /// The scenario as an option.
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "source")]
    pub(crate) scenario: Option<String>,
    /// Lists the built-in scenarios.
    #[arg(long)]
    pub(crate) list: bool,
    /// Prints the file of a built-in scenario, to copy and change.
    #[arg(long, value_name = "NAME")]
    pub(crate) show: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) conduct: Conduct,
    #[command(flatten)]
    pub(crate) outputs: Outputs,
}

/// Sizes that replace those of the scenario.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Sizes, instead of the scenario's")]
pub(crate) struct Sizes {
    /// Members of each group.
    #[arg(long, value_name = "N")]
    pub(crate) members: Option<u32>,
    /// The number of each kind of group.
    #[arg(long, value_name = "N")]
    pub(crate) groups: Option<u32>,
    /// The number of each kind of producer.
    #[arg(long, value_name = "N")]
    pub(crate) producers: Option<u32>,
    /// Partitions of each topic.
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<u32>,
    /// The number of each kind of topic.
    #[arg(long, value_name = "N")]
    pub(crate) topics: Option<u32>,
    /// The protocol of all groups with members.
    #[arg(long, value_name = "PROTOCOL", value_parser = ["classic", "consumer", "streams"])]
    pub(crate) protocol: Option<String>,
    /// Assignors of all groups with members, the preferred first.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) assignor: Vec<String>,
    /// Requests a second of each load of each member.
    #[arg(long, value_name = "PER_SECOND")]
    pub(crate) rate: Option<f64>,
    /// Requests in flight of each load of each member.
    #[arg(long, value_name = "N")]
    pub(crate) in_flight: Option<u32>,
    /// Any key of the scenario: replication=3, group.NAME.static=10, phase.*.limit=5m, ...
    #[arg(long, value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub(crate) set: Vec<String>,
}

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Run")]
pub(crate) struct Conduct {
    /// The seed of all random choices; the same seed makes the same choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Winds down after this time, in whichever phase it is.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    /// Runs the scenario this many times, for compare: results get -2, -3, ... in their names.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// Which of the runs of --repeat this is.
    #[arg(skip)]
    pub(crate) repetition: Option<u32>,
    /// Generates the load on these machines, which run muster-load serve, and not on this one.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', conflicts_with_all = [
        "bootstrap", "command_config", "tls", "sasl_mechanism", "cores",
    ])]
    pub(crate) workers: Vec<String>,
    /// Leaves its groups and topics behind.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Also measures the CPU time and memory of this process.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Ends the run if no broker has answered for this long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) give_up: Duration,
    /// If one in 100 timers of muster-load fires later than this, the run counts as a failure of
    /// this machine, with exit status 3.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    pub(crate) keep_up: Duration,
    /// Ends the run as soon as a rule is broken, but not before this time.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) abort_after: Option<Duration>,
    /// A rule that must hold at the end, as in 'commit.p99 < 5ms' or 'rebalance.max < 2s'.
    #[arg(long, value_name = "RULE", action = ArgAction::Append)]
    pub(crate) threshold: Vec<Rule>,
}

#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Results")]
pub(crate) struct Outputs {
    /// Writes the result, for compare and other programs; - is standard output, as in the others.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Writes the figures over time.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Writes a page to look at.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Writes the checks as JUnit XML, for CI servers.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Writes a summary as Markdown, for the page of a CI job.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Writes the state of the run as a line of JSON, twice a second while it runs.
    #[arg(long, value_name = "FILE")]
    pub(crate) ndjson: Option<PathBuf>,
    /// Answers Prometheus at http://ADDRESS/metrics while it runs.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) prometheus: Option<String>,
    /// Shows the page of the run at http://ADDRESS/ while it runs.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) live: Option<String>,
    /// Pushes metrics to OpenTelemetry while it runs: OTLP over HTTP, as JSON, often to
    /// http://HOST:4318/v1/metrics.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
    /// Writes every event as JSON lines, for check.
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    /// The name of the run in comparisons.
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// Prints nothing while it runs.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct Clean {
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    /// The beginning of the names of topics and groups [default: muster-load-].
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Only lists the topics and groups.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct Serve {
    /// The address to listen on; port 0 is a free one, which is printed.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9555")]
    pub(crate) listen: String,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct Echo {
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    /// Connections of each core.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Heartbeats in flight on each connection.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) in_flight: usize,
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) duration: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration > SPAN => Err("it is too long: at most a year".into()),
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("it must be more than 0".into()),
        Err(_) => Err("write a number with its unit, as in 30s or 500ms".into()),
    }
}

impl Sizes {
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            members: self.members,
            groups: self.groups,
            producers: self.producers,
            partitions: self.partitions,
            topics: self.topics,
            protocol: self.protocol.clone(),
            assignor: self.assignor.clone(),
            rate: self.rate,
            in_flight: self.in_flight,
            set: self.set.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn read(words: &str) -> Result<CommandLine, String> {
        let words = std::iter::once("muster-load").chain(words.split_whitespace());
        CommandLine::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn without_a_subcommand_it_runs() {
        let line = read("").unwrap();
        assert!(line.command.is_none());
        assert_eq!(line.run.cluster.bootstrap, ["127.0.0.1:9092"]);
        assert_eq!(line.run.source, None);

        let line = read("crash --members 7 --bootstrap a:1,b:2 --threshold violations==0").unwrap();
        assert_eq!(line.run.source.as_deref(), Some("crash"));
        assert_eq!(line.run.cluster.bootstrap, ["a:1", "b:2"]);
        assert_eq!(line.run.sizes.overrides().members, Some(7));
        assert_eq!(line.run.conduct.threshold.len(), 1);

        let line = read("run crash").unwrap();
        let Some(Command::Run(run)) = line.command else { panic!("{line:?}") };
        assert_eq!(run.source.as_deref(), Some("crash"));
        assert!(matches!(read("check x.jsonl").unwrap().command, Some(Command::Check { .. })));
    }

    #[test]
    fn mistakes_are_refused() {
        for wrong in [
            "--members many",
            "--duration 0s",
            "--duration 5",
            "--duration 99999999h",
            "--connect-timeout 367days",
            "--threshold fast",
            "--cores 5-x",
            "--members-per-connection 0",
            "--username u",
            "--tls-ca file",
            "--protocol share",
            "compare one.json",
            "a --scenario b",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
