//! Log lines about requests that were refused because of a limit. A client sees only an error code
//! or a delay; the log shows its operator which limit was the cause.

use crate::limit_gauges::Limit;
use crate::logging::RequestErrors;
use muster_fairness::{Address, Exceeded};

/// A request that met a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) limit: Limit,
    pub(crate) exceeded: Exceeded,
    /// The client's address.
    pub(crate) address: Address,
}

impl Refused {
    /// Logs the refusal, unless a line about the limit was logged recently.
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

/// If a limit does not let a fetch wait for records, its client is throttled instead, for this
/// number of milliseconds. It is the time that the fetch asked to wait, but at least 100 ms, so
/// that the client does not retry at once, and at most 1 s, so that its records are not late.
pub(crate) fn refused_wait_ms(wait_ms: i64) -> i64 {
    wait_ms.clamp(100, 1_000)
}
