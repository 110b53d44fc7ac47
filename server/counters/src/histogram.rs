//! How values are distributed, in buckets that are powers of two.

use crate::{Metric, Number, Value, Visitor};

/// The last bucket has all values from 2^30 on.
const BUCKETS: usize = 32;

/// The number of values by their length in bits, and the sum of the values.
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

    /// The largest value that falls into each bucket, and the number of those that did; None is the
    /// last bucket, which has no end.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let largest = |bits: usize| (bits < BUCKETS - 1).then(|| (1 << bits) - 1);
        self.counts.iter().enumerate().map(move |(bits, count)| (largest(bits), *count))
    }
}

impl Number for Histogram {
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
    fn no_value_is_lost_at_the_end_of_the_range() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        let mut both = histogram;
        both.add(&histogram);
        assert_eq!((both.count(), both.sum()), (2, u64::MAX));
        assert_eq!(both.buckets().last(), Some((None, 2)));
    }
}
