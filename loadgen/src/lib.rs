//! `muster-load` simulates thousands of group members against any Kafka-compatible cluster,
//! measures how long rebalances and commits take, and checks that the coordinator keeps its word.
//!
//! The modules, in the order of a run:
//!
//! - [`scenario`] reads a scenario (groups, members, phases, loads, faults, thresholds) and
//!   conducts it: status in, commands out;
//! - [`driver`] executes the commands: one glommio executor for each load core, connections, TLS,
//!   SASL. It holds the members and passes them time and answers;
//! - [`member`] is the behaviour of real clients, as state machines without I/O: answers and time
//!   in, requests and events out;
//! - [`event`]s of all cores, in order of time, go to [`measure`] (rebalances, pauses, rates), to
//!   [`check`] (the coordinator's word) and to [`history`] (JSON lines);
//! - [`report`] shows the results: live, as a table, JSON, CSV, a page, and runs side by side.

#![forbid(unsafe_code)]

pub mod capacity;
pub mod check;
pub mod driver;
pub mod event;
pub mod history;
pub mod measure;
pub mod member;
pub mod plan;
pub mod report;
pub mod scenario;
pub mod time;
pub mod topics;
pub mod wire;
