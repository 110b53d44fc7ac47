//! The keys of a request load.

use serde::Deserialize;

use super::defaults::one;
use crate::scenario::values::Span;

/// The requests of each member.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Load {
    /// Requests per second, sent on a schedule that does not wait for answers (an open loop).
    /// Without this and `every`, each answer is followed by the next request (a closed loop).
    pub rate: Option<f64>,
    /// The interval of requests, instead of `rate`.
    pub every: Option<Span>,
    #[serde(default = "one")]
    pub in_flight: u32,
    /// The number of partitions in each request. 0 means all that the member owns.
    #[serde(default)]
    pub partitions: u32,
}

impl Load {
    /// The rate in requests per second. `None` for a closed loop.
    pub fn per_second(&self) -> Option<f64> {
        self.rate.or_else(|| self.every.map(|every| 1.0 / every.0.as_secs_f64()))
    }
}
