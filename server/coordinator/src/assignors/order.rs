//! The order in which Kafka's assignors visit the members of a group. It decides which members give
//! up and get partitions, so the same order means the same placement.
//!
//! Kafka keeps the members in a hash table that lives as long as the group. For each computation it
//! copies them into a `HashMap`, and inserts the member of the current request last.

use super::{MemberIndex, NO_MEMBER};
use crate::java_order::Buckets;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;

/// Members in Kafka's order. `joined` has the members that joined since the last call of
/// [`Self::members`]; the next call merges them into `sorted` in one pass.
#[derive(Debug, Default)]
pub struct VisitOrder {
    sorted: Vec<Visit>,
    joined: BTreeSet<Visit>,
    /// The number of members that have left and still have an entry in `sorted`.
    left: usize,
    /// The greatest number of members that Kafka's long-lived table ever had.
    most: usize,
    buckets: Buckets,
    table: TableBits,
}

/// A member. Members are visited in ascending order of these fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Visit {
    bucket: u32,
    slot: u32,
    /// The member's sequence number. The newest member of a slot comes first.
    joined: Reverse<u64>,
    hash: u32,
    member: MemberIndex,
}

impl VisitOrder {
    /// Adds a member whose id has this Java hash code; `joined` is its sequence number.
    pub fn insert(&mut self, member: MemberIndex, hash: u32, joined: u64) {
        self.joined.insert(self.visit(member, hash, joined));
    }

    /// Removes a member. The arguments are the same as for [`Self::insert`].
    pub fn remove(&mut self, member: MemberIndex, hash: u32, joined: u64) {
        self.most = self.most.max(self.len());
        let visit = self.visit(member, hash, joined);
        if !self.joined.remove(&visit)
            && let Ok(at) = self.sorted.binary_search_by_key(&visit.place(), Visit::place)
        {
            self.sorted[at].member = NO_MEMBER;
            self.left += 1;
        }
    }

    /// The members in the order in which Kafka visits them for a request of `joining`, a member
    /// that is not yet in the long-lived table.
    pub fn members(&mut self, joining: Option<MemberIndex>) -> Vec<MemberIndex> {
        self.sort(usize::from(joining.is_some()));
        self.with_last(joining)
    }

    /// The members in the order in which Kafka visits them for a request of a new member that is in
    /// the long-lived table already. Kafka writes a new member to the table twice, and the table
    /// grows for the member only at the second write.
    pub fn members_with_newest(&mut self) -> Vec<MemberIndex> {
        self.sort(1);
        self.with_last(None)
    }

    /// Sorts the members. The long-lived table has not grown for the last `new` of them.
    fn sort(&mut self, new: usize) {
        let len = self.len();
        self.most = self.most.max(len.saturating_sub(new));
        let sizes = (self.buckets, self.table);
        self.buckets = Buckets::default();
        self.buckets.grow_to_hold(len);
        self.table.grow_to_hold(self.most);
        if sizes == (self.buckets, self.table) {
            self.merge();
        } else {
            self.sort_again();
        }
    }

    fn len(&self) -> usize {
        self.sorted.len() - self.left + self.joined.len()
    }

    fn visit(&self, member: MemberIndex, hash: u32, joined: u64) -> Visit {
        let bucket = self.buckets.of_hash(hash) as u32;
        Visit { bucket, slot: self.table.of_hash(hash), joined: Reverse(joined), hash, member }
    }

    fn merge(&mut self) {
        if self.left == 0 && self.joined.is_empty() {
            return;
        }
        let mut joined = mem::take(&mut self.joined).into_iter().peekable();
        let mut merged = Vec::with_capacity(self.sorted.len() - self.left + joined.len());
        for visit in self.sorted.iter().filter(|visit| visit.member != NO_MEMBER) {
            while let Some(earlier) = joined.next_if(|other| other.place() < visit.place()) {
                merged.push(earlier);
            }
            merged.push(*visit);
        }
        merged.extend(joined);
        (self.sorted, self.left) = (merged, 0);
    }

