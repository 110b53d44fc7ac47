//! Lines about requests, of which clients can cause any number.

use super::Throttle;
use std::fmt;
use tracing::{error, warn};

/// Logs such lines, limited by their subject.
#[derive(Debug, Default)]
pub struct RequestErrors(Throttle<&'static str>);

impl RequestErrors {
    /// The server's own trouble with a request.
    pub fn log(&mut self, now: i64, about: &'static str, words: fmt::Arguments<'_>) {
        self.admit(now, about, words, |line| error!("{line}"));
    }

    /// A request that is refused for what its client asks.
    pub fn warn(&mut self, now: i64, about: &'static str, words: fmt::Arguments<'_>) {
        self.admit(now, about, words, |line| warn!("{line}"));
    }

    fn admit(
        &mut self,
        now: i64,
        about: &'static str,
        words: fmt::Arguments<'_>,
        log: impl Fn(fmt::Arguments<'_>),
    ) {
        if let Some(lines) = self.0.left_out(now) {
            log(format_args!("{lines} more lines like the following were left out"));
        }
        if self.0.admits(now, about) {
            log(words);
        }
    }
}
