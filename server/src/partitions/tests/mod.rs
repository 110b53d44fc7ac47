//! Stories of partitions, on a file system in memory.

mod fetching;
mod idempotence;
mod model;
mod offsets;
mod producing;
mod rest;
mod support;
mod topics;
mod transactions;
