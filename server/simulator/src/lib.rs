//! All of muster in one thread, from one seed: the production shards, coordinator and storage, with
//! a simulated clock, disk, network and clients, and a judge that checks every step. The same seed
//! gives the same run. The models are TigerBeetle's VOPR and FoundationDB's simulator.
//!
//! Read in this order. `event` has all events. `world` handles the events in the order of time; it
//! alone knows all parts, and the parts do not know it. `node` is a machine with the shards, each
//! with production's reactor. `disk` and `net` fail in all ways in which real ones do. `client` has
//! muster-load's members and raw clients, which note the states of the server that their answers
//! permit. `judge` has the rules.
//!
//! A run has phases. First topics are created. Then faults occur for some simulated seconds:
//! crashes, full and failing disks, broken connections, members that come and go. Then there are no
//! faults, and everything has to settle. Finally the machine loses power once more, and the state
//! that the server finds is compared with everything that it acknowledged.

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
pub use run::{Outcome, run, run_cluster, run_loopback};
pub use world::Target;
