//! A token bucket that is refilled at the rate of a quota (Kafka's `TokenBucket`).

use super::rate::{Window, seconds, whole_ms};

#[derive(Debug, Clone)]
pub struct Tokens {
    /// Negative while the quota is exceeded.
    left: f64,
    refilled: i64,
}

impl Tokens {
    pub(super) fn full(now: i64) -> Self {
        Self { left: f64::INFINITY, refilled: now }
    }

    pub(super) fn take(&mut self, window: Window, bound: f64, tokens: f64, now: i64) {
        self.refill(window, bound, now);
        self.left -= tokens;
    }

    /// How long it takes, in ms, until the bucket is no longer negative.
    pub(super) fn delay_ms(&mut self, window: Window, bound: f64, now: i64) -> i64 {
        self.refill(window, bound, now);
        if self.left < 0.0 { whole_ms(-self.left / bound * 1_000.0) } else { 0 }
    }

    fn refill(&mut self, window: Window, bound: f64, now: i64) {
        let added = bound * seconds(now - self.refilled);
        self.left = (self.left + added).min(bound * seconds(window.total_ms()));
        self.refilled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of KIP-599: 5 tokens per second, over 100 seconds.
    #[test]
    fn a_burst_has_to_be_earned_back() {
        let window = Window { samples: 100, sample_ms: 1_000 };
        let mut tokens = Tokens::full(0);
        tokens.take(window, 5.0, 560.0, 0);
        assert_eq!(tokens.delay_ms(window, 5.0, 0), 12_000);
        assert_eq!(tokens.delay_ms(window, 5.0, 11_000), 1_000);
        assert_eq!(tokens.delay_ms(window, 5.0, 12_000), 0);
    }
}
