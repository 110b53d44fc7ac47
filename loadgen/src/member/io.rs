//! The interface between a member and its owner: requests and answers, destinations, and the API
//! versions of the cluster.

use std::collections::HashMap;
use std::time::Duration;

use muster_codec::ApiKey;
pub use muster_codec::Response;

use crate::plan::Partition;
use crate::time::Time;

/// A request to send now.
pub struct Outgoing {
    pub to: Destination,
    /// The version to encode the request in: one that the cluster supports.
    pub version: i16,
    pub request: Request,
    /// The time when the request was due: latency counts from then.
    pub due: Time,
    /// The interval at which later requests of its kind are due, even while it is not answered.
    pub every: Option<Duration>,
    /// Returned in [`Answer::token`]; unique among the requests in flight of this member.
    pub token: u32,
}

/// A request that is due and can't be sent: the coordinator can't be reached, or has not answered
/// earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overdue {
    pub of: Regular,
    pub due: Time,
    pub every: Duration,
}

/// Requests that are due at intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Regular {
    Heartbeat,
    ConsumerHeartbeat,
    ShareHeartbeat,
    StreamsHeartbeat,
    Commit,
    Fetch,
    Produce,
    Transaction,
}

/// Work of several requests that ended, or was given up without an answer to the last of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub of: SpanKind,
    /// The time when it was due: latency counts from then.
    pub due: Time,
    /// The time when the first request left, and below the time when the last answer arrived.
    pub began: Time,
    pub ended: Time,
    /// The time by which the machine that generates the load made it longer.
    pub delayed: Duration,
    pub answered: bool,
    /// How many ended at once.
    pub count: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// The time from the first request of a transaction to the answer of EndTxn.
    Transaction,
    /// The time from when a record was due to be written to its first acquisition by a member of a
    /// share group.
    Delivery,
    /// The time for which a member of a streams group that has tasks must not process.
    Hold,
}

/// The connection to send a request on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Any broker, for coordinator lookups. Its connections are shared by the members of a core.
    Any,
    /// The member's own connection to this node.
    Node(NodeIndex),
    /// A second connection to a node, for requests that wait for records, so that requests to the
    /// coordinator do not wait for them.
    Leader(NodeIndex),
}

/// The answer to a request, or its failure.
pub struct Answer<'a> {
    pub token: u32,
    /// The time when the request left, and when its answer arrived.
    pub sent: Time,
    pub arrived: Time,
    /// The time by which the machine that generates the load sent the request too late.
    pub delayed: Duration,
    pub outcome: Result<Response<'a>, Failure>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No connection, or it broke before the answer. The request may have taken effect.
    Disconnected,
    /// No answer within the request timeout. The connection is closed, as clients do.
    TimedOut,
    /// The answer could not be decoded. The connection is closed.
    Malformed,
}

/// A request of a member. Members keep parts of requests, and requests wait for their turn, so they
/// borrow nothing.
pub type Request = muster_codec::Request<'static>;

/// Brokers by host and port, so that members hold only an index.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    addresses: Vec<(String, u16)>,
    /// The leaders that consuming members have learned. All members of a core share them.
    leaders: HashMap<Partition, NodeIndex>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

impl Nodes {
    /// Returns the index of this address, and adds it if it is new. Clusters have few brokers.
    pub fn intern(&mut self, host: &str, port: u16) -> NodeIndex {
        let known = self.addresses.iter().position(|(h, p)| h == host && *p == port);
        let at = known.unwrap_or_else(|| {
            self.addresses.push((host.into(), port));
            self.addresses.len() - 1
        });
        NodeIndex(at as u32)
    }

    pub(super) fn leader(&self, partition: Partition) -> Option<NodeIndex> {
        self.leaders.get(&partition).copied()
    }

    pub(super) fn led(&mut self, partition: Partition, by: NodeIndex) {
        self.leaders.insert(partition, by);
    }

    /// The partition has another leader, which must be looked up.
    pub(super) fn not_led(&mut self, partition: Partition) {
        self.leaders.remove(&partition);
    }

    pub fn address(&self, node: NodeIndex) -> Option<(&str, u16)> {
        self.addresses.get(node.0 as usize).map(|(host, port)| (host.as_str(), *port))
    }
}

/// The highest version of each API that both sides know.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Versions {
    by_key: Vec<Option<i16>>,
    /// The `transaction.version` that the cluster has finalized; 0 if it has none.
    pub transactions: i16,
}

impl Versions {
    pub fn set(&mut self, api: ApiKey, version: i16) {
        let at = api as usize;
        if self.by_key.len() <= at {
            self.by_key.resize(at + 1, None);
        }
        self.by_key[at] = Some(version);
    }

    /// `None` if the cluster does not have the API.
    pub fn of(&self, api: ApiKey) -> Option<i16> {
        *self.by_key.get(api as usize)?
    }
}
