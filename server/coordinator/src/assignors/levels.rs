//! The subscribers of one topic by load. Partitions are assigned to the least loaded subscriber,
//! and taken from the most loaded one (`MemberAssignmentBalancer` of Kafka).
//!
//! Two levels move towards each other. No member is below the lower level. Each member on the lower
//! level gets a partition; then the level rises by one, and includes the members that had that load
//! already. The upper level sinks in the same way.

use alloc::vec::Vec;

/// The number of partitions of each member, by the member's place in the visiting order.
pub(super) type Loads = Vec<u32>;

#[derive(Debug, Default)]
pub(super) struct Levels {
    /// The members, ascending by load. Members with equal loads are in visiting order.
    sorted: Vec<u32>,
    counts: Vec<u32>,
    low: Low,
    high: High,
}

/// The lower level, a number of partitions. Each member in `sorted[..end]` has this number, or
/// one more if the member was already visited on this level.
#[derive(Debug, Default)]
struct Low {
    level: i64,
    end: usize,
    next: usize,
}

/// The upper level. The members in `sorted[start..end]` are on it. The members from `end` on
/// cannot give up a partition.
#[derive(Debug, Default)]
struct High {
    level: i64,
    start: usize,
    end: usize,
    /// One more than the index of the next member.
    next: usize,
}

impl Levels {
    /// Begins with `members`, which are ascending and not empty.
    pub(super) fn start(&mut self, members: &[u32], loads: &Loads) {
        let (least, most) = extremes(members, loads);
        self.sort(members, loads, least, most);
        let len = self.sorted.len();
        self.low = Low { level: i64::from(least) - 1, end: 0, next: 0 };
        self.high = High { level: i64::from(most) + 1, start: len, end: len, next: len };
    }

    /// The least loaded member, which gets the next partition.
    pub(super) fn next_least(&mut self, loads: &Loads) -> u32 {
        let low = &mut self.low;
        if low.next == low.end {
            low.level += 1;
            let stands = |member: &&u32| i64::from(loads[**member as usize]) == low.level;
            low.end += self.sorted[low.end..].iter().take_while(stands).count();
            low.next = 0;
        }
        low.next += 1;
        self.sorted[low.next - 1]
    }

    /// The most loaded member, which loses the next partition; None if no member may lose one.
    pub(super) fn next_most(&mut self, loads: &Loads) -> Option<u32> {
        let high = &mut self.high;
        let load = |member: &u32| i64::from(loads[*member as usize]);
        if high.next <= high.start {
            high.level = match self.sorted[..high.start].last() {
                Some(below) if high.end <= high.start => load(below),
                _ => high.level - 1,
            };
            let below = self.sorted[..high.start].iter().rev();
            high.start -= below.take_while(|member| load(member) == high.level).count();
            high.next = high.end;
        }
        high.next = high.next.checked_sub(1)?;
        Some(self.sorted[high.next])
    }

    /// Excludes the member that [`Self::next_most`] returned last: it has nothing to give up.
    pub(super) fn exclude_most(&mut self) {
        self.high.end -= 1;
        self.sorted.swap(self.high.next, self.high.end);
    }

    /// Whether moving a partition from the upper to the lower level no longer helps.
    pub(super) fn are_even(&self) -> bool {
        self.high.level - self.low.level <= 1
    }

    /// Sorts by counting if the loads are close to each other, else by comparing.
    fn sort(&mut self, members: &[u32], loads: &Loads, least: u32, most: u32) {
        let load = |member: &u32| loads[*member as usize];
        self.sorted.clear();
        let range = (most - least) as usize + 1;
        if range > 2 * members.len() {
            self.sorted.extend_from_slice(members);
            self.sorted.sort_unstable_by_key(|member| (load(member), *member));
            return;
        }
        self.counts.clear();
        self.counts.resize(range, 0);
        for member in members {
            self.counts[(load(member) - least) as usize] += 1;
        }
        let mut start = 0;
        for count in &mut self.counts {
            start += *count;
            *count = start - *count;
        }
        self.sorted.resize(members.len(), 0);
        for member in members {
            let at = &mut self.counts[(load(member) - least) as usize];
            self.sorted[*at as usize] = *member;
            *at += 1;
        }
    }
}

/// The least and the greatest load of the members.
pub(super) fn extremes(members: &[u32], loads: &Loads) -> (u32, u32) {
    let loads = members.iter().map(|member| loads[*member as usize]);
    loads.fold((u32::MAX, 0), |(least, most), load| (least.min(load), most.max(load)))
}
