//! The command line.

mod capacity;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use loadgen::driver::command::{Sasl, SaslMechanism, Security, Tls};
use loadgen::report::thresholds::Rule;
use loadgen::scenario::{Overrides, SPAN};

pub(crate) use self::capacity::{Capacity, Part};

/// The environment variable that can hold the password instead of the command line.
pub(crate) const PASSWORD: &str = "MUSTER_LOAD_PASSWORD";

/// Simulates thousands of group members against any Kafka-compatible cluster, measures how long
/// rebalances and commits take, and checks that the coordinator keeps its word.
///
/// Without arguments it runs the scenario `quick` against 127.0.0.1:9092, which takes about a
/// minute. It makes topics and groups whose names begin with `muster-load-`, and deletes them at
/// the end, also after Ctrl-C.
#[derive(Parser, Debug)]
#[command(name = "muster-load", version, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Exit status: 0 if all went well, 1 if a threshold was broken, a phase did not finish or the
coordinator broke its word, 2 if the run could not start or continue, 3 if this machine could not
keep up with the load that it was to generate, 130 if Ctrl-C ended it.

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

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Cluster {
    /// Servers to ask first.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092", value_delimiter = ',')]
    pub(crate) bootstrap: Vec<String>,
    /// How long to wait for a connection.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// How long to wait for an answer; joins get the rebalance timeout on top.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) request_timeout: Duration,
    /// Connects with TLS.
    #[arg(long)]
    pub(crate) tls: bool,
    /// Trusts the authorities in this PEM file instead of the system's.
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Presents this certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The name to expect in the server's certificate, instead of the host connected to.
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub(crate) tls_server_name: Option<String>,
    /// Trusts any certificate. For test clusters only.
    #[arg(long, requires = "tls")]
    pub(crate) tls_insecure: bool,
    /// How to log in.
    #[arg(long, value_name = "MECHANISM", requires = "username")]
    pub(crate) sasl_mechanism: Option<Mechanism>,
    /// The user to log in as.
    #[arg(long, value_name = "NAME", requires = "sasl_mechanism")]
    pub(crate) username: Option<String>,
    /// The password, or @FILE to read it from. Better in the environment: MUSTER_LOAD_PASSWORD.
    #[arg(long, value_name = "TEXT|@FILE", requires = "sasl_mechanism")]
    pub(crate) password: Option<String>,
    /// CPUs to generate the load on, as in 3 or 2-5,7. The last one by default.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<CpuList>,
    /// Members that share a connection; not for classic members, whose joins block it.
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub(crate) members_per_connection: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Mechanism {
    Plain,
    #[value(name = "scram-sha-256")]
    ScramSha256,
    #[value(name = "scram-sha-512")]
    ScramSha512,
}

/// Sizes that replace those of the scenario.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Sizes, instead of the scenario's")]
pub(crate) struct Sizes {
    /// Members of each group.
    #[arg(long, value_name = "N")]
    pub(crate) members: Option<u32>,
    /// How many of each kind of group.
    #[arg(long, value_name = "N")]
    pub(crate) groups: Option<u32>,
    /// Partitions of each topic.
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<u32>,
    /// How many of each kind of topic.
    #[arg(long, value_name = "N")]
    pub(crate) topics: Option<u32>,
    /// The protocol of all groups with members.
    #[arg(long, value_name = "PROTOCOL", value_parser = ["classic", "consumer"])]
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
    /// Leaves its groups and topics behind.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Also measures the CPU time and memory of this process.
    #[arg(long, value_name = "PID")]
    pub(crate) server_pid: Option<u32>,
    /// Ends the run if no broker has answered for this long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) give_up: Duration,
    /// If one of 100 of muster-load's timers is later than this, the run counts as this machine's
    /// failure, with exit status 3.
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
    /// Only lists them.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct Echo {
    #[command(flatten)]
    pub(crate) cluster: Cluster,
    /// Connections of each core.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Heartbeats on their way on each connection.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) in_flight: usize,
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) duration: Duration,
}

/// CPU numbers as taskset has them: `3`, `2-5,7`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CpuList(pub(crate) Vec<usize>);

/// No machine has more, and a typing error must not take all memory.
const CPUS: usize = 4096;

impl std::str::FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is no list of CPUs: write 3 or 2-5,7");
        let number = |part: &str| part.trim().parse().ok().filter(|&cpu: &usize| cpu < CPUS);
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = number(first).zip(number(last)).ok_or_else(wrong)?;
            cpus.extend(range.0..=range.1);
        }
        cpus.sort_unstable();
        cpus.dedup();
        if cpus.is_empty() { Err(wrong()) } else { Ok(Self(cpus)) }
    }
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

impl Cluster {
    /// `environment` is the value of [`PASSWORD`], if it is set.
    ///
    /// # Errors
    /// One sentence: no password, or a password file that can't be read.
    pub(crate) fn security(&self, environment: Option<String>) -> Result<Security, String> {
        let tls = self.tls.then(|| Tls {
            ca: self.tls_ca.clone(),
            identity: self.tls_cert.clone().zip(self.tls_key.clone()),
            server_name: self.tls_server_name.clone(),
            insecure: self.tls_insecure,
        });
        let sasl = match (self.sasl_mechanism, &self.username) {
            (Some(mechanism), Some(username)) => Some(Sasl {
                mechanism: mechanism.into(),
                username: username.clone(),
                password: self.password(environment)?,
            }),
            _ => None,
        };
        Ok(Security { tls, sasl })
    }

    fn password(&self, environment: Option<String>) -> Result<String, String> {
        match self.password.as_ref().map(|text| (text, text.strip_prefix('@'))) {
            Some((_, Some(file))) => match std::fs::read_to_string(file) {
                Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
                Err(error) => Err(format!("the password file {file} can't be read: {error}")),
            },
            Some((text, None)) => Ok(text.clone()),
            None => environment
                .ok_or_else(|| format!("--username needs a password: --password or {PASSWORD}")),
        }
    }
}

impl From<Mechanism> for SaslMechanism {
    fn from(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Plain => Self::Plain,
            Mechanism::ScramSha256 => Self::ScramSha256,
            Mechanism::ScramSha512 => Self::ScramSha512,
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

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!("3".parse(), Ok(CpuList(vec![3])));
        assert_eq!("7,2-4,3".parse(), Ok(CpuList(vec![2, 3, 4, 7])));
        for wrong in ["", "a", "3-", "4-2", "99999999"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_comes_from_the_line_a_file_or_the_environment() {
        let cluster = |more: &str| {
            read(&format!("--sasl-mechanism scram-sha-256 --username u {more}"))
                .unwrap()
                .run
                .cluster
        };
        let password = |more: &str, environment: Option<&str>| {
            let security = cluster(more).security(environment.map(str::to_owned))?;
            Ok::<_, String>(security.sasl.unwrap().password)
        };
        assert_eq!(password("--password p", Some("e")).unwrap(), "p");
        assert_eq!(password("", Some("e")).unwrap(), "e");
        assert!(password("", None).unwrap_err().contains("needs a password"));

        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from file\n").unwrap();
        let more = format!("--password @{}", file.path().display());
        assert_eq!(password(&more, None).unwrap(), "from file");
        assert!(password("--password @/none", None).unwrap_err().contains("can't be read"));
    }
}
