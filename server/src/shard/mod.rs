//! A shard: the server's part on one core, a broker of its own. [`Shard::step`] takes an event and
//! returns commands; it performs none, so that the simulator can drive it as the reactor does.

mod account_lines;
mod audit;
mod cluster_requests;
mod controller;
mod deleted_topics;
mod durable;
mod event;
mod group_clock;
mod group_configs;
#[cfg(test)]
mod group_requests;
mod group_router;
mod input;
mod inspection;
mod known_log;
mod load_error;
mod loading;
mod log_check;
mod mailbox;
mod names;
mod offline;
mod offsets_topic;
mod producer_ids;
mod reading;
mod requests;
mod scans;
mod slots;
mod snapshot;
mod start;
mod step;
mod streams;
#[cfg(test)]
mod testing;
mod to_controller;
mod weights;

pub use event::{Command, Event, Part};
pub use inspection::Inspection;
pub use known_log::KnownLog;
pub use load_error::LoadError;
pub use loading::{Loaded, load, log_directory};
pub use mailbox::{AdminRequest, Message};
pub use reading::read_log;

pub(crate) use audit::Audit;
pub(crate) use controller::Controller;
pub(crate) use deleted_topics::DeletedTopics;
pub(crate) use durable::GroupLog;
pub(crate) use group_clock::GroupClock;
pub(crate) use input::RunQueue;
pub(crate) use log_check::LogCheck;
pub(crate) use producer_ids::ProducerIds;
pub(crate) use reading::read_known_log;
pub(crate) use scans::Scans;
pub(crate) use snapshot::Snapshots;
pub(crate) use start::groups_of_snapshot;
pub(crate) use to_controller::ToController;

use crate::cluster::{ClusterImage, Endpoint, OfflinePartitions, View};
use crate::config::Config;
use crate::logging::Throttle;
use crate::net::{ConnectionId, Connections};
use crate::partitions::Partitions;
use crate::placement::Placement;
use muster_codec::Wall;
use muster_coordinator::Ids;
use muster_storage::limits::{OPEN_BYTES_MAX, OPERATION_BYTES_MAX};
use std::sync::Arc;

/// The state that all shards of a server share.
#[derive(Debug, Clone)]
pub struct Common {
    pub config: Arc<Config>,
    pub placement: Placement,
    /// The address of each shard, by its number.
    pub endpoints: Arc<[Endpoint]>,
    pub cluster_id: Arc<str>,
    /// The data directory, as in answers to clients.
    pub data: Arc<str>,
    pub log_sizes: LogSizes,
    /// The log of each shard by the data directory's stamp. Empty where there is no stamp: then a
    /// missing log is a new one.
    pub known_logs: Arc<[KnownLog]>,
    /// Files that the partitions of a shard keep open; others are opened for each read.
    pub partition_files_max: u32,
}

/// Sizes in the logs of shards. Small ones let a simulator reach in a second a state that takes a
/// server days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSizes {
    /// None for `offsets.topic.segment.bytes`.
    pub segment_bytes: Option<u32>,
    pub operation_bytes_max: usize,
    pub open_bytes_max: usize,
}

impl Default for LogSizes {
    fn default() -> Self {
        Self {
            segment_bytes: None,
            operation_bytes_max: OPERATION_BYTES_MAX,
            open_bytes_max: OPEN_BYTES_MAX,
        }
    }
}

impl Common {
    pub(crate) fn known_log(&self, number: u32) -> Option<&KnownLog> {
        self.known_logs.get(number as usize)
    }

    /// The input of shard `number`'s answers about the cluster.
    pub(crate) fn view<'a>(
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
            endpoints: &self.endpoints,
            shard: number,
            cluster_id: &self.cluster_id,
        }
    }
}

/// A shard: connections, the groups it coordinates, the partitions it leads.
pub struct Shard {
    pub(crate) number: u32,
    pub(crate) common: Common,
    pub(crate) image: Arc<ClusterImage>,
    /// As reported by all shards, this one included.
    pub(crate) offline: OfflinePartitions,
    pub(crate) connections: Connections,
    pub(crate) groups: GroupLog,
    pub(crate) partitions: Partitions,
    /// On shard 0 only.
    pub(crate) controller: Option<Controller>,
    pub(crate) deleted_topics: DeletedTopics,
    pub(crate) producer_ids: ProducerIds,
    to_controller: ToController,
    pub(crate) snapshots: Snapshots,
    audit: Audit,
    pub(crate) log_check: LogCheck,
    pub(crate) ids: Box<dyn Ids>,
    /// The time of the current event: see [`crate::clock::Times`].
    pub(crate) now: i64,
    pub(crate) wall: Wall,
    /// All input that arrived before this time has been handled.
    pub(crate) heard: i64,
    pub(crate) commands: Vec<Command>,
    /// The server's config with altered configs applied.
    config: Config,
    /// Connections with output to send.
    sendable: Vec<ConnectionId>,
    run_queue: RunQueue,
    scans: Scans,
    requests_handled: u64,
    /// Connections that continue when clients have read some of their answers.
    waiting_for_readers: Vec<ConnectionId>,
    next_idle_sweep: i64,
    /// The earliest time of the next line about the account.
    next_account_line: i64,
    /// Limits the errors that requests cause, by their subject.
    pub(crate) request_errors: Throttle<&'static str>,
    stopping: Stopping,
}

/// The remains of a shard that is to be loaded again.
#[derive(Debug)]
pub struct Left {
    /// Its image of the cluster.
    pub image: Arc<ClusterImage>,
    /// Commands to perform once it is loaded again.
    pub commands: Vec<Command>,
}

impl Shard {
    /// Gives up the shard, with all requests that are not answered.
    pub fn leave(self) -> Left {
        let offline = self.leave_offline();
        let mut commands: Vec<_> =
            self.controller.into_iter().flat_map(Controller::leave).collect();
        if self.stopping != Stopping::No {
            commands.push(Command::Mail { to: self.number, message: Message::Stop });
        }
        commands.extend(offline);
        Left { image: self.image, commands }
    }
}

/// The progress of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    No,
    /// No further requests are handled; waits until all is durable, and for a snapshot.
    Draining {
        since: i64,
    },
    Done,
}
