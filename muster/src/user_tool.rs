//! `muster user`: the SCRAM users, in a data directory that no server uses. The first user must
//! exist before a client can log in and add others.

use crate::offline_change::change_cluster;
use clap::{Args, Subcommand, ValueEnum};
use muster_codec::messages::{
    AlterUserScramCredentialsRequest, ScramCredentialDeletion, ScramCredentialUpsertion,
};
use muster_server::Failure;
use muster_server::cluster::View;
use muster_server::security::{ScramCredential, ScramMechanism};
use muster_server::users::{self, password_of, password_of_file, upsertion};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Clone, Args)]
pub(crate) struct UserCommand {
    /// The data directory.
    #[arg(value_name = "DIR")]
    data: PathBuf,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Print the users, with their mechanisms and iterations.
    List,
    /// Add a user, or change a password. The password is the first line of standard input or of a
    /// file.
    Add {
        #[arg(value_name = "NAME")]
        name: String,
        #[arg(long, value_enum, default_value_t = MechanismName::Sha256)]
        mechanism: MechanismName,
        /// A file with the password, rather than the standard input.
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
        #[arg(long, value_name = "N", default_value_t = ScramCredential::ITERATIONS_MIN)]
        iterations: i32,
    },
    /// Remove the credential of a user for a mechanism.
    Remove {
        #[arg(value_name = "NAME")]
        name: String,
        #[arg(long, value_enum, default_value_t = MechanismName::Sha256)]
        mechanism: MechanismName,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MechanismName {
    #[value(name = "SCRAM-SHA-256")]
    Sha256,
    #[value(name = "SCRAM-SHA-512")]
    Sha512,
}

impl From<MechanismName> for ScramMechanism {
    fn from(name: MechanismName) -> Self {
        match name {
            MechanismName::Sha256 => Self::Sha256,
            MechanismName::Sha512 => Self::Sha512,
        }
    }
}

/// Runs a command. The exit status is 0 on success, 2 on failure.
pub(crate) fn run(command: &UserCommand) -> ExitCode {
    crate::offline_change::run("user", |out| carry_out(command, out))
}

fn carry_out(command: &UserCommand, out: &mut dyn Write) -> Result<(), Failure> {
    match &command.action {
        Action::List => list(&command.data, out),
        Action::Add { name, mechanism, password_file, iterations } => {
            let password = password(password_file.as_deref())?;
            let upsertion = upsertion(name, (*mechanism).into(), &password, *iterations)?;
            alter(&command.data, Vec::new(), vec![upsertion])
        }
        Action::Remove { name, mechanism } => {
            let mechanism = ScramMechanism::from(*mechanism).number();
            let deletion = ScramCredentialDeletion { name: name.as_str().into(), mechanism };
            alter(&command.data, vec![deletion], Vec::new())
        }
    }
}

fn list(data: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let image = crate::offline_change::image(data)?;
    for (name, mechanism, credential) in image.scram_credentials() {
        writeln!(out, "{name}: {}, {} iterations", mechanism.name(), credential.iterations)?;
    }
    Ok(())
}

/// Reads a password. It is never an argument, because other processes can see arguments.
fn password(file: Option<&Path>) -> Result<String, Failure> {
    match file {
        Some(file) => password_of_file(file),
        None => password_of(io::stdin().lock()),
    }
}

fn alter(
    data: &Path,
    deletions: Vec<ScramCredentialDeletion<'_>>,
    upsertions: Vec<ScramCredentialUpsertion<'_>>,
) -> Result<(), Failure> {
    let request = AlterUserScramCredentialsRequest { deletions, upsertions };
    change_cluster(data, None, |view: &View<'_>| users::alter(view, &request))
}
