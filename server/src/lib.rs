//! The server: shards, their reactors, connections, and everything that is not group logic.
//!
//! Read in this order: `shard` (one core: event in, commands out), `reactor` (the one file that
//! turns commands into ring operations), `dispatch` (a request to the part that answers it).

#![forbid(unsafe_code)]

pub mod cluster;
pub mod config;
pub mod partitions;
pub mod placement;
