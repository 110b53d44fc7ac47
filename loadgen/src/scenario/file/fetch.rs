//! The keys of a load of members that consume records.

use serde::Deserialize;

use super::Load;
use crate::scenario::values::Span;

/// Fetches of each member from the leaders of its partitions, one at a time to each.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fetch {
    /// The most bytes of an answer. Needed, so that no reader takes it for `offset-fetch`.
    pub bytes: Option<u32>,
    /// Fetches a second, in an open loop. Without this and `every`: as fast as records come.
    pub rate: Option<f64>,
    pub every: Option<Span>,
}

impl Fetch {
    pub fn load(&self) -> Load {
        Load { rate: self.rate, every: self.every, in_flight: 1, partitions: 0 }
    }
}
