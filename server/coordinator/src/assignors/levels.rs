//! The subscribers of one topic by how many partitions they have, while partitions are given to the
//! least loaded and taken from the most loaded of them.
//!
//! Two levels move towards each other. Below the lower one nobody stands: it visits the members
//! that stand on it one by one, each gets a partition, and then it rises by one and those who stood
//! there already join. The upper one sinks in the same way. (Kafka: `MemberAssignmentBalancer`.)

use alloc::vec::Vec;

/// By the place of a member in the order of visits, how many partitions it has.
pub(super) type Loads = Vec<u32>;

#[derive(Debug, Default)]
pub(super) struct Levels {
    /// The members, ascending by load; equal ones in the order of visits.
    sorted: Vec<u32>,
    counts: Vec<u32>,
    low: Low,
    high: High,
}

/// `sorted[..end]` stand on the level or have been visited on it.
#[derive(Debug, Default)]
struct Low {
    level: i64,
    end: usize,
    next: usize,
}

/// `sorted[start..end]` stand on the level; the members behind `end` have nothing to give.
#[derive(Debug, Default)]
struct High {
    level: i64,
    start: usize,
    end: usize,
    /// One behind the member that comes next.
    next: usize,
}

impl Levels {
    /// Begins with these members, at least one, which ascend.
    pub(super) fn start(&mut self, members: &[u32], loads: &Loads) {
        let (least, most) = extremes(members, loads);
        self.sort(members, loads, least, most);
        let len = self.sorted.len();
        self.low = Low { level: i64::from(least) - 1, end: 0, next: 0 };
        self.high = High { level: i64::from(most) + 1, start: len, end: len, next: len };
    }

    /// Who gets the next partition.
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

    /// From whom the next partition may be taken; None if nobody is left.
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

    /// The member that came last has nothing to give.
    pub(super) fn exclude_most(&mut self) {
        self.high.end -= 1;
        self.sorted.swap(self.high.next, self.high.end);
    }

    /// Whether moving a partition from the upper to the lower level would help no more.
    pub(super) fn are_even(&self) -> bool {
        self.high.level - self.low.level <= 1
    }

    /// A counting sort, as loads are close to each other; else by comparison.
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

/// The least and the most that any of the members has.
pub(super) fn extremes(members: &[u32], loads: &Loads) -> (u32, u32) {
    let loads = members.iter().map(|member| loads[*member as usize]);
    loads.fold((u32::MAX, 0), |(least, most), load| (least.min(load), most.max(load)))
}
