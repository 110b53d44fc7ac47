//! What the fuzz targets do with their input. Each body is a plain function of bytes, so that
//! `cargo test` runs the committed corpora through the same code as libFuzzer.
//!
//! A body panics if it finds a defect: whatever the input, the code under test may not panic, may
//! take no more memory than the body grants it, and has to keep the promises that the body states.
//! (That it ends is for libFuzzer's `-timeout` to see.)

// Bodies state what must hold by panicking.
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
pub mod records;
pub mod recovery;
pub mod regex;
pub mod replay;
pub mod shard;
pub mod snapshot;
mod world;

/// A target: its name, and what it does with an input.
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
    ("records", records::run),
    ("recovery", recovery::raw),
    ("recovery_edits", recovery::edits),
    ("regex", regex::run),
    ("replay", replay::run),
    ("requests", messages::requests),
    ("responses", messages::responses),
    ("shard", shard::run),
    ("snapshot_file", snapshot::file),
    ("snapshot_groups", snapshot::groups),
];
