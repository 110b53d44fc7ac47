//! The log of a shard of a node in a cluster, while the shard is loaded.

use super::names::ENTRIES_TOKEN;
use super::reading::read_items;
use super::topics::Internal;
use super::{Common, KnownLog, LoadError, Nodes};
use crate::placement::{CONTROLLER, Placement};
use crate::topics;
use muster_runtime::Runtime;
use muster_runtime::replicas::{
    self, Group, Incomplete, RecoveredReplicas, ReplicatedLoad, Replication, ReplicationConfig,
};
use muster_storage::layout::Format;
use muster_storage::{LogConfig, LogPartition, Recovered, ShardLog};
use std::path::Path;

/// The bytes of entries that a shard keeps in memory for followers.
const CACHE_BYTES: usize = 32 << 20;

/// A slot of which this many bytes are not committed accepts no more.
const UNCOMMITTED_BYTES_MAX: usize = 4 << 20;

/// The groups of the slots of a shard. The image is on shard 0.
fn groups_of(placement: Placement, number: u32) -> Vec<Group> {
    let image = (number == CONTROLLER).then_some(Group(0));
    let slots = placement.slots_of(number).map(|slot| Group(slot.log_slot().group()));
    image.into_iter().chain(slots).collect()
}

/// The log of a shard of a node in a new cluster, in the directory of the config. Its first block
/// has to be durable before the shard is loaded.
pub fn form(nodes: &Nodes, placement: Placement, number: u32, config: LogConfig) -> ShardLog {
    let config = LogConfig {
        format: Format::Replicated,
        slots: placement.offsets_partitions,
        topics: topics::RULES,
        ..config
    };
    let mut log = ShardLog::new(config, Recovered::default());
    replicas::form(&mut log, nodes.own, &nodes.ids, &groups_of(placement, number));
    log
}

/// Reads the log of a shard of a node. Without a known log, it is not compared with one.
pub(super) fn read_replicated(
    directory: &Path,
    common: &Common,
    number: u32,
    known: Option<&KnownLog>,
) -> Result<(Internal, Recovered, RecoveredReplicas), LoadError> {
    let slots = common.placement.offsets_partitions;
    let mut load = ReplicatedLoad::new(Internal::new(common, number), slots);
    let mut failed = None;
    let mut recovered = read_items(directory, load.recovery(), |item| {
        failed = failed.take().or(load.replay(item).err());
    })?;
    if let Some(error) = failed {
        return Err(LoadError::Record { directory: directory.to_owned(), error });
    }
    if let Some(known) = known {
        known.check(directory, &recovered).map_err(LoadError::of_node)?;
    }
    let groups = groups_of(common.placement, number);
    let loaded = load.finish(&mut recovered, &groups);
    let (topics, replicas) = loaded.map_err(|lacks| match (directory.to_owned(), lacks) {
        (directory, Incomplete::Entries(group)) => {
            LoadError::Replicas { directory, why: format!("entries of group {group} are missing") }
        }
        (directory, Incomplete::Replica(group)) => LoadError::NotFormed { directory, group },
    })?;
    Ok((topics, recovered, replicas))
}

/// The runtime of a shard of a node, with the replicas that its log has.
pub(super) fn clustered(
    mut log: ShardLog,
    partitions: Vec<LogPartition>,
    placement: Placement,
    found: RecoveredReplicas,
) -> Result<Runtime, LoadError> {
    let slots = placement.offsets_partitions as u16;
    let config = ReplicationConfig {
        slots,
        cache_bytes: CACHE_BYTES,
        uncommitted_bytes_max: UNCOMMITTED_BYTES_MAX,
        token: ENTRIES_TOKEN,
    };
    let directory = log.directory().to_owned();
    let replication = Replication::new(config, found, &mut log);
    let replication = replication.map_err(|why| LoadError::Replicas { directory, why })?;
    Ok(Runtime::new(log, partitions).in_cluster(replication))
}
