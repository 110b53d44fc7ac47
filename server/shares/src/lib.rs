//! The partition side of share groups (KIP-932): decides which records of a topic partition are
//! done, and which members hold the records that are delivered but not done. Start here;
//! `README.md` describes the duties of the server and the differences from Kafka.
//!
//! A deterministic state machine without I/O, clock or randomness. A *share partition* is a group,
//! a topic id and a partition. The share partition and its state are on the shard that leads the
//! partition.
//!
//! - **State**: [`States`] is the durable state of each share partition. Its handlers return
//!   records; [`States::replay`] alone changes the state, in normal work and at recovery.
//! - **Partitions**: a [`SharePartition`] holds the records in flight and the locks of members on
//!   them. It is volatile, and is open while its group has a session on the shard.
//!   [`OpenPartitions`] holds all share partitions that are open on a shard.
//! - **Sessions**: [`Sessions`] holds the share sessions of clients. They are volatile, too.

#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

extern crate alloc;

mod key;
pub mod limits;
mod open_partitions;
pub mod partition;
mod record_state;
pub mod sessions;
pub mod state;

pub use key::{SharePartitionKey, TopicPartition};
pub use open_partitions::{LogNumber, OpenPartitions, Taken};
pub use partition::{Settings, SharePartition};
pub use record_state::RecordState;
pub use sessions::Sessions;
pub use state::{State, StateBatch, States};
