//! The timers of a core, in one heap. Timers can't be removed before their time; the code that
//! armed a timer ignores it if it is obsolete when it fires.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Timers by time, and in the order of arming if times are equal.
pub(super) struct Timers<K> {
    heap: BinaryHeap<Reverse<(Time, u64, K)>>,
    armed: u64,
}

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), armed: 0 }
    }
}

impl<K: Ord> Timers<K> {
    pub(super) fn arm(&mut self, at: Time, key: K) {
        self.armed += 1;
        self.heap.push(Reverse((at, self.armed, key)));
    }

    /// Removes the next timer that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Time, K)> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, key))| (at, key))
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_order_of_time_then_of_arming() {
        let mut timers = Timers::default();
        for (at, key) in [(5, 'c'), (3, 'b'), (5, 'a'), (9, 'z')] {
            timers.arm(Time::from_micros(at), key);
        }
        assert_eq!(timers.next(), Some(Time::from_micros(3)));
        let now = Time::from_micros(5);
        let due: String = std::iter::from_fn(|| timers.pop(now)).map(|(_, key)| key).collect();
        assert_eq!(due, "bca");
        assert_eq!(timers.next(), Some(Time::from_micros(9)));
    }
}
