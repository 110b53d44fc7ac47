//! Load from several machines. Each runs `muster-load serve`, a worker: a driver whose commands
//! come, and whose reports go, through one connection. The machine with `--workers` conducts,
//! measures and checks, as if all their cores were its own.
//!
//! - [`frame`] is the protocol's lowest layer: a greeting with a version, then JSON documents, each
//!   preceded by its length, which is bounded;
//! - [`message`] and [`report`] are the documents, and what is checked of them;
//! - [`worker`] is one side, [`remote`] the other; [`clocks`] aligns theirs;
//! - [`engine`] makes cores here and cores elsewhere the same to the run.

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

/// A side that is silent for longer is lost. Workers report ten times a second.
const SILENCE: Duration = Duration::from_secs(10);
