//! Load from several machines. Each of them runs `muster-load serve`, which is a worker: a driver
//! that gets its commands, and sends its reports, over a connection. The machine that was started
//! with `--workers` conducts the run. It measures and checks as if all cores were its own.
//!
//! - [`frame`] is the lowest layer of the protocol: a greeting with a version, and then JSON
//!   documents. The length of each document precedes it, and is limited;
//! - [`message`] and [`report`] define the documents, and check their contents;
//! - [`worker`] is the side of the worker, and [`remote`] that of the machine that conducts.
//!   [`clocks`] measures the difference between their clocks;
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

/// A side that sends nothing for longer than this counts as lost. Each core of a worker reports at
/// least every 100 ms.
const SILENCE: Duration = Duration::from_secs(10);
