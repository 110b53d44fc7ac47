//! A set of numbers.

use alloc::vec;
use alloc::vec::Vec;

/// A set of numbers as bits: one bit per number, and a summary bit for each word that is not zero.
/// The next number is found in few steps even in a sparse set.
#[derive(Default)]
pub struct BitSet {
    count: usize,
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl BitSet {
    /// The set of all numbers below `count`.
    pub fn all(count: usize) -> Self {
        let words = full(count);
        Self { count, summary: full(words.len()), words }
    }

    /// An empty set for numbers below `count`.
    pub fn none(count: usize) -> Self {
        let words = vec![0; count.div_ceil(64)];
        Self { count: 0, summary: vec![0; words.len().div_ceil(64)], words }
    }

    /// Adds a number that is not in the set; it must be below the `count` of construction.
    pub fn insert(&mut self, number: usize) {
        debug_assert!(!self.has(number), "{number} is there");
        self.count += 1;
        self.words[number / 64] |= 1 << (number % 64);
        self.summary[number / 4096] |= 1 << (number / 64 % 64);
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn has(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Removes a number that is in the set.
    pub fn remove(&mut self, number: usize) {
        debug_assert!(self.has(number), "{number} is gone");
        self.count -= 1;
        let word = &mut self.words[number / 64];
        *word &= !(1 << (number % 64));
        if *word == 0 {
            self.summary[number / 4096] &= !(1 << (number / 64 % 64));
        }
    }

    /// The smallest element that is at least `number`.
    pub fn next(&self, number: usize) -> Option<usize> {
        let word = self.words.get(number / 64)? & (u64::MAX << (number % 64));
        if word != 0 {
            return Some(number / 64 * 64 + word.trailing_zeros() as usize);
        }
        let at = next_bit(&self.summary, number / 64 + 1)?;
        Some(at * 64 + self.words[at].trailing_zeros() as usize)
    }
}

/// Words whose first `count` bits are set.
fn full(count: usize) -> Vec<u64> {
    let mut words = vec![u64::MAX; count / 64];
    if !count.is_multiple_of(64) {
        words.push(u64::MAX >> (64 - count % 64));
    }
    words
}

fn next_bit(words: &[u64], from: usize) -> Option<usize> {
    let first = words.get(from / 64)? & (u64::MAX << (from % 64));
    if first != 0 {
        return Some(from / 64 * 64 + first.trailing_zeros() as usize);
    }
    let rest = words.iter().enumerate().skip(from / 64 + 1);
    let (at, word) = rest.into_iter().find(|(_, word)| **word != 0)?;
    Some(at * 64 + word.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_order() {
        let mut set = BitSet::all(10_000);
        for number in (0..10_000).filter(|number| number % 4_999 != 7) {
            set.remove(number);
        }
        assert_eq!(set.len(), 2);
        assert_eq!(set.next(0), Some(7));
        assert_eq!(set.next(8), Some(5_006));
        assert_eq!(set.next(5_007), None);
        assert!(set.has(5_006) && !set.has(5_007) && !set.has(10_000));
    }

    #[test]
    fn an_empty_set_and_a_full_word_have_an_end() {
        let set = BitSet::all(0);
        assert_eq!((set.next(0), set.has(0)), (None, false));
        assert_eq!(BitSet::all(64).next(63), Some(63));
        assert_eq!(BitSet::all(64).next(64), None);
    }
}
