//! `muster-load` simulates thousands of group members against any Kafka-compatible cluster. It
//! measures how long rebalances and commits take, and checks the coordinator's guarantees.
//!
//! ```text
//! scenario -> Conductor -> Command -> driver (a core) -> Member -> request -> connection
//!                 ^                                         ^                     |
//!                 |                                         +------ answer -------+
//!              Status <- measure <- merge <- CoreReport (events, samples)
//!                           check, history
//! ```
//!
//! The modules, in the order of a run:
//!
//! - [`scenario`] reads a scenario (groups, members, phases, loads, faults, thresholds) and
//!   conducts it: it takes the status and returns commands;
//! - [`security`] says how the driver connects: TLS, user names and tokens, client.properties;
//! - [`driver`] executes the commands: one runtime for each load core, connections, TLS, SASL. It
//!   contains the members, and passes them time and answers;
//! - [`fleet`] passes commands to drivers on other machines, and returns their reports;
//! - [`client`] starts and watches real clients beside the members;
//! - [`member`] is the behaviour of real clients, as state machines without I/O. They take answers
//!   and time, and return requests and events;
//! - [`event`]s of all cores, in order of time, go to [`measure`] (rebalances, pauses, rates), to
//!   [`check`] (the coordinator's guarantees) and to [`history`] (JSON lines);
//! - [`report`] shows the results: live, as a table, JSON, CSV, a page, and runs side by side.
//!
//! The checks ([`check`]) share no code with muster's server: they see only the answers to members.
//! Only the driver has connections to the cluster.

#![forbid(unsafe_code)]

pub mod capacity;
pub mod check;
pub mod client;
pub mod driver;
pub mod event;
pub mod fleet;
pub mod history;
pub mod http;
pub mod measure;
pub mod member;
pub mod plan;
pub mod report;
pub mod scenario;
pub mod security;
pub mod time;
pub mod topics;
pub mod wire;
