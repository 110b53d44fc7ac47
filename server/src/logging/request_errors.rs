//! Log lines about requests. Clients can cause any number of them, so they are limited.

use super::Throttle;
use std::fmt;
use tracing::{error, warn};

/// Logs lines about requests, with a limit for each subject.
#[derive(Debug, Default)]
pub struct RequestErrors(Throttle<&'static str>);

impl RequestErrors {
    /// Logs an error: the server has a problem with a request.
    pub fn log(&mut self, now: i64, about: &'static str, words: fmt::Arguments<'_>) {
        self.admit(now, about, words, |line| error!("{line}"));
    }

    /// Logs a warning: a request is refused because of what the client asks.
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
