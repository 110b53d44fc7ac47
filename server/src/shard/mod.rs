//! A shard: the server's part on one core, and a broker of its own. [`Shard::step`] takes an event
//! and returns commands. It performs none of them, so that the simulator can drive a shard as the
//! reactor does.
//!
//! A shard passes events to its parts, and their results on to other parts. Its parts are `Clients`
//! (`net/`), `Groups`, `Transactions`, `Partitions`, `Shares`, `LongRequests` and `Telemetry`; on
//! shard 0 there is a `Controller`, and on every shard `ControllerRequests`, the side that asks it.
//! Each part is a folder of `server/src/` with private fields, and the head of its `mod.rs` is its
//! contract. A part gets what it needs as arguments, and never sees [`Shard`].
//!
//! A shard is loaded before it listens, because of three things. The log of shard 0 has the topics
//! beside its groups, so Metadata could not be answered before it is read. Loading takes a tenth of
//! a second with a snapshot (2 s for 10 million offsets without one), which is less than a client
//! waits between two attempts. And some clients do not retry after COORDINATOR_LOAD_IN_PROGRESS,
//! which a Kafka broker answers while it loads. While a shard of a running server is loaded again,
//! its new connections wait in the kernel.
//!
//! If the state of a shard is wrong, the shard is given up. The running check, the audit or a
//! damaged section of a snapshot may show this. Connections are closed, nothing more is written,
//! and the snapshot is renamed to `snapshot.damaged`. `serve.rs` loads the shard again from its
//! log, while other shards continue. This would fail with a damaged log, so a shard whose log is
//! damaged only logs this, and continues. If a mapped file can no longer be read (SIGBUS), the
//! process ends (`server/uring/src/map.rs`).
//!
//! The stages of a frame (`stages.rs`) are calls in one function, not a list of function pointers,
//! so that the compiler checks that each stage has what it needs of the earlier ones.
//!
//! `counters.rs` of the parts, `FileCounters` and the coordinators count in plain integers of this
//! shard, so that nothing is locked or shared. A shard that is loaded again counts from zero.

mod audit;
mod authentication;
mod authorization;
mod await_leader;
mod backup;
mod broker;
mod cluster_requests;
mod confirmed_reads;
mod counters;
mod delegation_tokens;
mod input;
mod inquiries;
mod inspection;
mod known_log;
mod limit_lines;
mod load_error;
mod loading;
mod log;
mod long_requests;
mod mail;
mod names;
mod raft_clock;
mod read_errors;
mod reading;
mod replicas;
mod replicated_log;
mod requests;
mod reset;

mod shares;
mod stages;
mod stalls;
mod start;
mod step;
mod streams_groups;
mod telemetry;
#[cfg(test)]
pub(crate) mod tests;
mod topics;
mod transactions;
mod troubles;

pub use inspection::Inspection;
pub use known_log::KnownLog;
pub use load_error::{LoadError, start_writer};
pub use loading::{Loaded, load, log_directory, salvage};
pub use muster_peers::PeerEvent;
pub use muster_runtime::replicas::{NodeId, PeerMessage, Session};
pub(crate) use raft_clock::TICK_MS;
pub use reading::{read_known_log, read_log, salvage_log};
pub use replicas::Lied;
pub use replicated_log::form;
pub use start::{Compared, compare_snapshot, unread_snapshot};

pub use crate::cluster::{Node, Nodes};
pub use crate::config::ListenerIndex;
use crate::disk_space::DiskSpace;
pub use crate::event::{CertificateOrder, Command, Event};
pub use crate::groups::Slots;
pub use crate::mailbox::{
    AdminRequest, Letter, Message, StateAnswer, StateQuestion, ToTransactions,
};

#[cfg(test)]
pub(crate) use tests::world::{World, commit};

