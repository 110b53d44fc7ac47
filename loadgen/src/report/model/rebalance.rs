//! Rebalances, with their times and the partitions that they moved.

use serde::{Deserialize, Serialize};

/// A rebalance, from its trigger until the group was stable again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rebalance {
    pub group: String,
    /// `formation`, `1 joined`, `500 crashed`, `partitions added`, ...
    pub trigger: String,
    pub began: f64,
    /// From the trigger to the event that made the group stable; `None` if it never was.
    pub took: Option<f64>,
    /// The next trigger came before the group was stable: only the two together have a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
    /// For crashes: the part of `took` from the coordinator's first sign of the loss (a changed
    /// assignment or a rebalance) on. The part before is the session timeout.
    pub took_since_detected: Option<f64>,
    /// Live members when it was stable again.
    pub members: u32,
    pub partitions: u32,
    /// Partitions that changed their owner, and partitions that were given up.
    pub moved: u32,
    pub revoked: u32,
}