    /// Sorts all members again after a table has grown.
    fn sort_again(&mut self) {
        let joined = mem::take(&mut self.joined);
        let all = mem::take(&mut self.sorted).into_iter().chain(joined);
        let there = all.filter(|visit| visit.member != NO_MEMBER);
        let mut sorted: Vec<_> =
            there.map(|visit| self.visit(visit.member, visit.hash, visit.joined.0)).collect();
        sorted.sort_unstable();
        (self.sorted, self.left) = (sorted, 0);
    }

    /// The members in order, but with `last` at the end of its bucket.
    fn with_last(&self, last: Option<MemberIndex>) -> Vec<MemberIndex> {
        let mut order: Vec<_> = self.sorted.iter().map(|visit| visit.member).collect();
        if let Some(at) = last.and_then(|last| order.iter().position(|member| *member == last)) {
            let bucket = self.sorted[at].bucket;
            let behind = self.sorted[at..].partition_point(|visit| visit.bucket == bucket);
            order[at..at + behind].rotate_left(1);
        }
        order
    }
}

impl Visit {
    fn place(&self) -> (u32, u32, Reverse<u64>) {
        (self.bucket, self.slot, self.joined)
    }
}

/// The capacity of Kafka's long-lived table (`TimelineHashMap`), as the exponent of a power of two.
/// The table doubles when (size + 1) × 0.75 exceeds its capacity, since `BaseHashTable` multiplies
/// the size by the load factor, not the capacity. So the table may have 4/3 as many members as
/// slots; the members of one slot form a chain. The table never shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableBits(u32);

impl Default for TableBits {
    fn default() -> Self {
        Self(1)
    }
}

impl TableBits {
    /// Grows the table for `len` members. Each member was written at least twice: when it joined,
    /// and with its assignment.
    pub(crate) fn grow_to_hold(&mut self, len: usize) {
        while (len + 1) * 3 > 4 << self.0 {
            self.0 += 1;
        }
    }

    /// The slot of a hash, by Fibonacci hashing (`BaseHashTable.findSlot`): the top bits of the
    /// product.
    pub(crate) fn of_hash(self, hash: u32) -> u32 {
        let product = i64::from(hash as i32).wrapping_mul(-7_046_029_254_386_353_131) as u64;
        (product >> (64 - self.0)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::java_order::hash_code;

    fn order_of(ids: &[&str]) -> VisitOrder {
        let mut order = VisitOrder::default();
        for (member, id) in ids.iter().enumerate() {
            order.insert(member as u32, hash_code(id), member as u64);
        }
        order
    }

    #[test]
    fn short_ids_are_visited_by_their_last_letter() {
        let mut order = order_of(&["c", "a", "b"]);
        assert_eq!(order.members(None), [1, 2, 0]);
    }

    #[test]
    fn a_member_that_left_is_not_visited() {
        let mut order = order_of(&["c", "a", "b"]);
        order.remove(1, hash_code("a"), 1);
        assert_eq!(order.members(None), [2, 0]);
        order.remove(2, hash_code("b"), 2);
        order.insert(2, hash_code("d"), 3);
        assert_eq!(order.members(None), [0, 2]);
    }

    #[test]
    fn the_joining_member_comes_last_in_its_bucket() {
        // The hashes of "q" and "a" differ by 16: they share a bucket of the `HashMap`, in the
        // order of the long-lived table.
        let mut order = order_of(&["a", "q"]);
        let earlier_first = order.members(None);
        let mut turned = earlier_first.clone();
        turned.reverse();
        assert_eq!(order.members(Some(earlier_first[0])), turned);
        assert_eq!(order.members(Some(earlier_first[1])), earlier_first);
    }

    #[test]
    fn the_table_has_not_grown_for_a_member_that_was_written_once() {
        // The two ids have the same bucket in the `HashMap`, and the same slot in a long-lived
        // table of two slots. In a table of four slots they have different slots.
        let mut order = order_of(&["s-a35727cb"]);
        assert_eq!(order.members(None), [0]);
        order.insert(1, hash_code("s-002bfd64"), 1);
        assert_eq!(order.members_with_newest(), [1, 0]);
        assert_eq!(order.members(None), [0, 1]);
    }
}
