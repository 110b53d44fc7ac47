//! Rebalances: how long they took, and how many partitions they moved.

use serde::{Deserialize, Serialize};

/// A rebalance, from its trigger to the time when the group was stable again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rebalance {
    pub group: String,
    /// `formation`, `1 joined`, `500 crashed`, `partitions added`, ...
    pub trigger: String,
    pub began: f64,
    /// From the trigger to the event that made the group stable. `None` if it never became stable.
    pub took: Option<f64>,
    /// The next trigger came before the group was stable. So this rebalance has no time of its own,
    /// only together with the next one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
    /// For crashes: the part of `took` after the first sign that the coordinator noticed the loss
    /// (a changed assignment or a rebalance). The part before it is the session timeout.
    pub took_since_detected: Option<f64>,
    /// The number of live members when the group was stable again.
    pub members: u32,
    pub partitions: u32,
    /// The number of partitions that changed their owner.
    pub moved: u32,
    /// The number of partitions that members gave up.
    pub revoked: u32,
}
