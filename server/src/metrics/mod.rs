//! Metrics and health on the admin listener (`admin.listener`), by HTTP.
//!
//! A shard answers [`Message::Report`](crate::shard::Message) with copies of its numbers
//! ([`Report`](crate::report::Report)), some kilobytes, which takes no longer with a million groups
//! than with none. All else is done by threads of the admin side ([`Admin`]): requests
//! ([`http`](http)), sums over shards and the last minute ([`sums`](sums)), names ([`own`](own),
//! [`kafka`](kafka)), and text ([`family`](family)).
//!
//! HTTP is hostile input: requests and connections are few, short and limited in time.

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
