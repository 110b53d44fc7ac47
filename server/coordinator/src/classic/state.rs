//! The states of a classic group, what each answers, and which may follow which.
//!
//! |            | Empty | PreparingRebalance | CompletingRebalance | Stable |
//! |------------|-------|--------------------|---------------------|--------|
//! | JoinGroup, new member | rebalance | parked | rebalance | rebalance |
//! | JoinGroup, member | UNKNOWN_MEMBER_ID | parked | unchanged: its generation; changed: rebalance | follower unchanged: its generation; else: rebalance |
//! | JoinGroup, static member without its id | joins as new | replaces, parked | replaces, rebalance | replaces; rebalance only if the vote turns |
//! | SyncGroup  | UNKNOWN_MEMBER_ID | REBALANCE_IN_PROGRESS | follower: parked; leader: -> Stable | its assignment |
//! | Heartbeat  | UNKNOWN_MEMBER_ID | REBALANCE_IN_PROGRESS | NONE | NONE |
//! | LeaveGroup, member | UNKNOWN_MEMBER_ID | leaves | leaves, rebalance | leaves, rebalance |
//! | LeaveGroup, pending | forgotten | forgotten | forgotten | forgotten |
//! | OffsetCommit, member | UNKNOWN_MEMBER_ID | taken | REBALANCE_IN_PROGRESS | taken |
//! | OffsetCommit without a member | taken | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID |
//! | OffsetDelete | taken | taken, or NON_EMPTY_GROUP | as before | as before |
//! | DeleteGroups | deleted | NON_EMPTY_GROUP | NON_EMPTY_GROUP | NON_EMPTY_GROUP |
//! | session over | pending id forgotten | not parked: leaves | not parked: leaves, rebalance | leaves, rebalance |
//! | rebalance timeout | - | -> CompletingRebalance without the late ones, or Empty | - | - |
//! | sync timeout | - | - | the late ones leave, rebalance | the late ones leave, rebalance |
//! | sweep, no offsets left | deleted | - | - | - |
//!
//! "Rebalance" is the step to PreparingRebalance, and on to CompletingRebalance at once if everyone
//! has joined. The fifth state, Dead, has no cell: a group that is deleted is gone at once, and
//! requests find no group. OffsetFetch, ListGroups and DescribeGroups are answered in each state.

/// Where a classic group stands (`ClassicGroupState` in Kafka).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No members. So are simple groups, which only commit offsets.
    Empty,
    /// Waits for members to join.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    /// Everyone has an assignment.
    Stable,
    /// There is no such group.
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
