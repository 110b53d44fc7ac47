//! The bodies of the fuzz targets. Each is a plain function of bytes, so that `cargo test` can run
//! the committed corpora through the same code as libFuzzer.
//!
//! A body panics if it finds a defect. For any input the code under test must not panic, must not
//! exceed the memory limit that the body sets, and must satisfy the properties that the body
//! states. (libFuzzer's `-timeout` checks that it terminates.)

// Bodies report defects by panics.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

pub mod amplification;
mod asks;
pub mod batches;
#[path = "../../../server/coordinator/tests/common/mod.rs"]
mod common;
pub mod config;
pub mod consumer_protocol;
pub mod coordinator;
pub mod frames;
pub mod import;
mod memory;
pub mod messages;
pub mod partition_recovery;
pub mod peers;
pub mod records;
pub mod recovery;
pub mod regex;
pub mod replay;
pub mod shard;
pub mod slot_entries;
pub mod snapshot;
mod world;

/// The name of a target, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets, by name.
pub const TARGETS: &[Target] = &[
    ("amplification", amplification::run),
    ("batches", batches::run),
    ("config", config::run),
    ("consumer_protocol", consumer_protocol::run),
    ("coordinator", coordinator::run),
    ("frames", frames::run),
    ("import", import::run),
    ("partition_recovery", partition_recovery::run),
    ("peers", peers::run),
    ("records", records::run),
    ("recovery", recovery::raw),
    ("recovery_edits", recovery::edits),
    ("regex", regex::run),
    ("replay", replay::run),
    ("requests", messages::requests),
    ("responses", messages::responses),
    ("shard", shard::run),
    ("slot_entries", slot_entries::run),
    ("snapshot_file", snapshot::file),
    ("snapshot_groups", snapshot::groups),
];
