//! muster as a whole in one thread, from one seed: the production shards, coordinator and storage,
//! with a simulated clock, disk, network and clients, and a judge that checks every step. The same
//! seed gives the same run. The models are TigerBeetle's VOPR and FoundationDB's simulator.
//!
//! Read in this order: `event` has all events; `world` handles them in the order of time, and alone
//! knows all parts, which do not know it: `node` is a machine with the shards, each with
//! production's reactor; `disk` and `net` are no better than real ones; `client` has muster-load's
//! members, and raw clients that keep book of their answers; `judge` has the rules.
//!
//! A run has phases: topics are created; then things go wrong (crashes, full and failing disks,
//! broken connections, members that come and go) for some simulated seconds; then all goes well and
//! everything has to settle; at last the machine loses power once more, and what the server finds
//! is compared with all that it acknowledged.

#![forbid(unsafe_code)]

mod client;
pub mod coverage;
mod disk;
mod event;
mod images;
mod judge;
mod net;
mod node;
mod options;
mod profile;
mod queue;
mod random;
mod records;
mod rot;
mod run;
mod sim;
mod trace;
mod world;

pub use options::Options;
pub use run::{Outcome, run, run_loopback};
pub use world::Target;
