//! `muster config`: the stored configs of brokers, topics and groups, in a data directory that no
//! server uses. With it an operator can change configs when clients can no longer connect. It
//! applies the rules of IncrementalAlterConfigs.

use crate::offline_change::{change_cluster, image};
use crate::serve_tool::{server_config, text};
use clap::{Args, Subcommand};
use muster_codec::Str;
use muster_codec::messages::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use muster_fairness::Shares;
use muster_server::Failure;
use muster_server::addresses::served;
use muster_server::certificates::refused_offline;
use muster_server::cluster::{
    BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, ClusterImage, Creator, GROUP_RESOURCE,
    TOPIC_RESOURCE, incremental_alter_configs, limits::CREATOR_SHARE,
};
use muster_server::config::{Config, HIDDEN, pairs_of};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigCommand {
    /// The data directory.
    #[arg(value_name = "DIR")]
    data: PathBuf,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Print the stored configs, one per line.
    List,
    /// Store configs, of all brokers by default.
    Set {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        server: ServerConfig,
        /// A file with more pairs, in the form of Kafka's server.properties. Use it for passwords:
        /// all users of the machine can read arguments.
        #[arg(long, value_name = "FILE")]
        add_config_file: Option<PathBuf>,
        #[arg(value_name = "KEY=VALUE", required_unless_present = "add_config_file",
              value_parser = pair)]
        pairs: Vec<(String, String)>,
    },
    /// Remove stored configs, of all brokers by default.
    Unset {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        server: ServerConfig,
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
    },
}

/// The resource whose configs are meant.
#[derive(Debug, Clone, Args)]
#[group(multiple = false)]
struct Target {
    /// A single broker, by its number, which is the shard's.
    #[arg(long, value_name = "N")]
    broker: Option<u32>,
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    #[arg(long, value_name = "ID")]
    group: Option<String>,
}

#[derive(Debug, Clone, Args)]
struct ServerConfig {
    /// The config file of the server. Key stores and trust stores are checked together with its
    /// configs, and cannot be set without it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ServerConfig {
    /// The configs of the server, including its listeners.
    fn read(&self, data: &Path) -> Result<Option<Config>, Failure> {
        let Some(file) = &self.config else { return Ok(None) };
        let mut config = server_config(Some(file), &[])?;
        config.served = Some(served(&config, None, None, data)?);
        Ok(Some(config))
    }
}

/// Kafka's operations of IncrementalAlterConfigs.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Runs a command. The exit status is 0 on success, 2 on failure.
pub(crate) fn run(command: &ConfigCommand) -> ExitCode {
    crate::offline_change::run("config", |out| carry_out(command, out))
}

fn carry_out(command: &ConfigCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match &command.action {
        Action::List => list(&command.data, out),
        Action::Set { target, server, add_config_file, pairs } => {
            let of_file = add_config_file.as_deref().map_or_else(|| Ok(Vec::new()), pairs_in)?;
            let set = || pairs.iter().chain(&of_file);
            let configs = set().map(|(key, value)| config(SET, key, Some(value))).collect();
            change(&command.data, server, target, configs)?;
            let is_of_broker = target.topic.is_none() && target.group.is_none();
            let keys = set().filter(|_| is_of_broker);
            for note in keys.filter_map(|(key, _)| Config::note_of_unknown(key)) {
                writeln!(out, "{note}")?;
            }
            Ok(())
        }
        Action::Unset { target, server, keys } => {
            let unset = keys.iter().map(|key| config(DELETE, key, None)).collect();
            change(&command.data, server, target, unset)
        }
    }
}

fn pairs_in(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    let of_file = |why: &dyn Display| format!("{}: {why}", file.display());
    let bytes = std::fs::read(file).map_err(|error| of_file(&error))?;
    Ok(pairs_of(&text(bytes)).map_err(|why| of_file(&why))?)
}

fn pair(word: &str) -> Result<(String, String), String> {
    let (key, value) = word.split_once('=').ok_or("not of the form KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn config<'c>(operation: i8, key: &'c str, value: Option<&'c str>) -> AlterableConfig<'c> {
    AlterableConfig {
        name: key.into(),
        config_operation: operation,
        value: value.map(Str::Borrowed),
    }
}

fn list(data: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let image = image(data)?;
    for (resource_type, what) in [
        (BROKER_RESOURCE, "broker"),
        (TOPIC_RESOURCE, "topic"),
        (GROUP_RESOURCE, "group"),
        (CLIENT_METRICS_RESOURCE, "client metrics"),
    ] {
        for name in image.configured(resource_type, "") {
            print(out, &image, resource_type, what, name)?;
        }
    }
    Ok(())
}

fn print(
    out: &mut dyn Write,
    image: &ClusterImage,
    resource_type: i8,
    what: &str,
    name: &str,
) -> io::Result<()> {
    let configs = image.configs(resource_type, name).into_iter().flatten();
    for (key, value) in configs {
        let value = if Config::is_secret(key) { HIDDEN } else { value };
        match name {
            "" => writeln!(out, "all {what}s: {key}={value}")?,
            name => writeln!(out, "{what} {name}: {key}={value}")?,
        }
    }
    Ok(())
}

/// Changes configs by the same rules as the server.
fn change(
    data: &Path,
    server: &ServerConfig,
    target: &Target,
    configs: Vec<AlterableConfig<'_>>,
) -> Result<(), Failure> {
    let request = request(target, configs);
    let mut shares = Shares::new(CREATOR_SHARE);
    let mut creator = Creator { shares: &mut shares, now: 0, host: "" };
    change_cluster(data, server.read(data)?.as_ref(), |view| {
        let refused = refused_offline(view, &request)?;
        let change = incremental_alter_configs(view, &mut creator, &request, &refused);
        match change.response.responses.iter().find(|it| it.error_code != 0) {
            Some(refused) => Err(refused.error_message.as_deref().unwrap_or("refused").into()),
            None => Ok(change.records),
        }
    })
}

fn request<'c>(
    target: &'c Target,
    configs: Vec<AlterableConfig<'c>>,
) -> IncrementalAlterConfigsRequest<'c> {
    let (resource_type, resource_name) = match target {
        Target { topic: Some(name), .. } => (TOPIC_RESOURCE, name.as_str().into()),
        Target { group: Some(id), .. } => (GROUP_RESOURCE, id.as_str().into()),
        Target { broker: Some(number), .. } => (BROKER_RESOURCE, Str::Owned(number.to_string())),
        _ => (BROKER_RESOURCE, "".into()),
    };
    let resource = AlterConfigsResource { resource_type, resource_name, configs };
    IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false }
}
