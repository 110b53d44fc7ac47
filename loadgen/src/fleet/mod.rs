//! Load from several machines. Each runs `muster-load serve`, which is a worker: a driver that gets
//! its commands, and sends its reports, over a connection. The machine with `--workers` conducts,
//! measures and checks, as if all cores were its own.
//!
//! - [`frame`] is the lowest layer of the protocol: a greeting with a version, and then JSON
//!   documents, each after its length, which is limited;
//! - [`message`] and [`report`] are the documents, and the checks of their contents;
//! - [`worker`] is one side, [`remote`] the other; [`clocks`] aligns their clocks;
//! - [`engine`] lets the run use local and remote cores in the same way.

mod clocks;
pub mod engine;
mod frame;
mod message;
mod remote;
mod report;
#[cfg(test)]
mod tests;
pub mod worker;

pub use self::engine::Engine;
pub use self::message::Begin;
pub use self::remote::{Fleet, Worker, start};

use std::time::Duration;

/// A side that sends nothing for longer counts as lost. Workers report ten times a second.
const SILENCE: Duration = Duration::from_secs(10);
