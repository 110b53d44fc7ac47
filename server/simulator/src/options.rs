//! The options of a run.

use muster_faults::Fault;

/// The options of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub fault: Option<Fault>,
    /// More steps than this are a violation.
    pub steps_max: u64,
    /// At every n-th change of the disk, a server is started from each crash image; 0 means never.
    pub images_every: u64,
    /// Whether every line of the trace is printed.
    pub prints: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { fault: None, steps_max: 20_000_000, images_every: 0, prints: false }
    }
}
