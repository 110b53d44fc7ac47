//! Java's `PriorityQueue`. The order in which it returns equal elements depends on its algorithm.

use alloc::vec::Vec;

/// A binary heap of numbers. The caller passes the sort key with each call.
#[derive(Debug, Clone, Default)]
pub(super) struct JavaHeap(Vec<u32>);

impl JavaHeap {
    /// A heap to which the numbers of `all` were added one by one.
    pub(super) fn of(all: impl Iterator<Item = u32>, key: impl Fn(u32) -> f64) -> Self {
        let mut heap = Self::default();
        all.for_each(|it| heap.add(it, &key));
        heap
    }

    pub(super) fn add(&mut self, it: u32, key: impl Fn(u32) -> f64) {
        let mut at = self.0.len();
        self.0.push(it);
        while at > 0 {
            let parent = (at - 1) / 2;
            if key(it) >= key(self.0[parent]) {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = it;
    }

    pub(super) fn poll(&mut self, key: impl Fn(u32) -> f64) -> Option<u32> {
        let last = self.0.pop()?;
        let Some(first) = self.0.first().copied() else { return Some(last) };
        let mut at = 0;
        while at < self.0.len() / 2 {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let is_right = right < self.0.len() && key(self.0[left]) > key(self.0[right]);
            let child = if is_right { right } else { left };
            if key(last) <= key(self.0[child]) {
                break;
            }
            self.0[at] = self.0[child];
            at = child;
        }
        self.0[at] = last;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_elements_leave_in_the_order_of_java() {
        let key = |it: u32| f64::from(it / 10);
        let mut heap = JavaHeap::of([21, 10, 22, 11, 12, 23].into_iter(), key);
        let polled = core::iter::from_fn(|| heap.poll(key));
        // The order that a java.util.PriorityQueue with the same comparator printed.
        assert_eq!(polled.collect::<Vec<_>>(), [10, 11, 12, 21, 22, 23]);
    }
}
