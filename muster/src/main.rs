//! `muster`: the server's command line.

#![forbid(unsafe_code)]

mod backup_tool;
mod config_tool;
mod doctor_tool;
#[cfg(test)]
mod documents;
mod environment;
mod generate;
mod offline_change;
mod serve_tool;
mod user_tool;

use backup_tool::BackupCommand;
use clap::{CommandFactory, Parser, Subcommand};
use config_tool::ConfigCommand;
use doctor_tool::DoctorCommand;
use muster_cluster_tools::ClusterCommand;
use muster_log_tools::LogCommand;
use muster_server::directories::withhold_permissions;
use muster_version::{VERSION, WITH_FEATURES};
use serve_tool::{Kind, Serve, config_data, server_config};
use std::path::PathBuf;
use std::process::ExitCode;
use user_tool::UserCommand;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A group coordinator that speaks the Kafka protocol.
#[derive(Debug, Parser)]
#[command(name = "muster", version = VERSION, long_version = WITH_FEATURES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients until SIGTERM or SIGINT.
    ///
    /// FILE and KEY=VALUE take the keys of Kafka's server.properties. docs/configs.md lists the
    /// keys, with the effect of each in muster.
    Serve(Serve),
    /// Serve a developer or a test: one shard, no delay of the first rebalance, temporary data.
    ///
    /// The same as `muster serve` with other defaults: --shards is 1, --data is a temporary
    /// directory that is removed when the server ends, and the delay before the first rebalance of
    /// a group is 0. Options and configs override these defaults.
    Dev(Serve),
    /// Print and change stored configs, while no server runs.
    Config(ConfigCommand),
    /// Print and change the SCRAM users, while no server runs.
    User(UserCommand),
    Backup(BackupCommand),
    /// Check the host, the config and the data directory, and say what to change.
    Doctor(DoctorCommand),
    /// Ask a running cluster how its nodes are.
    Cluster {
        #[command(subcommand)]
        command: ClusterCommand,
    },
    /// Write man pages and completions of shells, for packages.
    #[command(hide = true)]
    Generate {
        directory: PathBuf,
    },
    /// Inspect and check a data directory, and exchange it with Kafka.
    Log {
        #[command(subcommand)]
        command: LogCommand,
    },
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // Other users of the machine may read man pages and completions, but no data.
    if !matches!(command, Command::Generate { .. }) {
        withhold_permissions();
    }
    match command {
        Command::Serve(arguments) => serve_tool::run(Kind::Server, arguments),
        Command::Dev(arguments) => serve_tool::run(Kind::Dev, arguments),
        Command::Backup(command) => back_up(&command),
        Command::Doctor(command) => doctor_tool::run(&command),
        Command::Generate { directory } => generate::run(Cli::command(), &directory),
        Command::Config(command) => config_tool::run(&command),
        Command::User(command) => user_tool::run(&command),
        Command::Cluster { command } => muster_cluster_tools::run(command),
        Command::Log { command } => muster_log_tools::run(command),
    }
}

fn back_up(command: &BackupCommand) -> ExitCode {
    match server_config(command.config.as_deref(), &command.configs) {
        Ok(config) => {
            let data = command.data.clone().unwrap_or_else(|| config_data(&config));
            backup_tool::run(command, &config, &data)
        }
        Err(error) => {
            eprintln!("muster: {error}");
            ExitCode::FAILURE
        }
    }
}
