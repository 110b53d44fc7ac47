//! How well the load cores themselves kept up: late timers, long turns, waits for a CPU.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::latency::{add, histogram, latency};
use crate::driver::command::Sample;
use crate::report::model;

/// The pace of all cores, by their numbers.
#[derive(Default)]
pub(super) struct Paces {
    cores: Vec<CorePace>,
}

struct CorePace {
    late: Histogram<u64>,
    turns: Histogram<u64>,
    writing: Histogram<u64>,
    reading: Histogram<u64>,
    cpu: Duration,
    waited: Option<Duration>,
}

impl Default for CorePace {
    fn default() -> Self {
        Self {
            late: histogram(),
            turns: histogram(),
            writing: histogram(),
            reading: histogram(),
            cpu: Duration::ZERO,
            waited: None,
        }
    }
}

impl Paces {
    pub(super) fn sample(&mut self, core: usize, sample: &Sample) {
        if self.cores.len() <= core {
            self.cores.resize_with(core + 1, CorePace::default);
        }
        let known = &mut self.cores[core];
        let pace = &sample.pace;
        for (known, more) in [
            (&mut known.late, &pace.late),
            (&mut known.turns, &pace.turns),
            (&mut known.writing, &pace.writing),
            (&mut known.reading, &pace.reading),
        ] {
            more.iter().for_each(|more| add(known, more));
        }
        // The CPU time and the wait are totals since the thread began. The report of a panic lacks
        // both.
        known.cpu = known.cpu.max(sample.cpu);
        known.waited = sample.pace.waited.or(known.waited);
    }

    pub(super) fn finish(self) -> model::Pace {
        let of_all = |of: fn(&CorePace) -> &Histogram<u64>| {
            let mut all = histogram();
            self.cores.iter().for_each(|core| add(&mut all, of(core)));
            latency(&all)
        };
        let cores = self.cores.iter().map(|core| model::LoadCore {
            late: latency(&core.late),
            turns: latency(&core.turns),
            writing: latency(&core.writing),
            reading: latency(&core.reading),
            cpu_seconds: core.cpu.as_secs_f64(),
            waited_seconds: core.waited.map(|waited| waited.as_secs_f64()),
        });
        model::Pace {
            late: of_all(|core| &core.late),
            turns: of_all(|core| &core.turns),
            writing: of_all(|core| &core.writing),
            reading: of_all(|core| &core.reading),
            cores: cores.collect(),
            bound: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::command::Pace;

    fn sample(late: &[u64], cpu: u64) -> Sample {
        let mut histogram = histogram();
        late.iter().for_each(|late| histogram += *late);
        let (late, waited) = (Some(histogram), Some(Duration::from_secs(2 * cpu)));
        let pace = Pace { late, waited, ..Pace::default() };
        Sample { pace, cpu: Duration::from_secs(cpu), ..Sample::default() }
    }

    #[test]
    fn the_pace_of_all_cores_is_merged_and_each_core_is_kept() {
        let mut paces = Paces::default();
        paces.sample(1, &sample(&[9_000], 4));
        paces.sample(0, &sample(&[1_000, 1_000], 1));
        paces.sample(0, &sample(&[1_000], 3));
        let pace = paces.finish();
        assert_eq!((pace.late.count, pace.late.p50), (4, 1.0));
        assert!((pace.late.max - 9.0).abs() < 0.01, "{}", pace.late.max);
        let cores = pace.cores.iter().map(|core| (core.late.count, core.cpu_seconds));
        assert_eq!(Vec::from_iter(cores), [(3, 3.0), (1, 4.0)]);
        assert_eq!(pace.cores[0].waited_seconds, Some(6.0));
        assert_eq!(pace.turns.count, 0);
    }
}
