//! The states of a classic group: the answers to requests in each state, and the next state.
//!
//! | | Empty | Preparing | Completing | Stable |
//! |---|---|---|---|---|
//! | JoinGroup: newcomer | rebalance | parked | rebalance | rebalance |
//! | member, changed | - | parked | rebalance | rebalance |
//! | member, unchanged | - | parked | its generation | leader: rebalance; else its generation |
//! | static member without its id | - | parked | rebalance | its generation (1) |
//! | stranger | UNKNOWN_MEMBER_ID in each state | | | |
//! | SyncGroup: member | - | REBALANCE_IN_PROGRESS | parked; leader: to Stable | its assignment |
//! | stranger | UNKNOWN_MEMBER_ID in each state | | | |
//! | Heartbeat: member | - | REBALANCE_IN_PROGRESS | NONE | NONE |
//! | stranger | UNKNOWN_MEMBER_ID in each state | | | |
//! | LeaveGroup: member | - | leaves | rebalance | rebalance |
//! | pending id | forgotten | forgotten (2) | rebalance | rebalance |
//! | stranger | UNKNOWN_MEMBER_ID in each state | | | |
//! | OffsetCommit: member | - | taken | REBALANCE_IN_PROGRESS | taken |
//! | no member (3) | taken | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID |
//! | OffsetDelete | taken | taken (4) | taken (4) | taken (4) |
//! | DeleteGroups | deleted | NON_EMPTY_GROUP | NON_EMPTY_GROUP | NON_EMPTY_GROUP |
//! | session over: member without a parked request | - | leaves | rebalance | rebalance |
//! | pending id | forgotten | forgotten (2) | forgotten | forgotten |
//! | rebalance timeout | - | ends without the late (5) | - | - |
//! | sync timeout | - | - | rebalance without the late | rebalance without the late |
//! | sweep, no offsets left | deleted | - | - | - |
//!
//! 1. A rebalance if the vote changes the protocol, or if the group's record would be too large.
//! 2. The join phase ends if this id was the last that was missing.
//! 3. Neither a member id nor a generation: the client uses the group only for offsets.
//! 4. Topics to which members subscribe are refused. A group that is not of consumers answers
//!    NON_EMPTY_GROUP.
//! 5. To CompletingRebalance, or to Empty if no member has joined.
//!
//! "Rebalance" is the transition to PreparingRebalance, and at once to CompletingRebalance if all
//! members have joined. A "newcomer" joins with a pending member id, or without a member id if it
//! needs none (as a static member, or before v4). A "stranger" sends a member id that the group
//! does not know. "The late" are the members that did not join, or sync, in time. The fifth state,
//! Dead, has no column: a deleted group is removed at once, so that requests find no group.
//! OffsetFetch, ListGroups and DescribeGroups are answered in each state.

/// The state of a classic group (`ClassicGroupState` in Kafka).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No members. Simple groups, which only commit offsets, are always in this state.
    Empty,
    /// Waits for members to join.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    /// Each member has an assignment.
    Stable,
    /// The group does not exist.
    Dead,
}

impl State {
    /// The name in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }

    pub(crate) fn may_become(self, next: Self) -> bool {
        match next {
            Self::Empty | Self::CompletingRebalance => self == Self::PreparingRebalance,
            Self::PreparingRebalance => {
                matches!(self, Self::Empty | Self::CompletingRebalance | Self::Stable)
            }
            Self::Stable => self == Self::CompletingRebalance,
            Self::Dead => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State::{self, *};

    #[test]
    fn each_state_may_be_entered_from_those_of_the_table() {
        let table: [(State, &[State]); 5] = [
            (Empty, &[PreparingRebalance]),
            (PreparingRebalance, &[Empty, CompletingRebalance, Stable]),
            (CompletingRebalance, &[PreparingRebalance]),
            (Stable, &[CompletingRebalance]),
            (Dead, &[Empty, PreparingRebalance, CompletingRebalance, Stable, Dead]),
        ];
        for (next, valid) in table {
            for state in [Empty, PreparingRebalance, CompletingRebalance, Stable, Dead] {
                assert_eq!(state.may_become(next), valid.contains(&state), "{state:?} {next:?}");
            }
        }
    }
}
