//! How well the load generator itself kept up.

use serde::{Deserialize, Serialize};

use super::Latency;

/// How well muster-load itself kept up: its own part in the figures.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pace {
    /// How late the timers of all cores fired. Requests that were due then were sent this much
    /// later, and their latency has it.
    pub late: Latency,
    /// The time that the turns of all cores took: answers that arrived meanwhile had to wait.
    pub turns: Latency,
    /// How long requests waited to be written; their latency has it.
    #[serde(default)]
    pub writing: Latency,
    /// How long answers waited to be read. No latency has it: they end when the kernel received
    /// the answer. Empty if the kernel does not say when: then they end with the reading.
    #[serde(default)]
    pub reading: Latency,
    pub cores: Vec<LoadCore>,
    /// If the p99 of `late` is above this, this machine could not keep up.
    pub bound: Option<f64>,
}

impl Pace {
    /// Whether at least a tenth of this figure can be this machine's own delay. `undelayed` is the
    /// figure without its delays; without `undelayed` the delay of timers counts.
    pub fn blurs(
        &self,
        latency: &Latency,
        figure: fn(&Latency) -> f64,
        undelayed: Option<&Latency>,
    ) -> bool {
        let value = figure(latency);
        let own = undelayed.map_or(figure(&self.late), |undelayed| value - figure(undelayed));
        let unseen = if self.reading.count == 0 { figure(&self.turns) } else { 0.0 };
        let own = own.max(unseen);
        own > 0.0 && value < 10.0 * own
    }
}

/// A thread that generates load, on a CPU of its own.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LoadCore {
    pub late: Latency,
    pub turns: Latency,
    #[serde(default)]
    pub writing: Latency,
    #[serde(default)]
    pub reading: Latency,
    pub cpu_seconds: f64,
    /// The time in which it could run, and other threads had its CPU; `None` if the kernel does
    /// not say.
    pub waited_seconds: Option<f64>,
}
