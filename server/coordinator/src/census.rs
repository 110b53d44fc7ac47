//! How much there is of what is not durable, for who holds it against its limits.

use crate::coordinator::Coordinator;
use crate::group::Group;

/// What a coordinator keeps in memory beside durable state, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Groups that are alive, and ids under which there are only offsets.
    pub groups: usize,
    /// Members of these groups, those that are about to be, and member ids that wait for one.
    pub members: usize,
    /// Timers that are set.
    pub timers: usize,
    /// Bytes that members say of themselves, and what is counted of them.
    pub member_bytes: usize,
    pub counted_member_bytes: usize,
}

/// How many timers one member, one group and the coordinator itself have at most.
pub const TIMERS_PER_MEMBER_MAX: usize = 4;
pub const TIMERS_PER_GROUP_MAX: usize = 2;
pub const TIMERS_OF_ITS_OWN_MAX: usize = 1;

impl Census {
    /// How many timers that many members and groups may have.
    pub fn timers_max(self) -> usize {
        self.members * TIMERS_PER_MEMBER_MAX
            + self.groups * TIMERS_PER_GROUP_MAX
            + TIMERS_OF_ITS_OWN_MAX
    }
}

impl Coordinator {
    /// O(n) in the groups that are alive.
    pub fn census(&self) -> Census {
        let mut census = Census {
            timers: self.timers.len(),
            counted_member_bytes: self.member_bytes,
            ..Census::default()
        };
        for entry in self.groups.live() {
            let groups = entry.group.iter().chain(&entry.successor);
            census.groups += 1;
            census.member_bytes += entry.group.as_ref().map_or(0, Group::member_bytes);
            census.members += groups.map(Group::seats).sum::<usize>();
        }
        census
    }
}
