//! Limits log lines that clients can cause at will, for each cause and in total.

use std::collections::HashMap;
use std::hash::Hash;

/// Limits within a time window.
#[derive(Debug, Clone, Copy)]
struct Limits {
    window_ms: i64,
    /// The maximum number of lines within the window, for one key and for all keys. A key is stored
    /// only after it has caused a line, so `all_lines` also limits the number of stored keys.
    lines: u32,
    all_lines: u32,
}

const LINES: Limits = Limits { window_ms: 10_000, lines: 10, all_lines: 200 };

/// The limits for lines that need not be repeated. A key may take 256 bytes, so all keys take at
/// most 3 MiB. In the same time, [`LINES`] admits fewer lines than `all_lines`. So clients with
/// many causes cannot use up this total and silence others.
const REPEATED: Limits = Limits { window_ms: 600_000, lines: 1, all_lines: 12_288 };

const _: () = assert!(
    REPEATED.all_lines as i64 > LINES.all_lines as i64 * (REPEATED.window_ms / LINES.window_ms)
);

/// Admits log lines, limited by the key of their cause.
#[derive(Debug)]
pub struct Throttle<K> {
    limits: Limits,
    began: i64,
    lines: HashMap<K, u32>,
    all_lines: u32,
    left_out: u64,
    /// When the number of omitted lines is to be reported.
    report_at: Option<i64>,
}

impl<K> Default for Throttle<K> {
    fn default() -> Self {
        Self::new(LINES)
    }
}

impl<K> Throttle<K> {
    /// A throttle that admits each key once in ten minutes.
    pub fn of_repeated() -> Self {
        Self::new(REPEATED)
    }

    fn new(limits: Limits) -> Self {
        let lines = HashMap::new();
        Self { limits, began: i64::MIN, lines, all_lines: 0, left_out: 0, report_at: None }
    }
}

impl<K: Eq + Hash> Throttle<K> {
    /// Whether a line may be logged now. Counts it as logged if so, and as omitted if not.
    pub fn admits(&mut self, now: i64, key: K) -> bool {
        self.begin_window(now);
        let admitted = self.counts(key);
        if !admitted {
            self.leave_out();
        }
        admitted
    }

    /// Whether a line with this key would be omitted now. Counts it as omitted if so, but does not
    /// count it as logged if not.
    pub fn refuses(&mut self, now: i64, key: &K) -> bool {
        self.begin_window(now);
        let is_full = self.all_lines >= self.limits.all_lines
            || self.lines.get(key).is_some_and(|lines| *lines >= self.limits.lines);
        if is_full {
            self.leave_out();
        }
        is_full
    }

    fn begin_window(&mut self, now: i64) {
        if now.saturating_sub(self.began) >= self.limits.window_ms {
            self.lines.clear();
            (self.began, self.all_lines) = (now, 0);
        }
    }

    fn leave_out(&mut self) {
        self.left_out += 1;
        self.report_at.get_or_insert(self.began.saturating_add(self.limits.window_ms));
    }

    fn counts(&mut self, key: K) -> bool {
        if self.all_lines >= self.limits.all_lines {
            return false;
        }
        let lines = self.lines.entry(key).or_default();
        let is_admitted = *lines < self.limits.lines;
        *lines += u32::from(is_admitted);
        self.all_lines += u32::from(is_admitted);
        is_admitted
    }

    /// Returns the number of omitted lines if it is time to report it, and begins to count again.
    pub fn left_out(&mut self, now: i64) -> Option<u64> {
        self.report_at.take_if(|at| *at <= now)?;
        Some(std::mem::take(&mut self.left_out))
    }

    /// When to call [`Self::left_out`] next.
    pub fn report_at(&self) -> Option<i64> {
        self.report_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: i64 = LINES.window_ms;
    const LINES_MAX: u32 = LINES.lines;
    const ALL_LINES_MAX: u32 = LINES.all_lines;

    fn admitted(throttle: &mut Throttle<u32>, now: i64, keys: impl Iterator<Item = u32>) -> usize {
        keys.filter(|key| throttle.admits(now, *key)).count()
    }

    #[test]
    fn many_lines_of_one_key_do_not_silence_another() {
        let mut throttle = Throttle::default();
        assert_eq!(admitted(&mut throttle, 5, [1; 1_000].into_iter()), LINES_MAX as usize);
        assert!(throttle.admits(6, 2));
        assert_eq!(throttle.left_out(7), None, "not yet");
        assert_eq!(throttle.report_at(), Some(5 + WINDOW_MS));
        assert_eq!(throttle.left_out(5 + WINDOW_MS), Some(990));
        assert_eq!((throttle.left_out(i64::MAX), throttle.report_at()), (None, None));
    }

    #[test]
    fn each_window_counts_lines_from_zero() {
        let mut throttle = Throttle::default();
        assert_eq!(admitted(&mut throttle, 0, [1; 20].into_iter()), 10);
        assert_eq!(admitted(&mut throttle, WINDOW_MS - 1, [1; 20].into_iter()), 0);
        assert_eq!(admitted(&mut throttle, WINDOW_MS, [1; 20].into_iter()), 10);
        assert_eq!(throttle.left_out(WINDOW_MS), Some(40), "of both windows, once");
    }

    #[test]
    fn the_lines_of_all_keys_together_are_bounded() {
        let mut throttle = Throttle::default();
        assert_eq!(admitted(&mut throttle, 0, 0..100_000), ALL_LINES_MAX as usize);
        assert_eq!(throttle.lines.len(), ALL_LINES_MAX as usize, "further keys are not kept");
        assert_eq!(throttle.left_out(WINDOW_MS), Some(99_800));
    }

    #[test]
    fn repeated_lines_are_admitted_once() {
        let mut throttle = Throttle::of_repeated();
        assert_eq!(admitted(&mut throttle, 0, [1, 1, 2, 1].into_iter()), 2);
        assert_eq!(admitted(&mut throttle, REPEATED.window_ms - 1, [1, 2, 3].into_iter()), 1);
        assert_eq!(admitted(&mut throttle, REPEATED.window_ms, [1].into_iter()), 1);
        assert_eq!(throttle.left_out(REPEATED.window_ms), Some(4));
    }
}
