//! How well muster-load itself kept up.

use serde::{Deserialize, Serialize};

use super::Latency;

/// The delays of muster-load itself: its own part in the figures.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pace {
    /// How late the timers of all cores fired. The requests of a late timer were sent late, and
    /// their latency includes this delay.
    pub late: Latency,
    /// How long the turns of all cores took. Answers that arrived during a turn had to wait.
    pub turns: Latency,
    /// How long requests waited to be written. Their latency includes this wait.
    #[serde(default)]
    pub writing: Latency,
    /// How long answers waited to be read. Latencies do not include this: they end when the kernel
    /// received the answer. Empty if the kernel does not report that time. Latencies then end with
    /// the read.
    #[serde(default)]
    pub reading: Latency,
    pub cores: Vec<LoadCore>,
    /// If the p99 of `late` is above this bound, the load machine could not keep up.
    pub bound: Option<f64>,
}

impl Pace {
    /// Whether at least a tenth of this figure can be the load machine's own delay. `undelayed` is
    /// the figure without the delays. If it is missing, the delay of timers counts.
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

/// A load core: a thread that generates load, on its own CPU.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LoadCore {
    pub late: Latency,
    pub turns: Latency,
    #[serde(default)]
    pub writing: Latency,
    #[serde(default)]
    pub reading: Latency,
    pub cpu_seconds: f64,
    /// How long the thread could run while other threads had its CPU. `None` if the kernel does not
    /// report it.
    pub waited_seconds: Option<f64>,
}
