//! Counts of volatile state. Callers compare them with limits.

use super::Coordinator;
use crate::counters::{Counted, Gauges};
use crate::group::Group;
use core::ops::Add;

/// Counts of what coordinators keep in memory besides durable state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub coordinators: usize,
    /// Loaded groups, including group ids with only offsets.
    pub groups: usize,
    /// Members of the loaded groups, joining members, and pending member ids.
    pub members: usize,
    /// Timers that are set.
    pub timers: usize,
    /// The gauges that each change updates. `recounted` has the same gauges, as a pass over all
    /// groups counts them: tests compare the two.
    pub gauges: Gauges,
    pub recounted: Gauges,
}

/// The most timers of a member, of a group, and of a coordinator itself. A coordinator has one more
/// while it deletes groups in slices, and one more while it loads offsets in slices.
pub const TIMERS_PER_MEMBER_MAX: usize = 4;
pub const TIMERS_PER_GROUP_MAX: usize = 2;
pub const TIMERS_OF_ITS_OWN_MAX: usize = 1;

impl Counts {
    /// The most timers that these members and groups may have.
    pub fn timers_max(self) -> usize {
        self.members * TIMERS_PER_MEMBER_MAX
            + self.groups * TIMERS_PER_GROUP_MAX
            + self.coordinators * TIMERS_OF_ITS_OWN_MAX
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            coordinators: self.coordinators + other.coordinators,
            groups: self.groups + other.groups,
            members: self.members + other.members,
            timers: self.timers + other.timers,
            gauges: self.gauges + other.gauges,
            recounted: self.recounted + other.recounted,
        }
    }
}

impl Coordinator {
    /// Takes O(n) in the loaded groups.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            coordinators: 1,
            timers: self.timers.len(),
            gauges: self.counters.gauges,
            ..Counts::default()
        };
        counts.recounted.pending_offsets = self.pending.recounted() as u64;
        for entry in self.groups.live() {
            let groups = entry.group.iter().chain(entry.successor.as_deref());
            counts.groups += 1;
            let counted = entry.group.as_ref().map_or(Counted::default(), Group::counted);
            counts.recounted.exchange(Counted::default(), counted);
            counts.recounted.offsets += entry.offsets.len() as u64;
            counts.members += groups.map(Group::members_and_pending).sum::<usize>();
        }
        debug_assert_eq!(counts.gauges, counts.recounted);
        let rebalances = self.groups.live().filter(|entry| self.rebalances.of(entry).is_some());
        debug_assert_eq!(rebalances.count(), self.rebalances.len(), "of groups that are gone");
        debug_assert!(self.rebalances.is_counted());
        counts
    }
}
