//! The server: shards, their reactors, connections, and all parts other than group logic.
//!
//! Read in this order: `shard` (one core: event in, commands out), `reactor` (turns commands into
//! ring operations), `dispatch` (passes a request to the part that answers it).

#![forbid(unsafe_code)]

pub mod addresses;
pub mod admin;
mod calendar;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod config_tool;
pub mod data_dir;
mod descriptors;
mod directories;
mod dispatch;
pub mod files;
pub mod host;
mod limits;
pub mod log_tools;
pub mod logging;
pub mod net;
mod offline;
pub mod partitions;
pub mod placement;
pub mod random;
pub mod reactor;
pub mod reshard;
pub mod serve;
pub mod shard;
mod trash;

/// Why a server or a tool cannot do its work, in words for its operator.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The version, and the revision it was built from.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MUSTER_BUILD"), ")");
