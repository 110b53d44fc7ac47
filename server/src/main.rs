//! `muster`: the server's command line.

#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand};
use muster::addresses::{resolve, served};
use muster::config::{Config, Findings};
use muster::config_tool::{self, ConfigCommand};
use muster::log_tools::{self, LogCommand};
use muster::logging;
use muster::serve::{Failure, Options, serve};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A group coordinator that speaks the Kafka protocol.
#[derive(Debug, Parser)]
#[command(name = "muster", version = muster::VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients until SIGTERM or SIGINT.
    ///
    /// The keys of FILE and of KEY=VALUE are those of Kafka's server.properties; docs/configs.md lists them,
    /// with what each does here.
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
    /// Say what is wrong with a file or has no effect in muster, and end: with 0 if the server would
    /// start with it, else with 1.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check_config: Option<PathBuf>,
    /// Where the first shard listens; the others follow on the next ports. No host is all interfaces
    /// [default: the file's listeners, or 127.0.0.1:9092].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// What clients are told to connect to for the first shard; the others follow on the next ports
    /// [default: the file's advertised.listeners, or what is listened on; of all interfaces this host's
    /// name].
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// The data directory; it is made if it is not there [default: the file's log.dirs, or ./data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// How many shards, each with a core and a port of its own [default: one for each usable core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: Option<u32>,
    /// Configs, which win over the file's and over what clients alter.
    #[arg(value_name = "KEY=VALUE")]
    configs: Vec<String>,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(Serve { check_config: Some(file), configs, .. }) => {
            check_config(&file, &configs)
        }
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
    let mut config = match &arguments.config {
        None => Config::load("", &arguments.configs)?,
        Some(file) => match read_config(file, &arguments.configs)? {
            (_, findings) if findings.fatal().next().is_some() => return Err(findings.into()),
            (config, _) => config,
        },
    };
    let data = arguments.data.unwrap_or_else(|| config_data(&config));
    let data = std::path::absolute(data)?;
    let (listen, advertise) = (arguments.listen.as_deref(), arguments.advertise.as_deref());
    let served = served(&config, listen, advertise, &data)?;
    let listen = resolve(&served.listen)?;
    config.served = Some(served.clone());
    Ok(Options {
        listen,
        served,
        data,
        shards: arguments.shards.unwrap_or_else(usable_cores),
        config_file: arguments.config,
        config,
    })
}

/// The first of `log.dirs`: muster keeps all in one directory.
fn config_data(config: &Config) -> PathBuf {
    config.data_dirs().first().map_or_else(|| "data".into(), PathBuf::from)
}

fn read_config(file: &Path, words: &[String]) -> Result<(Config, Findings), String> {
    let bytes = std::fs::read(file)
        .map_err(|error| format!("could not read {}: {error}", file.display()))?;
    let (config, mut findings) = Config::read(&text(bytes), words);
    findings.file = Some(file.display().to_string());
    Ok((config, findings))
}

/// Java reads such files as Latin-1, in which any byte is a character.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect())
}

fn check_config(file: &Path, words: &[String]) -> ExitCode {
    match read_config(file, words) {
        Ok((_, findings)) => {
            let (text, fatal) = (findings.report(), findings.fatal().count());
            // Whoever reads it may have read enough.
            let _ = io::stdout().lock().write_all(text.as_bytes());
            if fatal == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("muster: {error}");
            ExitCode::from(2)
        }
    }
}

fn usable_cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
