//! Errors that requests cause, and that others may cause as well.

use super::Throttle;
use std::fmt;
use tracing::error;

/// Logs such errors, limited by their subject.
#[derive(Debug, Default)]
pub struct RequestErrors(Throttle<&'static str>);

impl RequestErrors {
    pub fn log(&mut self, now: i64, about: &'static str, words: fmt::Arguments<'_>) {
        if let Some(lines) = self.0.left_out(now) {
            error!("{lines} more lines like the following were left out");
        }
        if self.0.admits(now, about) {
            error!("{words}");
        }
    }
}
