//! `muster backup`: copies a data directory, even while a server uses it.

use clap::Args;
use muster_server::addresses::resolve;
use muster_server::backup_tool::{Backup, BackupDone, Source};
use muster_server::config::{Address, Config};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Copy a data directory, even while a server uses it.
///
/// Run it on the server's machine, as the server's user or as root. The copy is one moment of all
/// shards, with everything that was acknowledged: the state that `kill -9` would leave. A server
/// starts with TARGET as with any data directory. On the same file system, segments of topics and
/// snapshots are linked, not copied: they take no space until the server removes its own.
#[derive(Debug, Args)]
pub(crate) struct BackupCommand {
    /// The directory to create. It must not exist.
    target: PathBuf,
    /// The data directory, as for `muster serve`.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The server's config: a file in the form of Kafka's server.properties. Its `admin.listener`
    /// and `admin.token` are used.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The address of the server's admin listener [default: the config's].
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// Copy all files: the backup shares none with the data directory.
    #[arg(long)]
    copy: bool,
    /// Configs. They override the file.
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) configs: Vec<String>,
}

/// Backs up the data directory `data`. `config` is the config of the server that uses it.
pub(crate) fn run(command: &BackupCommand, config: &Config, data: &Path) -> ExitCode {
    match make(command, config, data) {
        Ok(done) => {
            let BackupDone { source, linked, copied, copied_bytes } = done;
            let source = match source {
                Source::Server => "the running server",
                Source::Directory => "a directory that no server uses",
            };
            let target = command.target.display();
            println!(
                "{target} is a backup of {source}: {linked} files linked, {copied} copied \
                 ({copied_bytes} bytes)"
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("muster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn make(command: &BackupCommand, config: &Config, data: &Path) -> Result<BackupDone, String> {
    let backup = Backup {
        data,
        target: &command.target,
        admin: admin(config, command.admin.as_deref())?,
        token: config.admin_token.as_ref().map(|token| token.secret()),
        copies: command.copy,
    };
    backup.make()
}

/// The address at which this machine can reach the admin listener.
fn admin(config: &Config, given: Option<&str>) -> Result<SocketAddr, String> {
    let listener = given.unwrap_or(&config.admin_listener).trim();
    // This address is used only if a server runs: its admin listener may have the usual port.
    let listener = if listener.is_empty() { "127.0.0.1:9190" } else { listener };
    let address = resolve(&Address::of_listen(listener)?)?;
    let here = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    Ok(SocketAddr::new(here, address.port()))
}
