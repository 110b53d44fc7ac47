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
    /// The API version in which the request is encoded. The cluster supports it.
    pub version: i16,
    pub request: Request,
    /// When the request was due. Its latency counts from then.
    pub due: Time,
    /// The interval of requests of this kind. The next one is due after it even if this one is not
    /// answered by then.
    pub every: Option<Duration>,
    /// A number that [`Answer::token`] returns. It is unique among this member's requests in
    /// flight.
    pub token: u32,
}

/// A request that is due, but can't be sent: the coordinator is unreachable, or has not answered
/// earlier requests.
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

/// Work of several requests that has ended, or was given up before the last answer. Some kinds
/// ([`SpanKind::Delivery`] and [`SpanKind::Hold`]) measure a time in which no requests are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    pub of: SpanKind,
    /// When the work was due. Its latency counts from then.
    pub due: Time,
    /// When the first request was sent. `ended` is when the last answer arrived.
    pub began: Time,
    pub ended: Time,
    /// How much longer the work took because the load machine was late.
    pub delayed: Duration,
    pub answered: bool,
    /// The number of equal spans for which this one stands: they were due, and ended, together.
    pub count: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// From the first request of a transaction to the answer to EndTxn.
    Transaction,
    /// From the moment at which a producer begins to write a record until a member of a share group
    /// first acquires this record.
    Delivery,
    /// The time for which a member of a streams group had tasks, but was not allowed to process.
    Hold,
}

/// The connection on which a request is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// Any broker, for lookups and other requests that each broker can answer. The members of a
    /// core share the connections for them.
    Any,
    /// This node, over the member's connection to it. Several members may share this connection.
    Node(NodeIndex),
    /// This node, over a second connection. It is for requests that wait for records, so that
    /// requests to the coordinator do not queue after them.
    Leader(NodeIndex),
}

/// The answer to a request, or its failure.
pub struct Answer<'a> {
    pub token: u32,
    /// When the request was sent, and when its answer arrived.
    pub sent: Time,
    pub arrived: Time,
    /// How late the load machine sent the request.
    pub delayed: Duration,
    pub outcome: Result<Response<'a>, Failure>,
}

/// The reason why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// There was no connection, or it broke before the answer. The request may have taken effect.
    Disconnected,
    /// There was no answer within the request timeout. The connection is closed, as by real
    /// clients.
    TimedOut,
    /// The answer could not be decoded. The connection is closed.
    Malformed,
}

/// A request of a member. It borrows nothing, because members keep parts of requests, and requests
/// queue before they are sent.
pub type Request = muster_codec::Request<'static>;

/// The brokers by host and port. Members hold only an index into this table.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    addresses: Vec<(String, u16)>,
    /// The partition leaders that consuming members have learned, shared by all members of a core.
    leaders: HashMap<Partition, NodeIndex>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

impl Nodes {
    /// Returns the index of this address, and adds the address if it is new. The search is linear:
    /// clusters have few brokers.
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

    /// Notes that the node that is known as the leader of the partition does not lead it. So the
    /// leader has to be looked up.
    pub(super) fn not_led(&mut self, partition: Partition) {
        self.leaders.remove(&partition);
    }

    pub fn address(&self, node: NodeIndex) -> Option<(&str, u16)> {
        self.addresses.get(node.0 as usize).map(|(host, port)| (host.as_str(), *port))
    }
}

/// The highest version of each API that cluster and muster-load both support.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Versions {
    by_key: Vec<Option<i16>>,
    /// The cluster's finalized `transaction.version`; 0 if there is none.
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

    /// The version of this API, or `None` if the cluster does not have it.
    pub fn of(&self, api: ApiKey) -> Option<i16> {
        *self.by_key.get(api as usize)?
    }
}
