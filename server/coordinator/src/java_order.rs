//! The iteration order of Java's `HashMap`. It decides some choices of Kafka: the new leader, the
//! protocol among several with equal votes, and the member that gives up a partition. Equal choices
//! make the answers and the log equal to Kafka's, record by record.

use core::cmp::Ordering;

/// The number of buckets of a new `HashMap`.
const BUCKETS: usize = 16;

/// The number of buckets of a map. It doubles when there are more than three entries for four
/// buckets, and never shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buckets(usize);

impl Default for Buckets {
    fn default() -> Self {
        Self(BUCKETS)
    }
}

impl Buckets {
    /// The buckets of a map that Kafka's coordinator makes for `len` entries: Java rounds the
    /// capacity, `(len + 1) / 0.75 + 1`, up to a power of two.
    pub(crate) fn with_room_for(len: usize) -> Self {
        Self(((len + 1) * 4 / 3 + 1).next_power_of_two())
    }

    /// The buckets of a Java map with this initial capacity.
    pub(crate) fn of_capacity(capacity: usize) -> Self {
        Self(capacity.max(1).next_power_of_two())
    }

    /// Grows the buckets. Call it after an insertion, with the number of entries.
    pub(crate) fn grow_to_hold(&mut self, len: usize) {
        while len > self.0 * 3 / 4 {
            self.0 *= 2;
        }
    }

    /// The bucket of `text`. Entries of one bucket are in the order of their insertion.
    pub(crate) fn of(self, text: &str) -> usize {
        self.of_hash(hash_code(text))
    }

    /// The bucket of a key with this `hashCode`.
    pub(crate) fn of_hash(self, hash: u32) -> usize {
        (hash ^ hash >> 16) as usize & (self.0 - 1)
    }
}

/// `String.hashCode`, over UTF-16.
pub(crate) fn hash_code(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

/// The order of Java's `String.compareTo`, over UTF-16.
pub(crate) fn compare(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        return one.cmp(other);
    }
    one.encode_utf16().cmp(other.encode_utf16())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        assert_eq!(hash_code(""), 0);
        assert_eq!(hash_code("range"), 108_280_125);
        assert_eq!(hash_code("\u{1F600}"), 1_772_899);
    }

    #[test]
    fn the_table_doubles_past_three_quarters() {
        let mut buckets = Buckets::default();
        buckets.grow_to_hold(12);
        assert_eq!(buckets.0, 16);
        buckets.grow_to_hold(13);
        assert_eq!(buckets.0, 32);
    }
}
