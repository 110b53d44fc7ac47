//! The keys of the load of members that consume records.

use serde::Deserialize;

use super::Load;
use crate::scenario::values::Span;

/// Each member fetches from the leaders of its partitions, with one request at a time to each
/// leader.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fetch {
    /// The maximum size of an answer. This key may not be left out: a user who confuses this load
    /// with `offset-fetch` gets an error.
    pub bytes: Option<u32>,
    /// Fetches per second, in an open loop. Without this and `every`, members fetch as fast as
    /// records come.
    pub rate: Option<f64>,
    pub every: Option<Span>,
}

impl Fetch {
    pub fn load(&self) -> Load {
        Load { rate: self.rate, every: self.every, in_flight: 1, partitions: 0 }
    }
}
