//! The parts that coordinators and members of all protocols share: requests, answers, and the
//! events of a member.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::event::{Event, EventKind};
use crate::plan::{GroupIndex, MemberIndex, Partition, TopicIndex};
use crate::time::Time;

/// A bug injected into the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::check::tests) enum Bug {
    None,
    /// Assigns a partition while another member has it.
    TwoOwners,
    /// Answers with an older epoch, now and then.
    EpochBack,
    /// Does not check the epoch of a commit.
    FencedCommit,
    /// Acknowledges a commit and forgets it.
    LostCommit,
    /// Removes a member long before its session ends.
    EarlyEviction,
}

pub(in crate::check::tests) const PARTITIONS: u32 = 6;
pub(in crate::check::tests) const SESSION: u64 = 2_000;
pub(in crate::check::tests) const REBALANCE: u64 = 3_000;
pub(super) const REQUEST_TIMEOUT: u64 = 2_500;
pub(super) const HEARTBEAT: u64 = 300;

pub(in crate::check::tests) type Set = BTreeSet<u32>;

/// The requests of all protocols. They do not name the sender: it is the `slot` of the [`Caller`].
#[derive(Clone, Debug)]
pub(in crate::check::tests) enum Request {
    Heartbeat { id: u64, epoch: i32, owned: Set },
    Join { id: Option<u64>, owned: Set, owned_in: i32 },
    Sync { id: u64, epoch: i32 },
    Leave { id: u64, comes_back: bool },
    Commit { id: u64, epoch: i32, offsets: BTreeMap<u32, i64> },
    Fetch { partitions: Set },
}

#[derive(Clone, Debug)]
pub(in crate::check::tests) enum Response {
    Error(i16),
    Done,
    /// Answer to a consumer's heartbeat or to a sync: the whole assignment.
    Assignment {
        epoch: i32,
        partitions: Set,
    },
    Joined {
        id: u64,
        epoch: i32,
    },
    Fetched(BTreeMap<u32, i64>),
}

/// A coordinator. It may answer a request at once or in a later call, together with answers to
/// other callers.
pub(in crate::check::tests) trait Coordinator {
    /// Handles a request; its answer goes to `out`, now or in a later call.
    fn handle(
        &mut self,
        now: u64,
        from: Caller,
        request: Request,
        out: &mut Vec<(Caller, Response)>,
    );
    /// Ends sessions and rebalances that have timed out.
    fn tick(&mut self, now: u64, out: &mut Vec<(Caller, Response)>);
    /// Restarts with the durable state.
    fn restart(&mut self, now: u64);
    /// Checks whether the coordinator accepts a commit of this member in this epoch. If not,
    /// returns the error code.
    fn may_commit(&self, id: u64, epoch: i32) -> Result<(), i16>;
}

/// The behaviour of members: what they send, and how they handle answers.
pub(in crate::check::tests) trait Behaviour {
    /// Returns the next request, if one is due.
    fn next(&mut self, me: &mut Me) -> Option<Request>;
    /// A request was answered, or failed (`None`). Returns the delay until the next call of
    /// [`Self::next`].
    fn answered(&mut self, me: &mut Me, sent: u64, response: Option<Response>) -> u64;
    /// The member id and epoch for commits, while the member may commit.
    fn commits(&self) -> Option<(u64, i32)>;
}

/// The request to which an answer belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::check::tests) struct Caller {
    pub(in crate::check::tests) slot: usize,
    pub(in crate::check::tests) is_static: bool,
    pub(super) connection: u32,
    pub(super) request: u64,
    pub(super) sent: u64,
}

impl Caller {
    /// A number that is unique to the request.
    pub(in crate::check::tests) fn number(self) -> u64 {
        self.request
    }
}

/// The part of a member that does not depend on the protocol.
pub(in crate::check::tests) struct Me {
    pub(in crate::check::tests) index: u32,
    pub(in crate::check::tests) now: u64,
    pub(in crate::check::tests) owned: Set,
    pub(in crate::check::tests) fresh_id: u64,
    pub(in crate::check::tests) events: Vec<Event>,
}

impl Me {
    pub(in crate::check::tests) fn emit(&mut self, kind: EventKind) {
        self.events.push(event(self.now, self.index, kind));
    }

    pub(in crate::check::tests) fn assigned(&mut self, epoch: i32, added: &Set) {
        if !added.is_empty() {
            self.owned.extend(added);
            self.emit(EventKind::Assigned { epoch, partitions: partitions(added) });
        }
    }

    pub(in crate::check::tests) fn revoked(&mut self, gone: &Set) {
        if !gone.is_empty() {
            self.owned.retain(|one| !gone.contains(one));
            self.emit(EventKind::Revoked { partitions: partitions(gone) });
        }
    }

    pub(in crate::check::tests) fn lost(&mut self) {
        let gone = std::mem::take(&mut self.owned);
        if !gone.is_empty() {
            self.emit(EventKind::Lost { partitions: partitions(&gone) });
        }
    }
}

pub(super) fn event(at: u64, member: u32, kind: EventKind) -> Event {
    Event { at: time(at), group: GroupIndex(0), member: MemberIndex(member), kind }
}

/// The time of an event. The world counts in milliseconds, [`Time`] in microseconds.
pub(in crate::check::tests) fn time(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

pub(super) fn partitions(set: &Set) -> Arc<[Partition]> {
    set.iter().map(|number| partition(*number)).collect()
}

pub(super) fn partition(number: u32) -> Partition {
    Partition { topic: TopicIndex(0), number }
}
