//! A simulated member: what a real client does to be in a group, commit and fetch offsets, without
//! any I/O. Start here.
//!
//! The owner of a [`Member`] calls it in four ways:
//!
//! - [`Member::start`] and [`Member::stop`]: the simulated process begins and ends;
//! - [`Member::answered`]: exactly once for each request that it asked to send, with the answer, or
//!   with what went wrong;
//! - [`Member::wake`], when the time of [`Member::deadline`] has come. A spurious call does no harm;
//! - [`Member::topics_changed`], when partitions were added to topics.
//!
//! Each of them fills an [`Output`] with requests to send and events to tell of. Time never goes
//! back. A member keeps no order of a hash map and no random number of its own, so that a run can be
//! repeated from its seed.

pub mod assignors;

use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FindCoordinatorRequest,
    FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest,
    SyncGroupResponse,
};

use crate::event::Event;
use crate::time::Time;
use crate::topics::Topics;

/// What a member is told of the world in each call.
pub struct Context<'a> {
    pub now: Time,
    pub topics: &'a Topics,
    pub versions: &'a Versions,
    pub nodes: &'a mut Nodes,
    pub random: &'a mut fastrand::Rng,
}

/// What a member wants. The owner empties it and hands it in again.
#[derive(Default)]
pub struct Output {
    pub requests: Vec<Outgoing>,
    pub events: Vec<Event>,
}

/// A request to send now.
pub struct Outgoing {
    pub to: Destination,
    /// A newer or equal one than what the other side supports was asked for with `versions`.
    pub version: i16,
    pub request: Request,
    /// When it was due: latency counts from here.
    pub due: Time,
    /// Comes back in [`Answer::token`]; unique among the requests in flight of this member.
    pub token: u32,
}

/// Which connection takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Any broker: looking up the coordinator. The connection is shared by all members of a core.
    Any,
    /// The member's own connection to this node.
    Node(NodeIndex),
}

/// What came of a request.
pub struct Answer {
    pub token: u32,
    /// When the request left.
    pub sent: Time,
    pub outcome: Result<Response, Failure>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No connection, or it broke before the answer. The request may have taken effect.
    Disconnected,
    /// No answer within the request timeout. The connection is closed, as clients do.
    TimedOut,
    /// The answer could not be read. The connection is closed.
    Malformed,
}

/// The requests of members.
#[derive(Clone, Debug)]
pub enum Request {
    FindCoordinator(FindCoordinatorRequest),
    JoinGroup(JoinGroupRequest),
    SyncGroup(SyncGroupRequest),
    Heartbeat(HeartbeatRequest),
    LeaveGroup(LeaveGroupRequest),
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest),
    OffsetCommit(OffsetCommitRequest),
    OffsetFetch(OffsetFetchRequest),
}

/// Their answers.
#[derive(Clone, Debug)]
pub enum Response {
    FindCoordinator(FindCoordinatorResponse),
    JoinGroup(JoinGroupResponse),
    SyncGroup(SyncGroupResponse),
    Heartbeat(HeartbeatResponse),
    LeaveGroup(LeaveGroupResponse),
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse),
    OffsetCommit(OffsetCommitResponse),
    OffsetFetch(OffsetFetchResponse),
}

/// Brokers by host and port, so that members hold a number.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    addresses: Vec<(String, u16)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

impl Nodes {
    /// The index of this address, which is new or known. Clusters have few brokers.
    pub fn intern(&mut self, host: &str, port: u16) -> NodeIndex {
        let known = self.addresses.iter().position(|(h, p)| h == host && *p == port);
        let at = known.unwrap_or_else(|| {
            self.addresses.push((host.into(), port));
            self.addresses.len() - 1
        });
        NodeIndex(at as u32)
    }

    pub fn address(&self, node: NodeIndex) -> Option<(&str, u16)> {
        self.addresses.get(node.0 as usize).map(|(host, port)| (host.as_str(), *port))
    }
}

/// The highest version of each API that both sides know.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    by_key: Vec<Option<i16>>,
}

impl Versions {
    pub fn set(&mut self, api_key: i16, version: i16) {
        let Ok(at) = usize::try_from(api_key) else { return };
        if self.by_key.len() <= at {
            self.by_key.resize(at + 1, None);
        }
        self.by_key[at] = Some(version);
    }

    /// `None` if the other side does not have it.
    pub fn of(&self, api_key: i16) -> Option<i16> {
        *self.by_key.get(usize::try_from(api_key).ok()?)?
    }
}

/// Where a member is, for the live view and the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Not started, or ended.
    Down,
    /// Looks for its coordinator.
    Searching,
    /// Has asked to join, or waits for its assignment.
    Joining,
    /// Gives up partitions, or waits for some that others have to give up.
    Reconciling,
    /// Has all that it was promised.
    Stable,
    /// Was refused as a member, and will join anew.
    Fenced,
    /// Can't go on.
    Failed,
}
