//! Stories of partitions, on a file system in memory.

mod compaction;
mod damaged;
mod decompressed;
mod fetching;
mod idempotence;
mod limits;
mod looks;
mod lost_writes;
mod model;
mod offline;
mod offsets;
mod producing;
mod questions;
mod reports;
mod rest;
mod scrub;
mod support;
mod topics;
mod transactions;
