//! A rate as Kafka measures it: the sum of the last samples, divided by the time that they cover
//! (Kafka's `Rate`, `WindowedSum`, `SampledStat`).

/// The number of samples of a rate, and the length of each sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// `quota.window.num`, at least 1.
    pub samples: u32,
    /// `quota.window.size.seconds`, in milliseconds.
    pub sample_ms: i64,
}

/// Kafka's defaults.
impl Default for Window {
    fn default() -> Self {
        Self { samples: 11, sample_ms: 1_000 }
    }
}

impl Window {
    /// The length of the window. A rate without events for this time is the same as a new rate.
    pub fn total_ms(self) -> i64 {
        i64::from(self.samples).saturating_mul(self.sample_ms)
    }

    /// The largest amount that may cause no delay when it is used at once. A larger amount always
    /// causes a delay (Kafka's `ClientQuotaManager.getMaxValueInQuotaWindow`).
    pub fn largest(self, bound: f64) -> f64 {
        bound * f64::from(self.samples - 1) * seconds(self.sample_ms)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Rate {
    samples: Vec<Sample>,
    current: usize,
}

#[derive(Debug, Clone)]
struct Sample {
    sum: f64,
    began: i64,
    last: i64,
}

impl Sample {
    fn new(now: i64) -> Self {
        Self { sum: 0.0, began: now, last: now }
    }
}

impl Rate {
    pub(crate) fn record(&mut self, window: Window, value: f64, now: i64) {
        if self.samples.is_empty() {
            self.samples.push(Sample::new(now));
        } else if now - self.samples[self.current].began >= window.sample_ms {
            self.advance(window, now);
        }
        let sample = &mut self.samples[self.current];
        sample.sum += value;
        sample.last = now;
    }

    /// Begins the next sample. There is one sample more than the window has, because the oldest
    /// sample began before the window.
    fn advance(&mut self, window: Window, now: i64) {
        self.current = (self.current + 1) % (window.samples as usize + 1);
        match self.samples.get_mut(self.current) {
            Some(sample) => *sample = Sample::new(now),
            None => {
                self.current = self.samples.len();
                self.samples.push(Sample::new(now));
            }
        }
    }

    /// How long the client must wait, in ms. If it uses nothing in this time, its rate is within
    /// the bound again (Kafka's `QuotaUtils.throttleTime`).
    pub(crate) fn delay_ms(&mut self, window: Window, bound: f64, now: i64) -> i64 {
        let elapsed = self.elapsed(window, now) as f64;
        let sum: f64 = self.samples.iter().map(|sample| sample.sum).sum();
        let rate = sum / elapsed * 1_000.0;
        if rate > bound { whole_ms((rate - bound) / bound * elapsed) } else { 0 }
    }

    /// The time that the samples cover, in ms: at least the length of all samples except one.
    fn elapsed(&mut self, window: Window, now: i64) -> i64 {
        let over = now.saturating_sub(window.total_ms());
        let old = self.samples.iter_mut().filter(|sample| sample.last <= over);
        old.for_each(|sample| *sample = Sample::new(now));
        let first = self.samples.iter().map(|sample| sample.began).min().unwrap_or(now);
        let elapsed = now - first;
        let lacking = i64::from(window.samples) - 1 - elapsed / window.sample_ms;
        elapsed.saturating_add(lacking.max(0).saturating_mul(window.sample_ms)).max(1)
    }
}

/// Rounds a delay to whole milliseconds, at most as many as an answer can hold.
pub(super) fn whole_ms(ms: f64) -> i64 {
    ms.round().min(f64::from(i32::MAX)) as i64
}

pub(super) fn seconds(ms: i64) -> f64 {
    ms as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay_after(recorded: &[(i64, f64)], bound: f64, now: i64) -> i64 {
        let mut rate = Rate::default();
        recorded.iter().for_each(|(at, value)| rate.record(Window::default(), *value, *at));
        rate.delay_ms(Window::default(), bound, now)
    }

    /// The rate covers ten seconds even if the first event is new.
    #[test]
    fn a_burst_is_spread_over_the_window() {
        assert_eq!(delay_after(&[(0, 1_000.0)], 100.0, 0), 0);
        assert_eq!(delay_after(&[(0, 1_500.0)], 100.0, 0), 5_000);
        assert_eq!(delay_after(&[(0, 1_500.0)], 100.0, 2_000), 5_000, "windows stay whole");
        assert_eq!(delay_after(&[(0, 1_500.0)], 100.0, 10_500), 4_500);
        assert_eq!(delay_after(&[(0, 1_500.0)], 100.0, 11_000), 0, "it is forgotten");
    }

    #[test]
    fn samples_are_used_again() {
        let steady: Vec<_> = (0..40).map(|second| (second * 1_000, 100.0)).collect();
        assert_eq!(delay_after(&steady, 110.0, 39_000), 0);
        assert!(delay_after(&steady, 90.0, 39_000) > 0);
        let mut rate = Rate::default();
        steady.iter().for_each(|(at, value)| rate.record(Window::default(), *value, *at));
        assert_eq!(rate.samples.len(), 12);
    }

    #[test]
    fn no_bound_and_no_window_is_too_small_or_too_large() {
        assert_eq!(delay_after(&[(0, 1e12)], 1e-300, 0), i64::from(i32::MAX));
        let longest = Window { samples: u32::MAX, sample_ms: i64::from(i32::MAX) * 1_000 };
        let mut rate = Rate::default();
        rate.record(longest, 1e12, 5);
        assert_eq!(rate.delay_ms(longest, 1.0, 5), 0);
    }

    #[test]
    fn what_is_taken_back_does_not_count() {
        assert_eq!(delay_after(&[(0, 5_000.0), (3, -5_000.0)], 1.0, 3), 0);
    }
}
