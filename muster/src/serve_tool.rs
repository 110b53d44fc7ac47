//! `muster serve` and `muster dev`: the arguments of the server, and their defaults.

use crate::environment::Environment;
use crate::user_tool::MechanismName;
use clap::{Args, ValueEnum};
use muster_server::Failure;
use muster_server::addresses::{resolve, served};
use muster_server::config::{self, ClusterConfig, Config, Findings};
use muster_server::data_place::{DataPlace, IN_MEMORY};
use muster_server::logging;
use muster_server::serve::{Options, serve};
use muster_server::users::FirstUser;
use muster_version::VERSION;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A file in the form of Kafka's server.properties.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Take configs from the environment, too, as Kafka's container images do: KAFKA_NUM_PARTITIONS
    /// sets num.partitions, and CLUSTER_ID the cluster id of a new data directory. They override
    /// the file. At "ready" the log also has Kafka's line for it.
    #[arg(long)]
    environment: bool,
    /// Check a file and exit: report wrong keys, and keys without effect in muster. The status is 0
    /// if the server would start with the file, else 1.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check_config: Option<PathBuf>,
    /// Print all keys with their defaults and bounds, and exit.
    #[arg(long)]
    help_configs: bool,
    /// The address of the first shard; the others listen on the next ports. No host means all
    /// interfaces [default: the file's listeners, or 127.0.0.1:9092].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The address by which clients reach the first shard; the others have the next ports [default:
    /// the file's advertised.listeners, or the address of --listen; for all interfaces this host's
    /// name].
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// The data directory; it is created if necessary. `:memory:` is a directory in memory, which
    /// is removed when the server ends [default: the file's log.dirs, or ./data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The number of shards, each with a core and a port of its own [default: one for each usable
    /// core, at most offsets.topic.num.partitions, and one where fewer than four are usable].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: Option<u32>,
    /// This node of a cluster; sets node.id.
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16))]
    node: Option<u16>,
    /// All three nodes of a cluster, each with the address of its shard 0 for the other nodes; sets
    /// controller.quorum.voters.
    #[arg(long, value_name = "ID@HOST:PORT,...")]
    peers: Option<String>,
    /// Create a new data directory with this SCRAM user, so that clients can log in from the first
    /// start. An existing directory stays as it is.
    #[arg(long, value_name = "NAME")]
    first_user: Option<String>,
    /// A file with the password of the first user, in its first line [default: the environment's
    /// MUSTER_FIRST_USER_PASSWORD].
    #[arg(long, value_name = "FILE", requires = "first_user")]
    first_user_password_file: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = MechanismName::Sha256, requires = "first_user")]
    first_user_mechanism: MechanismName,
    /// The form of the lines of the log.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Configs. They override the file, and configs that clients have altered.
    #[arg(value_name = "KEY=VALUE")]
    configs: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl From<LogFormat> for logging::Format {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

impl Serve {
    /// Adds the configs that have short forms on the command line.
    fn spell_out(&mut self) {
        let node = self.node.map(|id| format!("node.id={id}"));
        let peers = self.peers.as_ref().map(|peers| format!("controller.quorum.voters={peers}"));
        self.configs.extend(node.into_iter().chain(peers));
    }
}

/// The kind of server. It decides the defaults of options and configs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Server,
    /// For a developer: one shard, no delays, and temporary data.
    Dev,
}

/// The configs that have other defaults on a server for a developer. No others are needed: every
/// server serves all kinds of groups by default, and creates topics when a client names them.
const DEV_CONFIGS: &[(&str, &str)] =
    &[("group.initial.rebalance.delay.ms", "0"), ("group.streams.initial.rebalance.delay.ms", "0")];

/// The configs that have other defaults with temporary data: such data need no reserve on the disk,
/// and the admin listener may show and reset them.
const PASSING_DATA_CONFIGS: &[(&str, &str)] =
    &[("admin.records", "true"), ("admin.reset.enable", "true"), ("disk.reserve.bytes", "0")];

/// From this number of usable cores on, each core gets a shard by default. With fewer cores there
/// is one shard. This leaves cores for clients on the same machine, and clients need to reach only
/// one port.
const CORES_FOR_SHARDS: u32 = 4;

pub(crate) fn run(kind: Kind, mut arguments: Serve) -> ExitCode {
    arguments.spell_out();
    match arguments {
        Serve { help_configs: true, .. } => print(&config::help()),
        Serve { check_config: Some(file), configs, .. } => check_config(&file, &configs),
        arguments => serve_until_stopped(kind, arguments),
    }
}

fn serve_until_stopped(kind: Kind, arguments: Serve) -> ExitCode {
    if let Err(error) = logging::start(arguments.log_format.into()) {
        eprintln!("could not start to log: {error}");
        return ExitCode::FAILURE;
    }
    match serve_with(kind, arguments) {
        Ok(()) => {
            logging::flush();
            ExitCode::SUCCESS
        }
        Err(failure) => logging::fail(failure),
    }
}

