//! The end of a server by a signal while it waits for the other nodes of its cluster.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// SIGTERM and SIGINT before the server handles them. While a node waits for the others, they set
/// [`Self::flag`]. At other times of the startup they end the process at once, as on one machine.
#[derive(Debug, Default)]
pub(super) struct EarlyStop {
    is_stopped: Arc<AtomicBool>,
    ends_process: Arc<AtomicBool>,
}

impl EarlyStop {
    /// Watches the signals, if this is a node of a cluster.
    ///
    /// # Errors
    /// The signals cannot be handled.
    pub(super) fn watch(is_node: bool) -> io::Result<Self> {
        let watched = Self::default();
        for signal in [SIGTERM, SIGINT].into_iter().filter(|_| is_node) {
            flag::register_conditional_default(signal, watched.ends_process.clone())?;
            flag::register(signal, watched.is_stopped.clone())?;
        }
        Ok(watched)
    }

    /// Set by a signal.
    pub(super) fn flag(&self) -> &AtomicBool {
        &self.is_stopped
    }

    /// The wait is over: from now on a signal ends the process. Returns whether one has come.
    pub(super) fn end_wait(&self) -> bool {
        self.ends_process.store(true, Ordering::Relaxed);
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// The server handles the signals from now on.
    pub(super) fn hand_over(&self) {
        self.ends_process.store(false, Ordering::Relaxed);
    }
}
