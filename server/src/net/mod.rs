//! The clients of a shard: connections without sockets.
//!
//! [`Clients`] is sans-I/O. Its input:
//! - the time, first of all in each event and turn;
//! - events of connections, and received bytes. It takes frames out of them
//!   ([`Clients::next_frame`]), in turns that are fair to all ([`Clients::next_work`]);
//! - requests and their answers ([`Clients::answers`]), each with the positions in the log that it
//!   waits for, and the positions that became durable;
//! - the end of a turn ([`Clients::begin_turn`], [`Clients::sweep`], [`Clients::resume`],
//!   [`Clients::end_turn`]).
//!
//! Its output: commands for the reactor, bytes to send ([`Clients::take_sendable`]), and closed
//! connections with the files that their answers held ([`Clients::take_gone`]).
//!
//! Invariants:
//! - Answers of a connection leave in the order of its requests, each once the records that it
//!   depends on are durable.
//! - No connection waits for longer than one slice of each other connection. Connections whose
//!   requests have been short (`standing.rs`) wait for little more than one slice of all others
//!   together.
//! - Input, unread answers and slices have budgets, for each connection and for all. Over a budget,
//!   receiving from connections stops, and connections that delay others are closed.
//! - A client of a listener that asks for a password is limited in number, time and bytes until it
//!   is authenticated. None of its requests is handled before ([`Clients::authenticator`]).
//!
//! A connection knows its listener, and so the addresses that its answers contain
//! ([`Endpoints`](crate::cluster::Endpoints)). It also has an `Access`. Until its client is
//! authenticated, `shard/stages.rs` passes its frames to `shard/authentication.rs`.

mod access;
mod account;
mod amend;
mod clients;
mod command;
mod connection;
mod connection_id;
mod connections;
mod counters;
mod doors;
mod durable;
mod frames;
mod input;
pub(crate) mod limits;
mod long_input;
mod looks;
mod run_queue;
mod standing;
mod stranger;
mod stream;
mod throttle;
mod timings;
mod unread;

pub use account::{Account, Kind};
pub(crate) use amend::{AMENDMENTS_BYTES_MAX, Amend};
pub(crate) use clients::{Clients, Gone, Input, NOT_AUTHENTICATED, mistaken};
#[cfg(test)]
pub(crate) use clients::{IDLE_SWEEP_MS, INPUT_ENDED_PATIENCE_MS};
pub use command::{ClientCommand, Part};
pub use connection_id::ConnectionId;
pub use connections::{Connections, TooMany};
pub use counters::{ClientCounters, ClientGauges};
pub(crate) use durable::Reply;
pub use durable::VisibleAt;
pub(crate) use input::{BURST_BYTES_MAX, INPUT_BYTES_DEFAULT, SHORT_FRAMES_BYTES_MAX};
pub use limits::{Limits, SLICES_MAX};
pub(crate) use run_queue::Work;
pub(crate) use stranger::encrypted_expected;
pub use timings::Timings;
pub(crate) use unread::UNREAD_BYTES_MAX;