/// Runs the server until it ends. If its data directory is temporary, removes it before returning.
fn serve_with(kind: Kind, arguments: Serve) -> Result<(), Failure> {
    let environment = arguments.environment.then(Environment::of_process).transpose()?;
    let mut config = match &environment {
        Some(environment) => {
            let file = arguments.config.as_deref().map(read_text).transpose()?;
            environment.read(&file.unwrap_or_default(), &arguments.configs)?
        }
        None => server_config(arguments.config.as_deref(), &arguments.configs)?,
    };
    if kind == Kind::Dev {
        config.default_to(DEV_CONFIGS).map_err(|invalid| invalid.to_string())?;
    }
    let place = data_place(kind, &arguments, &config)?;
    if place.goes() {
        config.default_to(PASSING_DATA_CONFIGS).map_err(|invalid| invalid.to_string())?;
    }
    let mut options = options(kind, arguments, config, &place)?;
    options.cluster_id = environment.and_then(|it| it.cluster_id);
    serve(&options)
}

/// The data directory that the user named, or the default.
fn data_place(kind: Kind, arguments: &Serve, config: &Config) -> Result<DataPlace, Failure> {
    let is_set = |key| config.set_text(key).is_some();
    let is_named = arguments.data.is_some() || is_set("log.dirs") || is_set("log.dir");
    let path = arguments.data.clone().unwrap_or_else(|| config_data(config));
    if path == Path::new(IN_MEMORY) {
        if config.flushes_records() {
            let words = "log.flush.interval.messages flushes records to a disk, but :memory: is \
                         not on a disk: use only one of them";
            return Err(words.into());
        }
        return Ok(DataPlace::in_memory()?);
    }
    match kind {
        Kind::Dev if !is_named => Ok(DataPlace::temporary()?),
        Kind::Dev | Kind::Server => Ok(DataPlace::named(&path)?),
    }
}

fn options(
    kind: Kind,
    arguments: Serve,
    mut config: Config,
    place: &DataPlace,
) -> Result<Options, Failure> {
    let first_user = arguments.first_user.map(|name| FirstUser {
        name,
        mechanism: arguments.first_user_mechanism.into(),
        password_file: arguments.first_user_password_file,
    });
    let data = place.path().to_owned();
    let (listen, advertise) = (arguments.listen.as_deref(), arguments.advertise.as_deref());
    let served = served(&config, listen, advertise, &data)?;
    let listeners = served.listeners.iter();
    let listen = listeners.map(|it| resolve(&it.listen)).collect::<Result<_, _>>()?;
    config.served = Some(served.clone());
    let cluster = cluster(kind, &config)?;
    Ok(Options {
        version: VERSION,
        listen,
        served,
        data,
        data_goes: place.goes(),
        shards: arguments.shards.unwrap_or_else(|| match kind {
            Kind::Dev => 1,
            Kind::Server => default_shards(&config),
        }),
        is_for_developer: kind == Kind::Dev,
        in_words_of_kafka: arguments.environment,
        config_file: arguments.config,
        config,
        first_user,
        cluster_id: None,
        cluster,
    })
}

/// The cluster that the server is a node of, if it is one.
fn cluster(kind: Kind, config: &Config) -> Result<Option<ClusterConfig>, Failure> {
    let cluster = config.cluster()?;
    if kind == Kind::Dev && cluster.is_some() {
        return Err(
            "muster dev serves one machine: start the nodes of a cluster with muster serve".into(),
        );
    }
    Ok(cluster)
}

/// The configs of a file and of the command line.
pub(crate) fn server_config(file: Option<&Path>, words: &[String]) -> Result<Config, Failure> {
    let Some(file) = file else { return Ok(Config::load("", words)?) };
    match read_config(file, words)? {
        (_, findings) if findings.fatal().next().is_some() => Err(findings.into()),
        (config, _) => Ok(config),
    }
}

/// The first directory of `log.dirs`, because muster uses only one.
pub(crate) fn config_data(config: &Config) -> PathBuf {
    config.data_dirs().first().map_or_else(|| "data".into(), PathBuf::from)
}

pub(crate) fn read_config(file: &Path, words: &[String]) -> Result<(Config, Findings), String> {
    let (config, mut findings) = Config::read(&read_text(file)?, words);
    findings.file = Some(file.display().to_string());
    Ok((config, findings))
}

fn read_text(file: &Path) -> Result<String, String> {
    let bytes = std::fs::read(file)
        .map_err(|error| format!("could not read {}: {error}", file.display()))?;
    Ok(text(bytes))
}

/// Reads the text as UTF-8. If the bytes are not valid UTF-8, reads them as Latin-1, as Java does:
/// each byte is a character.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect())
}

/// Prints the text. The reader may have closed the pipe, so an error is ignored.
fn print(text: &str) -> ExitCode {
    let _ = io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn check_config(file: &Path, words: &[String]) -> ExitCode {
    match read_config(file, words) {
        Ok((_, findings)) => {
            let (text, fatal) = (findings.report(), findings.fatal().count());
            let printed = print(&text);
            if fatal == 0 { printed } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("muster: {error}");
            ExitCode::from(2)
        }
    }
}

/// The default number of shards: one for each usable core, or only one if few cores are usable.
/// There are at most as many shards as partitions of `__consumer_offsets`: a further shard would
/// have no groups.
pub(crate) fn default_shards(config: &Config) -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let shards = if cores < CORES_FOR_SHARDS { 1 } else { cores };
    shards.min(config.offsets_topic_num_partitions.max(1).unsigned_abs())
}
