//! The events of a run, as lines. A hash over all lines serves to compare two runs. The last lines
//! are kept, to find the cause of a violation.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use xxhash_rust::xxh3::Xxh3;

/// The number of lines that are kept.
const LAST_MAX: usize = 400;

pub(crate) struct Trace {
    hash: Xxh3,
    last: VecDeque<String>,
    /// Whether each line is printed at once.
    prints: bool,
}

impl Trace {
    pub(crate) fn new(prints: bool) -> Self {
        Self { hash: Xxh3::new(), last: VecDeque::new(), prints }
    }

    /// Adds a line; `now` is in microseconds.
    pub(crate) fn note(&mut self, now: u64, what: fmt::Arguments<'_>) {
        let mut line = match self.last.len() < LAST_MAX {
            true => String::new(),
            false => self.last.pop_front().unwrap_or_default(),
        };
        line.clear();
        // Writing to a string does not fail.
        let _ = write!(line, "{:>11.6} {what}", now as f64 / 1e6);
        self.hash.update(line.as_bytes());
        if self.prints {
            println!("{line}");
        }
        self.last.push_back(line);
    }

    /// The hash of all lines so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash.digest()
    }

    pub(crate) fn last(&self) -> impl Iterator<Item = &str> {
        self.last.iter().map(String::as_str)
    }
}
