//! The events of a run: a closed enum, so that each match handles all events.

use crate::disk::Crash;
use crate::net::{LinkId, NetEvent};

#[derive(Debug)]
pub(crate) enum TimedEvent {
    /// An event of a machine that the server runs on. If there is only one, its number is 0.
    Machine { node: u32, event: MachineEvent },
    /// An event of a connection.
    Net(NetEvent),
    /// A client is notified that its connection is gone.
    Lost { link: LinkId },
    /// The server is notified that a client is gone.
    Ended { link: LinkId },
    /// A request was not answered in time.
    Expired { link: LinkId, correlation: i32 },
    /// A member's timer.
    Member { member: u32, armed: u64 },
    /// The timer of a raw client.
    Client { client: u32, armed: u64 },
    /// A member starts or stops.
    Churn,
    /// The server starts.
    Start,
    /// Checks the state of the run.
    Check,
}

/// An event of the machine. `life` counts the incarnations of the server process: events of an
/// earlier incarnation have no effect.
#[derive(Debug)]
pub(crate) enum MachineEvent {
    /// A shard's turn.
    Turn { life: u32, shard: u32 },
    /// The process of a cluster's node starts.
    Start,
    /// An event of the connections between the nodes of a cluster.
    Link(LinkEvent),
    /// A file operation of a shard ends.
    FileDone { life: u32, operation: u64 },
    /// A call of the file system takes effect.
    CallDone { life: u32, call: u64 },
    /// A fault, drawn by the profile's weights.
    Fault,
    /// A file changes without a write.
    Rot,
    /// The server process is killed, or the machine loses power.
    Crash { life: u32, how: Crash },
    /// A failed shard is loaded again.
    Reload { life: u32, shard: u32 },
    /// A clean stop took too long.
    StopOverdue { life: u32 },
    /// The disk has free space again.
    RoomAgain,
}

/// Two nodes, the lower number first, and a shard of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) nodes: [u32; 2],
    pub(crate) shard: u32,
}

impl Pair {
    pub(crate) fn new(one: u32, other: u32, shard: u32) -> Self {
        Self { nodes: [one.min(other), one.max(other)], shard }
    }
}

/// An event of the connections between nodes.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A node tries to connect.
    Dials(Pair),
    /// The oldest message to the second node of the direction arrives.
    Arrives { from: u32, to: u32, shard: u32, connection: u64 },
    /// A node notices that a connection is gone.
    Broken { pair: Pair, at: u32 },
}

impl From<MachineEvent> for TimedEvent {
    fn from(event: MachineEvent) -> Self {
        Self::Machine { node: 0, event }
    }
}

impl From<NetEvent> for TimedEvent {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}
