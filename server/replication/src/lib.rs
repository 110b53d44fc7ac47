//! All raft groups of one shard of one node. Sans-I/O: no clock, no file, no socket. This is the
//! only crate that names `raft`; the types of its interface are its own.
//!
//! `docs/raft.md` has the words, the rules that this crate keeps, and the measurements behind them.
//!
//! - [`ids`]: the numbers of groups, nodes, replicas, terms and entries.
//! - [`members`]: the replicas of a group, and the changes of them.
//! - [`entry`]: the entries of a group's log.
//! - [`message`]: the messages between replicas.
//! - `convert`: the same values as raft's structs, field by field. No byte of a socket or a disk is
//!   parsed as protobuf.
//! - `log`: the index of a replica's log. `storage` is raft's view of it, and `wants` has the parts
//!   of it that raft waits for.

#![forbid(unsafe_code)]

#[cfg_attr(not(test), expect(dead_code, reason = "its callers come with the replica"))]
mod convert;
pub mod entry;
pub mod ids;
#[allow(dead_code, reason = "its callers come with the replica")]
mod log;
pub mod members;
pub mod message;
mod storage;
#[allow(dead_code, reason = "its callers come with the replica")]
mod wants;

pub use entry::{Content, Entry, EntryHead, Kind};
pub use ids::{Group, Index, NodeId, ReplicaId, Term};
pub use members::{Base, Change, Members};
pub use message::{Body, PeerMessage, Round};
