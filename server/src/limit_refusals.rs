//! Requests that met a limit, as lines in the log: a client sees an error code, or has to wait, and
//! its operator finds here which limit it was.

use crate::limit_gauges::Limit;
use crate::logging::RequestErrors;
use muster_fairness::{Address, Exceeded};

/// A request that met a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) limit: Limit,
    pub(crate) exceeded: Exceeded,
    /// The address of its client.
    pub(crate) address: Address,
}

impl Refused {
    /// Logs it, unless the limit had a line of late.
    pub(crate) fn log(&self, now: i64, errors: &mut RequestErrors) {
        let Self { limit, exceeded, address } = self;
        let (name, words, help) = (limit.name(), exceeded.words(), limit.help());
        let key = limit.key().filter(|key| *key != name);
        let (set_by, key) = key.map_or(("", ""), |key| (", set by ", key));
        let line = format_args!(
            "a client at {address} may use no more of {name}{set_by}{key}: {words} ({help})"
        );
        errors.warn(now, name, line);
    }
}

/// How long a client has to wait that may not wait for records, in ms: as long as it would have
/// waited for them, but neither so short that it asks again and again, nor so long that records are
/// late.
pub(crate) fn refused_wait_ms(wait_ms: i64) -> i64 {
    wait_ms.clamp(100, 1_000)
}
