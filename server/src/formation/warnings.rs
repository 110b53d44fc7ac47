//! Lines for the log that are not repeated within a minute.

use std::time::{Duration, Instant};

/// The time after which a line is written again.
const QUIET: Duration = Duration::from_secs(60);

/// The most different lines that are written in this time. Strangers may cause many.
const LINES_MAX: usize = 16;

/// The lines that were written lately.
#[derive(Debug, Default)]
pub(super) struct Warnings(Vec<(String, Instant)>);

impl Warnings {
    /// Whether a line is to be written now.
    pub(super) fn is_due(&mut self, line: &str, now: Instant) -> bool {
        self.0.retain(|(_, written)| now.duration_since(*written) < QUIET);
        let is_due = self.0.len() < LINES_MAX && self.0.iter().all(|(it, _)| it != line);
        if is_due {
            self.0.push((line.to_owned(), now));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_a_minute_and_few_others_with_it() {
        let (mut warnings, start) = (Warnings::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in 0..180 {
            assert_eq!(warnings.is_due("a", at(second)), second % 60 == 0);
        }
        let written = (0..1_000).filter(|it| warnings.is_due(&it.to_string(), at(180))).count();
        assert_eq!(written, LINES_MAX);
    }
}
