//! The limits that all coordinators of a shard share. With each call, the caller passes how much
//! the other coordinators use.

use crate::limits::{GROUPS_MAX, GROUPS_SHORT_PART, MEMBER_PROFILE_BYTES_MAX, groups_share};
use core::ops::{Add, Sub};
use muster_fairness::{Address, Exceeded, Holders, Shares};

/// The shared limits, and how much of them is used.
#[derive(Debug)]
pub struct Budget {
    /// The use of the other coordinators.
    pub others: Held,
    /// How many groups each address may still create.
    shares: Shares,
    /// The bytes that are counted against each address, of member profiles and of pending offsets.
    pub(crate) members: Holders,
    pub(crate) pending: Holders,
    /// The bytes that the calling client's address holds. None if [`Self::begin`] did not have to
    /// look them up.
    pub(crate) client: Option<OfClient>,
}

/// The bytes that one address holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfClient {
    pub(crate) address: Address,
    pub(crate) member_bytes: usize,
    pub(crate) pending_bytes: usize,
}

/// An upper bound of the bytes that one request adds to the members.
const ADDED_BYTES_MAX: usize = 4 * MEMBER_PROFILE_BYTES_MAX;

/// How much one coordinator uses of the shared limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    pub groups: usize,
    /// Bytes of members' profiles.
    pub member_bytes: usize,
    /// Bytes of pending offsets.
    pub pending_bytes: usize,
}

/// A limit that the coordinators of a shard share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    Groups,
    MemberBytes,
    PendingBytes,
}

/// A request was refused because it needs more of `limit` than its client may still use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub limit: Limited,
    pub exceeded: Exceeded,
}

impl Refusal {
    /// The reason as a message for clients.
    pub(crate) fn words(self) -> &'static str {
        match (self.limit, self.exceeded) {
            (Limited::Groups, Exceeded::Limit) => {
                "The shard has as many groups as it may have (GROUPS_MAX)."
            }
            (Limited::Groups, Exceeded::Share) => {
                "Clients at this address have created their share of the groups left (GROUPS_MAX)."
            }
            (Limited::MemberBytes, _) => {
                "The budget for members is used up, or the share of this address \
                 (MEMBERS_BYTES_MAX)."
            }
            (Limited::PendingBytes, _) => {
                "The budget for offsets of open transactions is used up, or the share of this \
                 address (PENDING_BYTES_MAX)."
            }
        }
    }
}

impl Budget {
    /// A budget for at most `groups_max` groups in the shard.
    pub fn new(groups_max: usize) -> Self {
        Self {
            others: Held::default(),
            shares: Shares::new(groups_share(groups_max)),
            members: Holders::default(),
            pending: Holders::default(),
            client: None,
        }
    }

    /// The total bytes that are counted against addresses: of member profiles, and of pending
    /// offsets.
    pub fn paid(&self) -> (usize, usize) {
        (self.members.total(), self.pending.total())
    }

    /// Begins a request of a client at `host`. If the member bytes are nearly used up, or if the
    /// request `adds` pending offsets, it looks up the bytes that the client's address holds.
    #[inline]
    pub(crate) fn begin(&mut self, host: &str, adds: bool, member_bytes_max: usize) {
        self.client = None;
        let is_short = self.members.total() + ADDED_BYTES_MAX >= member_bytes_max / 8 * 7;
        if adds || is_short {
            self.look_up(Address::of(host));
        }
    }

    fn look_up(&mut self, address: Address) {
        let [member_bytes, pending_bytes] =
            [&self.members, &self.pending].map(|holders| holders.held_by(address));
        self.client = Some(OfClient { address, member_bytes, pending_bytes });
    }

    /// Admits one more group of a client at `host`, and counts it. `groups` is the number of groups
    /// of the called coordinator.
    pub(crate) fn admit_group(
        &mut self,
        groups: usize,
        groups_max: usize,
        host: &str,
        now: i64,
    ) -> Result<(), Refusal> {
        let refuse = |exceeded| Err(Refusal { limit: Limited::Groups, exceeded });
        let groups = self.others.groups + groups;
        if groups >= groups_max {
            return refuse(Exceeded::Limit);
        }
        let is_short = groups >= groups_max / GROUPS_SHORT_PART;
        if self.shares.admits(now, host, is_short) { Ok(()) } else { refuse(Exceeded::Share) }
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
