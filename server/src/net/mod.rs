//! The clients of a shard: their connections, but not the sockets.
//!
//! [`Clients`] performs no I/O (it is sans-I/O). Its input:
//! - the time, which every event and turn begins with;
//! - events of connections, and received bytes. [`Clients`] takes frames out of these bytes
//!   ([`Clients::next_frame`]), in turns that are fair to all ([`Clients::next_work`]);
//! - requests and their answers ([`Clients::answers`]). Each answer has the positions in the log
//!   that it waits for. Other input reports the positions that became durable;
//! - the end of a turn ([`Clients::begin_turn`], [`Clients::sweep`], [`Clients::resume`],
//!   [`Clients::end_turn`]).
//!
//! Its output: commands for the reactor, bytes to send ([`Clients::take_sendable`]), and closed
//! connections with the files that their answers held open ([`Clients::take_gone`]).
//!
//! Invariants:
//! - Answers of a connection are sent in the order of its requests. An answer also waits until the
//!   records that it depends on are durable.
//! - A connection is served in slices of time. While it waits for its next slice, every other
//!   connection gets at most one. Connections whose requests have been short come first
//!   (`standing.rs`): while these wait, all other connections together get at most one slice in
//!   five.
//! - Input, unread answers and slices have budgets, for each connection and for all. Over a budget,
//!   receiving from connections stops, and connections that delay others are closed.
//! - On a listener that requires a password, clients that are not authenticated are limited in
//!   number, time and bytes. No other request of theirs is handled ([`Clients::authenticator`]).
//!
//! `connections.rs` lists the parts that decide about connections. [`Clients`] adds the order in
//! which input is handled, authentication and the time.
//!
//! A connection knows its listener, and so the addresses that its answers contain
//! ([`Endpoints`](crate::cluster::Endpoints)). It also has an `Access`. Until its client is
//! authenticated, `shard/stages.rs` passes its frames to `shard/authentication.rs`.

mod access;
mod account;
mod amend;
mod amendments;
mod answers;
mod charge;
mod clients;
mod command;
mod connection;
mod connection_id;
mod connections;
mod counters;
mod doors;
mod durable;
mod frames;
mod incoming;
mod inputs;
pub(crate) mod limits;
mod long_input;
mod looks;
mod outgoing;
mod outputs;
mod requests;
mod run_queue;
mod standing;
mod stranger;
mod stream;
mod table;
mod throttle;
mod timings;
mod unauthenticated;
mod unread;
mod unserved;

pub use account::{Account, Kind};
pub(crate) use amend::Amend;
pub(crate) use clients::{Clients, Gone, Input, mistaken};
#[cfg(test)]
pub(crate) use clients::{IDLE_SWEEP_MS, INPUT_ENDED_PATIENCE_MS};
pub use command::{ClientCommand, Part};
pub use connection_id::ConnectionId;
pub use connections::Connections;
pub use counters::{ClientCounters, ClientGauges};
pub use doors::TooMany;
pub(crate) use durable::Reply;
pub use durable::VisibleAt;
pub(crate) use limits::{
    AMENDMENTS_BYTES_MAX, BURST_BYTES_MAX, INPUT_BYTES_DEFAULT, SHORT_FRAMES_BYTES_MAX,
    UNREAD_BYTES_MAX,
};
pub use limits::{Limits, SLICES_MAX};
pub(crate) use run_queue::Work;
pub(crate) use stranger::encrypted_expected;
pub use timings::Timings;
pub(crate) use unauthenticated::NOT_AUTHENTICATED;
