//! Compaction of a shard's log: which records are kept and dropped, and when passes run.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod passes;
mod records;
mod segments;
mod story;
mod transactions;
