//! Distributions of durations.

use serde::{Deserialize, Serialize};

/// A distribution of durations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// `(percentile, value)` pairs from 0 to 100, enough to draw a curve.
    pub percentiles: Vec<(f64, f64)>,
}

impl Latency {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
