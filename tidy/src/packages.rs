//! The crates that the workspace depends on, and the rules of `deny.toml` about them.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::io;
use std::process::Command;

/// A crate that is part of a build on this machine.
#[derive(Debug, Clone, Default)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub license: String,
    /// None for a crate of the workspace.
    pub source: Option<String>,
}

impl Package {
    /// The crates of the workspace and all their dependencies for this platform, from the lock
    /// file.
    ///
    /// # Errors
    /// Cargo or rustc fails, or prints something unexpected.
    pub fn all() -> io::Result<Vec<Self>> {
        let host = host()?;
        let arguments = ["metadata", "--format-version=1", "--locked", "--offline"];
        let mut command = Command::new(env!("CARGO"));
        let text = output(command.args(arguments).args(["--filter-platform", &host]))?;
        let metadata: Metadata = serde_json::from_str(&text)?;
        let used: BTreeSet<&str> = metadata.resolve.nodes.iter().map(|it| &*it.id).collect();
        let packages = metadata.packages.iter().filter(|it| used.contains(&*it.id));
        let package = |it: &Described| Self {
            name: it.name.clone(),
            version: it.version.clone(),
            license: it.license.clone().unwrap_or_default(),
            source: it.source.clone(),
        };
        Ok(packages.map(package).collect())
    }
}

/// The fields of `cargo metadata` that are used.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Described {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
}

/// The platform of this machine. Dependencies for other platforms may not have been downloaded.
fn host() -> io::Result<String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| io::Error::other("rustc does not say its host"))
}

fn output(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    String::from_utf8(output.stdout).map_err(io::Error::other)
}

/// The part of `deny.toml` that is checked here. `.ci/deny` runs cargo-deny, which checks more.
#[derive(Debug, Clone, Default)]
pub struct Deny {
    /// Licences that every crate may have.
    pub licenses: Vec<String>,
    pub exceptions: Vec<Exception>,
    /// Crates that may be present in two versions.
    pub skipped: Vec<Skipped>,
}

/// A crate that may have additional licences.
#[derive(Debug, Clone, Deserialize)]
pub struct Exception {
    #[serde(rename = "crate")]
    pub name: String,
    pub allow: Vec<String>,
}

/// An entry `name@version`. The version may be incomplete, such as `1` or `1.2`.
#[derive(Debug, Clone)]
pub struct Skipped {
    pub name: String,
    pub version: String,
}

impl Deny {
    /// Parses `deny.toml`.
    ///
    /// # Errors
    /// The text is not a valid `deny.toml`.
    pub fn parse(text: &str) -> io::Result<Self> {
        let file: File = toml::from_str(text).map_err(io::Error::other)?;
        let skipped = file.bans.skip.into_iter().map(|it| {
            let skipped = it.crate_.split_once('@').map(|(name, version)| Skipped {
                name: name.to_owned(),
                version: version.to_owned(),
            });
            skipped.ok_or_else(|| io::Error::other(format!("{} has no version", it.crate_)))
        });
        Ok(Self {
            licenses: file.licenses.allow,
            exceptions: file.licenses.exceptions,
            skipped: skipped.collect::<io::Result<_>>()?,
        })
    }
}

#[derive(Deserialize)]
struct File {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<SkipEntry>,
}

#[derive(Deserialize)]
struct SkipEntry {
    #[serde(rename = "crate")]
    crate_: String,
}
