//! The options of a server.

use crate::config::{ClusterConfig, Config, Served};
use crate::users::FirstUser;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The server's options from the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program's version, for the log.
    pub version: &'static str,
    pub config: Config,
    /// The file that configs were read from, if any.
    pub config_file: Option<PathBuf>,
    /// The resolved addresses of the listeners in `served`, for the first shard. Shard i adds i to
    /// the port.
    pub listen: Vec<SocketAddr>,
    pub served: Served,
    /// The absolute path of the data directory, as answers and the log show it.
    pub data: PathBuf,
    /// Whether the data directory is removed when the server ends.
    pub data_goes: bool,
    pub shards: u32,
    /// Whether the server was started for development: the log then shows what a developer needs
    /// first.
    pub is_for_developer: bool,
    /// Whether the log also says "ready" in Kafka's words, which test frameworks wait for.
    pub in_words_of_kafka: bool,
    /// The user to add to a new data directory.
    pub first_user: Option<FirstUser>,
    /// The cluster id of a new data directory. An existing directory with another id is refused.
    pub cluster_id: Option<String>,
    /// The cluster that this server is a node of. None for one machine.
    pub cluster: Option<ClusterConfig>,
}
