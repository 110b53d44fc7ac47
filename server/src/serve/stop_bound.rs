//! Ensures that SIGTERM ends the process in a limited time, even if something hangs.

use crate::config::Config;
use crate::logging;
use crate::metrics::ShardStates;
use std::thread;
use std::time::Duration;
use tracing::warn;

/// The longest time for a stop.
#[derive(Clone)]
pub(super) struct StopBound {
    max: Duration,
    states: ShardStates,
}

impl StopBound {
    pub(super) fn new(config: &Config, states: ShardStates) -> Self {
        Self { max: Duration::from_millis(config.stop_max_ms.unsigned_abs()), states }
    }

    /// Ends the process with status 1 after the limit, if it has not ended by then. No acknowledged
    /// record is lost: the kernel has the records of user topics, and all other records are
    /// durable.
    pub(super) fn begin(&self) {
        let bound = self.clone();
        let begun = thread::Builder::new().name("stop-bound".to_owned()).spawn(move || bound.end());
        if let Err(error) = begun {
            warn!("the stop has no bound: {error}");
        }
    }

    fn end(&self) {
        thread::sleep(self.max);
        let (seconds, not_ended) = (self.max.as_secs(), self.states.not_ended());
        logging::fail(format_args!(
            "the stop has not ended within {seconds} s (stop.max.ms): {not_ended}. All that was \
             acknowledged is durable; the next start is as after a crash"
        ));
    }
}
