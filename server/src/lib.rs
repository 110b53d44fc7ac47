//! The server: shards, their reactors, connections, and all parts apart from the logic of groups,
//! transactions and share partitions.
//!
//! Start reading with `shard` (one core: events in, commands out), `reactor` (its loop: completions
//! become events, commands become operations) and `dispatch` (passes a request to the part that
//! answers it).

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod addresses;
pub mod admin;
mod backup;
pub mod backup_tool;
pub mod calendar;
pub mod certificates;
pub mod clock;
pub mod cluster;
pub mod config;
mod controller;
pub mod data_dir;
pub mod data_place;
mod descriptors;
mod dialer;
pub mod directories;
pub mod disk_reserve;
pub mod disk_space;
mod dispatch;
mod event;
mod file_state;
pub mod files;
mod formation;
mod groups;
pub mod host;
mod http_agent;
mod inquiry;
mod key_fetcher;
mod limit_gauges;
mod limit_refusals;
mod limits;
mod list_over_all;
pub mod logging;
mod long_requests;
mod mailbox;
mod metrics;
pub mod net;
pub mod offline;
mod operator;
pub mod partitions;
pub mod placement;
pub mod quotas;
pub mod random;
pub mod reactor;
pub mod report;
pub mod reshard;
pub mod restate;
pub mod security;
pub mod serve;
pub mod shard;
mod shares;
pub mod stall;
mod supervisor;
pub mod telemetry;
mod telemetry_thread;
mod token_keys;
pub mod topics;
mod transactions;
pub mod trash;
pub mod users;
pub mod volume;

/// The reason, for the operator, why a server or a tool cannot do its work.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
