//! How well muster-load itself kept up.

use serde::{Deserialize, Serialize};

use super::Latency;

/// The delays that muster-load itself caused. Most of them are part of the latencies.
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
    /// How long answers waited to be read after the kernel had received them. Latencies do not
    /// include this wait. But some kernels do not report when they received an answer: then this is
    /// empty, and latencies end when the answer was read.
    #[serde(default)]
    pub reading: Latency,
    pub cores: Vec<LoadCore>,
    /// If the p99 of `late` is above this bound, the load machine could not keep up.
    pub bound: Option<f64>,
}

impl Pace {
    /// Whether more than a tenth of this figure can be a delay by the load machine. `undelayed` is
    /// the same figure without the delays. If it is missing, the figure's delay is assumed to be
    /// that of the timers. If the kernel does not report when answers arrive, the delay is assumed
    /// to be at least as long as the turns of the load cores.
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
    /// How long the thread was ready to run, but had to wait because other threads used its CPU.
    /// `None` if the kernel does not report it.
    pub waited_seconds: Option<f64>,
}
