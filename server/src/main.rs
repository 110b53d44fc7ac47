//! `muster`: the server's command line.

use clap::{Args, Parser, Subcommand};
use muster::config::{Address, Config};
use muster::config_tool::{self, ConfigCommand};
use muster::log_tools::{self, LogCommand};
use muster::logging;
use muster::serve::{Failure, Options, serve};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A group coordinator that speaks the Kafka protocol.
#[derive(Debug, Parser)]
#[command(name = "muster", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients until SIGTERM or SIGINT.
    Serve(Serve),
    /// Print and change what is stored of configs, while nothing is served.
    Config(ConfigCommand),
    /// Look at, check, and exchange with Kafka what is in a data directory.
    Log {
        #[command(subcommand)]
        command: LogCommand,
    },
}

#[derive(Debug, Args)]
struct Serve {
    /// A file in the form of Kafka's server.properties.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the first shard listens; the others follow on the next ports.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The host that clients are told to connect to.
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// The data directory; it is created if it is not there.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many shards, one to a core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: Option<u32>,
    /// Configs, which win over the file's.
    #[arg(value_name = "KEY=VALUE")]
    configs: Vec<String>,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve_until_stopped(arguments),
        Command::Config(command) => config_tool::run(&command),
        Command::Log { command } => log_tools::run(command),
    }
}

fn serve_until_stopped(arguments: Serve) -> ExitCode {
    if let Err(error) = logging::start() {
        eprintln!("could not start to log: {error}");
        return ExitCode::FAILURE;
    }
    match options(arguments).and_then(|options| serve(&options)) {
        Ok(()) => {
            logging::flush();
            ExitCode::SUCCESS
        }
        Err(failure) => logging::fail(failure),
    }
}

fn options(arguments: Serve) -> Result<Options, Failure> {
    let file = arguments.config.as_deref().map(read_config).transpose()?;
    let config = Config::load(file.as_deref().unwrap_or_default(), &arguments.configs)?;
    let listen = match arguments.listen {
        Some(listen) => listen,
        None => config.listener()?.map_or_else(|| DEFAULT_LISTEN.to_owned(), listen_text),
    };
    let advertised = config.advertised_listener()?.map(|address| address.host);
    Ok(Options {
        listen: resolve(&listen)?,
        advertise: arguments.advertise.or(advertised).filter(|host| !host.is_empty()),
        data: arguments.data.unwrap_or_else(|| config_data(&config)),
        shards: arguments.shards.unwrap_or_else(usable_cores),
        config,
    })
}

const DEFAULT_LISTEN: &str = "127.0.0.1:9092";

/// An empty host is all interfaces, as in Kafka.
fn listen_text(address: Address) -> String {
    let host = if address.host.is_empty() { "0.0.0.0" } else { &address.host };
    format!("{host}:{}", address.port)
}

/// The first of `log.dirs`: muster keeps all in one directory.
fn config_data(config: &Config) -> PathBuf {
    config.data_dirs().first().map_or_else(|| "data".into(), PathBuf::from)
}

fn read_config(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("could not read {}: {error}", path.display()))
}

fn resolve(listen: &str) -> Result<SocketAddr, String> {
    let resolved =
        listen.to_socket_addrs().map_err(|error| format!("--listen {listen}: {error}"))?;
    resolved.into_iter().next().ok_or_else(|| format!("--listen {listen}: no such address"))
}

fn usable_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
