//! How many lines those may cause together and each who are able to cause as many as they like.

use std::collections::HashMap;
use std::hash::Hash;

/// Lines that are counted together.
#[derive(Debug, Clone, Copy)]
struct Limits {
    window_ms: i64,
    /// Lines in that time that one may cause, and all together. Who is counted has caused one at least,
    /// so the second is also how many are counted.
    lines: u32,
    all_lines: u32,
}

const LINES: Limits = Limits { window_ms: 10_000, lines: 10, all_lines: 200 };

/// Of lines that only repeat what was said: a key may take 256 bytes, and all of them 2 MiB.
const REPEATED: Limits = Limits { window_ms: 600_000, lines: 1, all_lines: 8_192 };

/// Admits lines, by who causes them.
#[derive(Debug)]
pub struct Throttle<K> {
    limits: Limits,
    began: i64,
    lines: HashMap<K, u32>,
    all_lines: u32,
    left_out: u64,
    /// When to tell what was left out.
    report_at: Option<i64>,
}

impl<K> Default for Throttle<K> {
    fn default() -> Self {
        Self::new(LINES)
    }
}

impl<K> Throttle<K> {
    /// Admits each key once in ten minutes.
    pub fn of_repeated() -> Self {
        Self::new(REPEATED)
    }

    fn new(limits: Limits) -> Self {
        let lines = HashMap::new();
        Self { limits, began: i64::MIN, lines, all_lines: 0, left_out: 0, report_at: None }
    }
}

impl<K: Eq + Hash> Throttle<K> {
    /// Whether there is to be a line now; counts it if not.
    pub fn admits(&mut self, now: i64, key: K) -> bool {
        if now.saturating_sub(self.began) >= self.limits.window_ms {
            self.lines.clear();
            (self.began, self.all_lines) = (now, 0);
        }
        let admitted = self.counts(key);
        if !admitted {
            self.left_out += 1;
            self.report_at.get_or_insert(self.began.saturating_add(self.limits.window_ms));
        }
        admitted
    }

    fn counts(&mut self, key: K) -> bool {
        if self.all_lines >= self.limits.all_lines {
            return false;
        }
        let lines = self.lines.entry(key).or_default();
        let has_room = *lines < self.limits.lines;
        *lines += u32::from(has_room);
        self.all_lines += u32::from(has_room);
        has_room
    }

    /// How many lines were left out, if it is time to tell.
    pub fn left_out(&mut self, now: i64) -> Option<u64> {
        self.report_at.take_if(|at| *at <= now)?;
        Some(std::mem::take(&mut self.left_out))
    }

    /// When [`Self::left_out`] is to be asked next.
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
    fn one_that_causes_many_lines_does_not_silence_another() {
        let mut throttle = Throttle::default();
        assert_eq!(admitted(&mut throttle, 5, [1; 1_000].into_iter()), LINES_MAX as usize);
        assert!(throttle.admits(6, 2));
        assert_eq!(throttle.left_out(7), None, "not yet");
        assert_eq!(throttle.report_at(), Some(5 + WINDOW_MS));
        assert_eq!(throttle.left_out(5 + WINDOW_MS), Some(990));
        assert_eq!((throttle.left_out(i64::MAX), throttle.report_at()), (None, None));
    }

    #[test]
    fn lines_are_counted_afresh_after_a_while() {
        let mut throttle = Throttle::default();
        assert_eq!(admitted(&mut throttle, 0, [1; 20].into_iter()), 10);
        assert_eq!(admitted(&mut throttle, WINDOW_MS - 1, [1; 20].into_iter()), 0);
        assert_eq!(admitted(&mut throttle, WINDOW_MS, [1; 20].into_iter()), 10);
        assert_eq!(throttle.left_out(WINDOW_MS), Some(40), "of both windows, once");
    }

    #[test]
    fn many_together_cause_a_bounded_number_of_lines() {
        let mut throttle = Throttle::default();
        assert_eq!(admitted(&mut throttle, 0, 0..100_000), ALL_LINES_MAX as usize);
        assert_eq!(throttle.lines.len(), ALL_LINES_MAX as usize, "no more are remembered");
        assert_eq!(throttle.left_out(WINDOW_MS), Some(99_800));
    }

    #[test]
    fn what_is_repeated_is_said_once() {
        let mut throttle = Throttle::of_repeated();
        assert_eq!(admitted(&mut throttle, 0, [1, 1, 2, 1].into_iter()), 2);
        assert_eq!(admitted(&mut throttle, REPEATED.window_ms - 1, [1, 2, 3].into_iter()), 1);
        assert_eq!(admitted(&mut throttle, REPEATED.window_ms, [1].into_iter()), 1);
        assert_eq!(throttle.left_out(REPEATED.window_ms), Some(4));
    }
}
