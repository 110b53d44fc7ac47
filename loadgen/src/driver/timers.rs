//! The timers of a core, in one heap. A timer can't be removed before its time. When an obsolete
//! timer fires, the code that armed it ignores it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::time::Time;

/// Timers sorted by time. Timers with equal times fire in the order of arming.
pub(super) struct Timers<K> {
    heap: BinaryHeap<Reverse<Timer<K>>>,
    armed: u64,
}

/// A timer: its time, its sequence number, its key, and the time from which its lateness counts.
/// This last time is that of the arming if the timer was armed after its own time.
type Timer<K> = (Time, u64, K, Time);

/// A timer that fired.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Fired<K> {
    pub(super) at: Time,
    pub(super) key: K,
    pub(super) late: Duration,
}

impl<K: Ord> Default for Timers<K> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), armed: 0 }
    }
}

impl<K: Ord> Timers<K> {
    pub(super) fn arm(&mut self, at: Time, key: K, now: Time) {
        self.armed += 1;
        self.heap.push(Reverse((at, self.armed, key, at.max(now))));
    }

    /// Removes and returns the next timer that is due.
    pub(super) fn pop(&mut self, now: Time) -> Option<Fired<K>> {
        let Reverse((at, ..)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, key, due))| Fired { at, key, late: now.since(due) })
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
            timers.arm(Time::from_micros(at), key, Time::ZERO);
        }
        assert_eq!(timers.next(), Some(Time::from_micros(3)));
        let now = Time::from_micros(5);
        let due: String = std::iter::from_fn(|| timers.pop(now)).map(|fired| fired.key).collect();
        assert_eq!(due, "bca");
        assert_eq!(timers.next(), Some(Time::from_micros(9)));
    }

    #[test]
    fn a_timer_is_late_since_its_time_or_since_it_was_armed() {
        let mut timers = Timers::default();
        let [three, five, nine] = [3, 5, 9].map(Time::from_micros);
        timers.arm(five, 'a', three);
        timers.arm(three, 'b', five);
        let late: Vec<_> = std::iter::from_fn(|| timers.pop(nine)).collect();
        let late = late.iter().map(|fired| (fired.key, fired.late.as_micros()));
        assert_eq!(Vec::from_iter(late), [('b', 4), ('a', 4)]);
    }
}
