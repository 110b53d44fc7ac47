//! `muster doctor`: checks the host, the config and the data directory for anything that stops or
//! slows muster.

use crate::serve_tool::{config_data, default_shards, read_config};
use clap::{Args, ValueEnum};
use muster_doctor::{Asked, Facts, Profile, Verdict, examine, gather, json, knobs, report};
use muster_server::addresses::{resolve, served};
use muster_server::config::Config;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ends with 0 if nothing was found, with 1 if something was.
#[derive(Debug, Args)]
pub(crate) struct DoctorCommand {
    /// A file in the form of Kafka's server.properties.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address of the first shard, as for `muster serve`.
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// The data directory, as for `muster serve`. It need not exist.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The number of shards, as for `muster serve`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    shards: Option<u32>,
    /// The kind of host, which decides what is checked [default: a guess].
    #[arg(long, value_enum)]
    profile: Option<ProfileName>,
    /// The network interface [default: that of the default route].
    #[arg(long, value_name = "NIC")]
    interface: Option<String>,
    /// The cores for the interface's interrupts.
    #[arg(long, value_name = "LIST")]
    irq_cpus: Option<String>,
    /// Check only this rule.
    #[arg(long, value_name = "RULE")]
    only: Option<String>,
    /// Also print what is fine.
    #[arg(long)]
    all: bool,
    #[arg(long, value_enum, default_value_t = Form::Text)]
    form: Form,
    /// Print what the doctor sees, without a judgement.
    #[arg(long)]
    facts: bool,
    /// Judge the output of --facts from another host.
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    facts_of: Option<PathBuf>,
    /// Read the files of /proc and /sys below this directory.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
    /// Configs. They override the file.
    #[arg(value_name = "KEY=VALUE")]
    configs: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    Text,
    Json,
    /// For tuning/apply: the files to write.
    Knobs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileName {
    Laptop,
    Vm,
    Container,
    Metal,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Laptop => Self::Laptop,
            ProfileName::Vm => Self::Vm,
            ProfileName::Container => Self::Container,
            ProfileName::Metal => Self::Metal,
        }
    }
}

pub(crate) fn run(command: &DoctorCommand) -> ExitCode {
    match answer(command) {
        Ok((text, verdict)) => {
            // The reader may have closed the pipe, so an error is ignored.
            let _ = io::stdout().lock().write_all(text.as_bytes());
            match verdict {
                Verdict::Healthy => ExitCode::SUCCESS,
                Verdict::Findings => ExitCode::FAILURE,
            }
        }
        Err(error) => {
            eprintln!("muster: {error}");
            ExitCode::from(2)
        }
    }
}

fn answer(command: &DoctorCommand) -> Result<(String, Verdict), String> {
    let facts = match &command.facts_of {
        Some(file) => read_facts(file)?,
        None => gather(&asked(command)?),
    };
    if command.facts {
        return Ok((facts.text(), Verdict::Healthy));
    }
    let profile = command.profile.map_or_else(|| Profile::guess(&facts), Into::into);
    let mut examination = examine(&facts, profile);
    if let Some(only) = &command.only
        && !examination.narrow(only)
    {
        return Err(format!("there is no rule {only} in the profile {profile}; --all has them"));
    }
    let text = match command.form {
        Form::Text => report(&examination, command.all),
        Form::Json => format!("{:#}\n", json(&examination)),
        Form::Knobs => knobs(&examination, &facts),
    };
    Ok((text, examination.verdict()))
}

fn read_facts(file: &Path) -> Result<Facts, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("could not read {}: {error}", file.display()))?;
    let no_fact = |line| format!("{}: no fact: {line}", file.display());
    Facts::parse(&text).map_err(no_fact)
}

fn asked(command: &DoctorCommand) -> Result<Asked, String> {
    let (config, wrong_lines) = match &command.config {
        Some(file) => {
            let (config, findings) = read_config(file, &command.configs)?;
            (config, findings.fatal().count())
        }
        None => {
            let (config, findings) = Config::read("", &command.configs);
            (config, findings.fatal().count())
        }
    };
    let data = command.data.clone().unwrap_or_else(|| config_data(&config));
    Ok(Asked {
        root: command.root.clone(),
        listen: addresses(&config, command.listen.as_deref(), &data)?,
        data,
        shards: command.shards.unwrap_or_else(|| default_shards(&config)),
        interface: command.interface.clone(),
        irq_cpus: command.irq_cpus.clone(),
        wrong_lines,
    })
}

/// The addresses of the first shard's listeners.
fn addresses(
    config: &Config,
    listen: Option<&str>,
    data: &Path,
) -> Result<Vec<SocketAddr>, String> {
    let served = served(config, listen, None, data).map_err(|error| error.to_string())?;
    let listeners = served.listeners.iter();
    let found: Result<Vec<_>, _> = listeners.map(|it| resolve(&it.listen)).collect();
    found.map_err(|error| error.to_string())
}
