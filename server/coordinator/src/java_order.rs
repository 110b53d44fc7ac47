//! The order in which Java's `HashMap` would give its keys. Kafka leaves choices to it (the new
//! leader, a tie of votes, which member gives up a partition) and we make the same ones: then a
//! client sees what it saw with Kafka, and logs of both can be compared record for record.

/// How many buckets a new `HashMap` has.
const BUCKETS: usize = 16;

/// The size of one map over its life: it doubles when it is three quarters full, and never shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buckets(usize);

impl Default for Buckets {
    fn default() -> Self {
        Self(BUCKETS)
    }
}

impl Buckets {
    /// Call when an entry came in and there are `len` of them.
    pub(crate) fn grow_to_hold(&mut self, len: usize) {
        while len > self.0 / 4 * 3 {
            self.0 *= 2;
        }
    }

    /// Where `text` comes. Within a bucket it goes by the time of insertion.
    pub(crate) fn of(self, text: &str) -> usize {
        self.of_hash(hash_code(text))
    }

    /// Where a key with this `hashCode` comes.
    pub(crate) fn of_hash(self, hash: u32) -> usize {
        (hash ^ hash >> 16) as usize & (self.0 - 1)
    }
}

/// `String.hashCode`, over UTF-16.
pub(crate) fn hash_code(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
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
