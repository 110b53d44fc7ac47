//! One core's worth of muster: a broker of its own. [`Shard::step`] takes what happened and gives
//! what is to be done; it performs nothing, so that a simulator can drive it as the reactor does.

mod account_lines;
mod controller;
mod deleted_topics;
mod durable;
mod event;
mod group_clock;
mod group_configs;
mod input;
mod inspection;
mod known_log;
mod load_error;
mod loading;
mod log_check;
mod mailbox;
mod offline;
mod offsets_topic;
mod producer_ids;
mod scans;
mod snapshot;
mod step;
mod streams;
#[cfg(test)]
mod testing;

pub use event::{Command, Event, Part};
pub use inspection::Inspection;
pub use known_log::KnownLog;
pub use load_error::LoadError;
pub use loading::{Loaded, load, log_directory, read_log};
pub use mailbox::{AdminRequest, Message};

pub(crate) use controller::Controller;
pub(crate) use deleted_topics::DeletedTopics;
pub(crate) use durable::GroupLog;
pub(crate) use group_clock::GroupClock;
pub(crate) use input::RunQueue;
pub(crate) use loading::{groups_of_snapshot, read_known_log};
pub(crate) use log_check::LogCheck;
pub(crate) use producer_ids::ProducerIds;
pub(crate) use scans::Scans;
pub(crate) use snapshot::Snapshots;

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

/// What all shards of a server have in common.
#[derive(Debug, Clone)]
pub struct Common {
    pub config: Arc<Config>,
    pub placement: Placement,
    /// Where each shard can be reached, by its number.
    pub endpoints: Arc<[Endpoint]>,
    pub cluster_id: Arc<str>,
    /// The data directory, as clients are told of it.
    pub data: Arc<str>,
    pub log_sizes: LogSizes,
    /// The log of each shard as the data directory's stamp names it. None where there is no stamp:
    /// then a log that is not there is a new one.
    pub known_logs: Arc<[KnownLog]>,
    /// Files that the partitions of a shard keep open; others are opened when they are read.
    pub partition_files_max: u32,
}

/// How large things grow in the logs of shards. With small sizes a simulator has in a second what
/// takes a server days.
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

    /// What the answers of shard `number` about the cluster are made from.
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
    /// As all shards have reported it, this one too.
    pub(crate) offline: OfflinePartitions,
    pub(crate) connections: Connections,
    pub(crate) groups: GroupLog,
    pub(crate) partitions: Partitions,
    /// On shard 0 only.
    pub(crate) controller: Option<Controller>,
    pub(crate) deleted_topics: DeletedTopics,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) snapshots: Snapshots,
    pub(crate) log_check: LogCheck,
    pub(crate) ids: Box<dyn Ids>,
    /// The time of the event that is being handled: see [`crate::clock::Times`].
    pub(crate) now: i64,
    pub(crate) wall: Wall,
    /// All that arrived before this time has been handled.
    pub(crate) heard: i64,
    pub(crate) commands: Vec<Command>,
    /// With what was altered while the server ran.
    config: Config,
    /// Connections with output to send.
    sendable: Vec<ConnectionId>,
    run_queue: RunQueue,
    scans: Scans,
    requests_handled: u64,
    /// Connections that go on when clients have read some of their answers.
    waiting_for_readers: Vec<ConnectionId>,
    next_idle_sweep: i64,
    /// When there may be a line about the account again.
    next_account_line: i64,
    /// Errors that requests run into, by what they were about.
    pub(crate) request_errors: Throttle<&'static str>,
    stopping: Stopping,
}

/// What is left of a shard that is to be loaded again.
#[derive(Debug)]
pub struct Left {
    /// The cluster as it knew it.
    pub image: Arc<ClusterImage>,
    /// What is to be done once it is there again.
    pub commands: Vec<Command>,
}

impl Shard {
    /// It is given up, with all that it took and did not answer.
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

/// How far a stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    No,
    /// Takes no further request; waits until all is durable, and for a snapshot.
    Draining {
        since: i64,
    },
    Done,
}
