//! muster as a whole in one thread, from one seed: the production shards, coordinator and storage,
//! with a simulated clock, disk, network and clients, and a judge who looks at every step. The same
//! seed gives the same run. The models are TigerBeetle's VOPR and FoundationDB's simulator.
//!
//! Read in this order: `event` is all that can happen; `world` lets it happen in the order of
//! time; `process` performs what shards want, as the reactor does; `disk` and `net` keep no
//! more promises than real ones; `client` has muster-load's members and raw clients that keep book
//! of what they were promised; `judge` says what must never be.
//!
//! A run has phases: topics are created; then things go wrong (crashes, full and failing disks,
//! broken connections, members that come and go) for some simulated seconds; then all goes well and
//! everything has to settle; at last the machine loses power once more, and what the server finds
//! is laid against all that it promised.

#![forbid(unsafe_code)]

mod client;
pub mod coverage;
mod disk;
mod event;
mod judge;
mod net;
pub mod plant;
mod process;
mod profile;
mod queue;
mod random;
mod run;
mod trace;
mod world;

pub use run::{Options, Outcome, run};
