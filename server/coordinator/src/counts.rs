//! Counts of volatile state, which callers compare with its limits.

use crate::coordinator::Coordinator;
use crate::group::Group;
use core::ops::Add;

/// The counts of the memory of coordinators beside durable state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub coordinators: usize,
    /// Loaded groups, including ids with offsets only.
    pub groups: usize,
    /// Members of these groups, joining members, and pending member ids.
    pub members: usize,
    /// Timers that are set.
    pub timers: usize,
    /// Bytes of the members' profiles, and the running total of them.
    pub member_bytes: usize,
    pub counted_member_bytes: usize,
}

/// The most timers of one member, of one group and of a coordinator itself.
pub const TIMERS_PER_MEMBER_MAX: usize = 4;
pub const TIMERS_PER_GROUP_MAX: usize = 2;
pub const TIMERS_OF_ITS_OWN_MAX: usize = 1;

impl Counts {
    /// The most timers that this many members and groups may have.
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
            member_bytes: self.member_bytes + other.member_bytes,
            counted_member_bytes: self.counted_member_bytes + other.counted_member_bytes,
        }
    }
}

impl Coordinator {
    /// O(n) in the loaded groups.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts {
            coordinators: 1,
            timers: self.timers.len(),
            counted_member_bytes: self.member_bytes,
            ..Counts::default()
        };
        for entry in self.groups.live() {
            let groups = entry.group.iter().chain(entry.successor.as_deref());
            counts.groups += 1;
            counts.member_bytes += entry.group.as_ref().map_or(0, Group::member_bytes);
            counts.members += groups.map(Group::members_and_pending).sum::<usize>();
        }
        counts
    }
}
