//! Metrics and health checks over HTTP, on the admin listener (`admin.listener`).
//!
//! A reactor answers a [request](crate::mailbox::ToReactor::Report) with a copy of the counters and
//! gauges of its shard ([`Report`](crate::report::Report)). The copy has a few kilobytes, and takes
//! no longer with a million groups. Threads of the admin side ([`Admin`]) do the rest: they read
//! requests ([`http`](http)), add up the numbers of all shards and those of the last minute
//! ([`sums`](sums)), name the metrics ([`own`](own), [`kafka`](kafka)), and write the text
//! ([`family`](family)).
//!
//! HTTP requests may be hostile, so connections and requests are limited in number, length and
//! time.
//!
//! [`gather`](gather) keeps the numbers of the last minute for rates and quantiles. The threads of
//! the shards set their state (`ShardStates`) only when they start, fail and end. The simulator
//! prints the sums at the end of a run, and its test requires that each counter has counted
//! something. The server logs the sums at a clean stop, at the level `debug`.

mod admin;
#[cfg(test)]
mod catalog;
mod family;
mod gather;
mod guard;
mod health;
mod http;
mod kafka;
mod lag;
mod own;
mod page;
mod places;
mod process;
mod shards;
mod sums;
mod watchdog;

pub(crate) use admin::{Admin, bind};
pub(crate) use health::{ShardState, ShardStates};
pub(crate) use watchdog::watch;

#[cfg(test)]
mod tests;
