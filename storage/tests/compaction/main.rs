//! Compaction of a shard's log: the records that it keeps and drops, and its conditions.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod passes;
mod records;
mod segments;
mod story;
mod transactions;
