//! Why a group rebalances, as the report names it.

use std::fmt;

use crate::event::Stop;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The first members of a group start.
    Formation,
    Joined(u32),
    /// Stopped members start again.
    Returned(u32),
    Left(u32),
    Closed(u32),
    Crashed(u32),
    /// Members get another subscription, assignor or protocol.
    Changed(u32, What),
    PartitionsAdded,
    CoordinatorRestarted,
    /// The run ends, so groups no longer have to become stable.
    WindDown,
}

/// The property of members that a phase changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Subscription,
    Assignor,
    Protocol,
}

impl Cause {
    pub fn of_stop(how: Stop, members: u32) -> Self {
        match how {
            Stop::Leave | Stop::Shutdown => Self::Left(members),
            Stop::Close => Self::Closed(members),
            Stop::Crash => Self::Crashed(members),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Formation => f.write_str("formation"),
            Self::Joined(members) => write!(f, "{members} joined"),
            Self::Returned(members) => write!(f, "{members} returned"),
            Self::Left(members) => write!(f, "{members} left"),
            Self::Closed(members) => write!(f, "{members} closed"),
            Self::Crashed(members) => write!(f, "{members} crashed"),
            Self::Changed(members, what) => {
                let what = match what {
                    What::Subscription => "subscription",
                    What::Assignor => "assignor",
                    What::Protocol => "protocol",
                };
                write!(f, "{members} changed {what}")
            }
            Self::PartitionsAdded => f.write_str("partitions added"),
            Self::CoordinatorRestarted => f.write_str("coordinator restarted"),
            Self::WindDown => f.write_str("wind-down"),
        }
    }
}
