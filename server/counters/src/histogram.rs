//! A histogram whose buckets are powers of two.

use crate::{Metric, Number, Value, Visitor};

/// The number of buckets. The last one counts all values from 2^30 on.
const BUCKETS: usize = 32;

/// For each length in bits, the number of values of this length. And the sum of all values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: u64,
}

impl Histogram {
    pub fn record(&mut self, value: u64) {
        let bits = u64::BITS - value.leading_zeros();
        self.counts[(bits as usize).min(BUCKETS - 1)] += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The values that were added after `earlier`, a copy of this histogram, was made. If the
    /// histogram was reset since then, all its values.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = *self;
        for (own, before) in later.counts.iter_mut().zip(earlier.counts) {
            let Some(count) = own.checked_sub(before) else { return *self };
            *own = count;
        }
        later.sum = later.sum.saturating_sub(earlier.sum);
        later
    }

    /// The quantile `part` (0.5 is the median), interpolated within its bucket. None if there are
    /// no values.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let count = self.count();
        let wanted = (part * count as f64).max(1.0);
        let mut before = 0.0;
        for (bits, of_bucket) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let of_bucket = *of_bucket as f64;
            if before + of_bucket >= wanted || before + of_bucket >= count as f64 {
                let (least, end) = (if bits == 0 { 0 } else { 1_u64 << (bits - 1) }, 1_u64 << bits);
                let within = (wanted - before) / of_bucket;
                return Some(least as f64 + (end - 1 - least) as f64 * within);
            }
            before += of_bucket;
        }
        None
    }

    /// The upper bound of each bucket (inclusive) and the number of its values. The last bucket has
    /// no bound (None).
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let largest = |bits: usize| (bits < BUCKETS - 1).then(|| (1 << bits) - 1);
        self.counts.iter().enumerate().map(move |(bits, count)| (largest(bits), *count))
    }
}

impl Number for Histogram {
    const IS_HISTOGRAM: bool = true;

    fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, count)| *own += count);
        self.sum = self.sum.saturating_add(other.sum);
    }

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>) {
        visitor(metric, &[], Value::Histogram(self));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_in_the_bucket_of_its_power_of_two() {
        let mut histogram = Histogram::default();
        [0, 1, 2, 3, 4, (1 << 30) - 1, 1 << 30].into_iter().for_each(|it| histogram.record(it));
        let full: [_; 6] = [
            (Some(0), 1),
            (Some(1), 1),
            (Some(3), 2),
            (Some(7), 1),
            (Some((1 << 30) - 1), 1),
            (None, 1),
        ];
        assert!(histogram.buckets().filter(|(_, count)| *count > 0).eq(full));
        assert_eq!((histogram.count(), histogram.sum()), (7, (2 << 30) + 9));
    }

    #[test]
    fn quantiles_lie_within_the_bucket_of_their_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..99).for_each(|_| histogram.record(5));
        histogram.record(1_000);
        let quantiles = [0.0, 0.5, 0.98, 0.99, 0.999, 1.0].map(|it| histogram.quantile(it));
        let mut bounds = [(4, 7); 4].to_vec();
        bounds.extend([(512, 1_023); 2]);
        for (quantile, (least, most)) in quantiles.iter().zip(bounds) {
            let quantile = quantile.unwrap();
            assert!((f64::from(least)..=f64::from(most)).contains(&quantile), "{quantiles:?}");
        }
        assert!(quantiles.is_sorted());
    }

    #[test]
    fn the_values_since_a_copy_are_those_that_were_added() {
        let mut histogram = Histogram::default();
        histogram.record(9);
        let copy = histogram;
        (0..3).for_each(|_| histogram.record(100));
        let since = histogram.since(&copy);
        assert_eq!((since.count(), since.sum()), (3, 300));
        assert_eq!(copy.since(&histogram), copy, "it has begun again");
    }

    #[test]
    fn no_value_is_lost_at_the_end_of_the_range() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        let mut both = histogram;
        both.add(&histogram);
        assert_eq!((both.count(), both.sum()), (2, u64::MAX));
        assert_eq!(both.buckets().last(), Some((None, 2)));
    }
}
