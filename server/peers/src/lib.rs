//! The connections between the nodes of a cluster: the bytes on them, and their states. Sans-I/O:
//! no socket, no clock, no thread.
//!
//! `FORMAT.md` of this crate describes the bytes.
//!
//! - [`frame`]: a frame, in bytes that arrive in pieces.
//! - [`message`]: raft's messages in a frame.
//! - [`hello`]: the first bytes on a connection.
//! - [`mod@check`]: the checks of a hello.
//! - [`refusal`]: the differences that end a connection, with a sentence for each.
//! - [`slots`]: the shards that have slots in common.
//! - [`peers`]: all connections of a shard. Start here.
//! - [`output`]: the consequences of a call, for the caller.
//! - [`limits`]: their limits.
//! - `outgoing`, `incoming`: one connection; `unsent`: the bytes that wait to be sent on it.
//! - `noticed`: the lines that are not repeated.
//! - `process`: the newest known process of a node.

#![forbid(unsafe_code)]

pub mod check;
pub mod frame;
pub mod hello;
mod incoming;
pub mod limits;
pub mod message;
mod noticed;
mod outgoing;
pub mod output;
pub mod peers;
mod process;
pub mod refusal;
pub mod slots;
mod unsent;

pub use check::check;
pub use frame::{Building, Frame, FrameError, Frames, Kind};
pub use hello::{Hello, HelloBytes, Identity};
pub use message::Messages;
pub use output::{Connection, Dial, DialError, Level, MayBe, Notice, Output, PeerEvent};
pub use peers::Peers;
pub use refusal::Refusal;