use crate::clock::{ClockWatch, Stopwatch, Times};
use crate::cluster::{Brokers, ClusterImage, Endpoints, OfflinePartitions, View};
use crate::config::Config;
use crate::controller::{Controller, ControllerRequests};
use crate::groups::Groups;
use crate::logging::RequestErrors;
use crate::long_requests::LongRequests;
use crate::net::Clients;
use crate::partitions::Partitions;
use crate::placement::Placement;
use crate::security::TokenKeys;
use crate::shares::Shares;
use crate::stall::Stalls;
use crate::telemetry::Telemetry;
use crate::transactions::Transactions;
use audit::AuditLines;
pub(crate) use backup::Taken;
use broker::Broker;
use confirmed_reads::ConfirmedReads;
#[cfg(test)]
pub(crate) use counters::OF_LOG;
pub(crate) use counters::ShardCounters;
use inquiries::Inquiries;
use limit_lines::LimitLines;
use muster_coordinator::Ids;
use muster_runtime::{LogReads, Runtime, Upkeep};
use muster_storage::FileOp;
use muster_storage::limits::{OPEN_BYTES_MAX, OPERATION_BYTES_MAX};
use raft_clock::RaftClock;
use std::sync::Arc;
use troubles::Troubles;

/// The state that all shards of a server share.
#[derive(Debug, Clone)]
pub struct Common {
    pub config: Arc<Config>,
    pub placement: Placement,
    /// The addresses that clients are given.
    pub endpoints: Endpoints,
    pub cluster_id: Arc<str>,
    /// The data directory, as in answers to clients.
    pub data: Arc<str>,
    pub log_sizes: LogSizes,
    /// The log of each shard, as the data directory's stamp describes it. Empty if there is no
    /// stamp: then a log that does not exist is created.
    pub known_logs: Arc<[KnownLog]>,
    /// The number of files that the partitions of a shard keep open. Other files are opened for
    /// each read.
    pub partition_files_max: u32,
    /// Whether the audit compares changed groups with their records: in debug builds and tests.
    pub audits: bool,
    /// The number of this load of the shard, which increases with each load. It is the epoch of the
    /// shard's coordinators of transactions, and the session of its slots.
    pub life: i32,
    /// Whether the machine may have lost its memory since the last start.
    pub may_have_lost_writes: bool,
    /// Measures the time of requests, for the quotas of their clients.
    pub stopwatch: Stopwatch,
    /// The space of the volume of the data directory.
    pub space: DiskSpace,
    /// The keys by which tokens are checked, as they were at startup.
    pub token_keys: TokenKeys,
    /// The cluster of nodes that the server is part of. None for one machine.
    pub nodes: Option<Nodes>,
}

/// Sizes in the logs of shards. With small sizes a simulator reaches in a second a state that takes
/// a server days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSizes {
    /// None for `offsets.topic.segment.bytes`.
    pub segment_bytes: Option<u32>,
    pub operation_bytes_max: usize,
    pub open_bytes_max: usize,
    /// If the records of a request take more bytes than this, they are divided into several
    /// operations where that is possible. None stands for half of `operation_bytes_max`.
    pub cut_bytes: Option<usize>,
}

impl Default for LogSizes {
    fn default() -> Self {
        Self {
            segment_bytes: None,
            operation_bytes_max: OPERATION_BYTES_MAX,
            open_bytes_max: OPEN_BYTES_MAX,
            cut_bytes: None,
        }
    }
}

impl LogSizes {
    pub(crate) fn cut_bytes(&self) -> usize {
        self.cut_bytes.unwrap_or(self.operation_bytes_max / 2)
    }
}

impl Common {
    pub fn known_log(&self, number: u32) -> Option<&KnownLog> {
        self.known_logs.get(number as usize)
    }

