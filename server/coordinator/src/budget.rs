//! The limits that the coordinators of a shard have together. Each call of one brings what the
//! others have.

use crate::limits::{GROUPS_MAX, GROUPS_SHORT_PART, groups_share};
use core::ops::{Add, Sub};
use muster_fairness::Shares;

/// The limits that all coordinators of a shard have together.
#[derive(Debug)]
pub struct Budget {
    /// The part of the other coordinators.
    pub others: Held,
    /// The shares of addresses in groups.
    shares: Shares,
}

/// The part of a budget that a coordinator has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub groups: usize,
    /// Bytes of members' profiles.
    pub member_bytes: usize,
    /// Bytes of pending offsets.
    pub pending_bytes: usize,
}

/// Why a group cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupRefusal {
    Full,
    Share,
}

impl GroupRefusal {
    /// The reason as a message for clients and for the log.
    pub fn words(self) -> &'static str {
        match self {
            Self::Full => "The shard has as many groups as it may have (GROUPS_MAX).",
            Self::Share => {
                "Clients at this address have created their share of the groups left (GROUPS_MAX)."
            }
        }
    }
}

impl Budget {
    /// The budget of a shard that may have this number of groups.
    pub fn new(groups_max: usize) -> Self {
        Self { others: Held::default(), shares: Shares::new(groups_share(groups_max)) }
    }

    /// Checks whether a client at `host` may create another group, and counts it; `groups` are
    /// those of the coordinator that is called.
    pub(crate) fn admit_group(
        &mut self,
        groups: usize,
        groups_max: usize,
        host: &str,
        now: i64,
    ) -> Result<(), GroupRefusal> {
        let groups = self.others.groups + groups;
        if groups >= groups_max {
            return Err(GroupRefusal::Full);
        }
        let is_short = groups >= groups_max / GROUPS_SHORT_PART;
        let is_admitted = self.shares.admits(now, host, is_short);
        is_admitted.then_some(()).ok_or(GroupRefusal::Share)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(GROUPS_MAX)
    }
}

impl Add for Held {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            groups: self.groups + other.groups,
            member_bytes: self.member_bytes + other.member_bytes,
            pending_bytes: self.pending_bytes + other.pending_bytes,
        }
    }
}

impl Sub for Held {
    type Output = Self;

    fn sub(self, part: Self) -> Self {
        Self {
            groups: self.groups - part.groups,
            member_bytes: self.member_bytes - part.member_bytes,
            pending_bytes: self.pending_bytes - part.pending_bytes,
        }
    }
}
