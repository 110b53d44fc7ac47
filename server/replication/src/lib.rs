//! All raft groups of one shard of one node. Sans-I/O: no clock, no file, no socket. This is the
//! only crate that names `raft`; the types of its interface are its own.
//!
//! `docs/raft.md` has the words, the rules that this crate keeps, and the measurements for them.
//!
//! - [`replicas`]: all replicas of the shard, and the duties of the caller. Start here.
//! - [`ids`]: the numbers of groups, nodes, replicas, terms and entries.
//! - [`members`]: the replicas of a group, and the changes of them.
//! - [`entry`]: the entries of a group's log.
//! - [`message`]: the messages between replicas.
//! - `convert`: the same values as raft's structs, field by field. No byte of a socket or a disk is
//!   parsed as protobuf.
//! - [`replica`]: one replica: raft's state machine with its log.
//! - [`validation`]: the checks of a message before raft sees it.
//! - [`ranks`]: the order in which voters stand for election.
//! - [`tick`]: the ticks by which a message shows its age.
//! - [`output`]: the consequences of a call, for the caller.
//! - `heard`: the newest ticks of the shards of other nodes.
//! - `rounds`: the rounds by which a leader shows that it still leads.
//! - `unflushed`: the blocks that a replica waits for.
//! - `log`: the index of a replica's log. `storage` is raft's view of it, and `wants` has the parts
//!   of it that raft waits for.
//! - `world`: the tests with several nodes, whose disks, links and clocks are simulated.

#![forbid(unsafe_code)]

mod convert;
pub mod entry;
mod heard;
pub mod ids;
mod injected;
mod log;
pub mod members;
pub mod message;
pub mod output;
pub mod ranks;
pub mod replica;
pub mod replicas;
mod rounds;
mod storage;
pub mod tick;
mod unflushed;
pub mod validation;
mod wants;
#[cfg(test)]
mod world;

pub use entry::{Content, Entry, EntryHead, Kind};
pub use heard::shard_of;
pub use ids::{BlockNumber, Group, Index, NodeId, ReplicaId, Session, Term};
pub use members::{Base, Change, Members};
pub use message::{Body, PeerMessage, Round};
pub use output::{Output, Record, Role};
pub use replica::{NotNow, RecoveredGroup, Refused};
pub use replicas::{Config, Replicas, StillVoter};
pub use tick::Tick;
pub use validation::Lie;