    /// The input of shard `number`'s answers about the cluster, with the endpoints of the first
    /// listener. It names the brokers of one machine.
    pub fn view<'a>(
        &'a self,
        image: &'a ClusterImage,
        offline: &'a OfflinePartitions,
        number: u32,
    ) -> View<'a> {
        View {
            image,
            offline,
            config: &self.config,
            placement: self.placement,
            brokers: Brokers::alone(self.endpoints.of(ListenerIndex::FIRST)),
            shard: number,
            cluster_id: &self.cluster_id,
        }
    }
}

/// A shard. It passes events to its parts, and the results of one part on to others.
pub struct Shard {
    broker: Broker,
    clients: Clients,
    groups: Groups,
    runtime: Runtime,
    upkeep: Upkeep,
    /// Reads of internal topics.
    reads: LogReads,
    /// File operations of the log to be requested.
    ops: Vec<FileOp>,
    partitions: Partitions,
    transactions: Transactions,
    shares: Shares,
    telemetry: Telemetry,
    /// On shard 0 only.
    controller: Option<Controller>,
    controller_requests: ControllerRequests,
    long: LongRequests,
    inquiries: Inquiries,
    limit_lines: LimitLines,
    ids: Box<dyn Ids>,
    /// The time of the current event.
    times: Times,
    errors: RequestErrors,
    audit: AuditLines,
    commands: Vec<Command>,
    counters: ShardCounters,
    /// When this turn began, in microseconds; None between turns.
    turn_began: Option<u64>,
    clock_watch: ClockWatch,
    troubles: Troubles,
    stalls: Stalls,
    /// Whether the power was lost, and the first turn has not begun.
    may_have_lost_records: bool,
    stopping: Stopping,
    /// In a cluster.
    raft_clock: RaftClock,
    confirmed_reads: ConfirmedReads,
}

/// The state that a failed shard passes to its successor.
#[derive(Debug)]
pub struct Left {
    /// The controller leaves the newest image that it has sent to any shard; other shards leave
    /// their own image.
    pub image: Arc<ClusterImage>,
    /// Commands to perform once the shard is loaded again.
    pub commands: Vec<Command>,
    /// The processes of other nodes. Their connections have not ended.
    pub peers: Vec<(NodeId, Session)>,
}

impl Shard {
    /// Makes the shard fail at the end of this turn, as if a check had found a fault. Tests use it
    /// to have the shard loaded again.
    pub fn give_up(&mut self, reason: &str) {
        self.upkeep.give_up(reason);
    }

    /// Delays the checks that may cause a reload. The delay grows with the number of reloads.
    pub fn check_later(&mut self, reloads: u32) {
        self.troubles.loaded_again = Some((self.last(), reloads));
        self.upkeep.check_later(self.times.now, reloads);
    }

    /// Orders the shard's certificates again, after it was loaded again and may have new configs.
    pub fn order_certificates(&self, out: &mut Vec<Command>) {
        self.broker.order_certificates(out);
    }

    /// Gives the shard up, with all unanswered requests.
    pub fn leave(self) -> Left {
        let (offline, leaders) = (self.broker.leave_offline(), self.broker.leave_leaders());
        let nodes: Vec<_> = self.broker.leave_nodes().collect();
        let peers = self.runtime.peer_sessions();
        let published = self.controller.as_ref().map(Controller::published);
        let image = Arc::clone(published.unwrap_or(self.broker.image()));
        let mut commands: Vec<_> =
            self.controller.into_iter().flat_map(Controller::leave).collect();
        if self.stopping != Stopping::No {
            commands.push(Command::mail(self.broker.number(), Message::Stop));
        }
        let keys = self.clients.token_keys();
        if !keys.is_empty() {
            let message = Message::TokenKeys(Arc::clone(keys));
            commands.push(Command::mail(self.broker.number(), message));
        }
        commands.extend(offline);
        commands.extend(leaders);
        commands.extend(nodes);
        Left { image, commands, peers }
    }
}

/// The progress of a clean stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    No,
    /// No further requests are handled. The shard waits until everything is durable, and until a
    /// last snapshot is written if one is needed.
    Draining {
        since: i64,
    },
    Done,
}
