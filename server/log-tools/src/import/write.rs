//! Writes the shard logs and the stamp (`meta.properties`) of a new data directory.

use super::groups::{Groups, Live, group_id};
use super::kafka_dirs::KafkaDirs;
use super::shares::Shares;
use super::topics::Topics;
use muster_server::Failure;
use muster_server::clock::wall;
use muster_server::data_dir::{Meta, State};
use muster_server::offline::OfflineLog;
use muster_server::placement::{CONTROLLER, Placement, Slot};
use muster_server::random::RandomIds;
use muster_server::reshard::new_logs;
use muster_server::shard::LogSizes;
use muster_server::topics;
use std::path::Path;

/// Writes the shards' logs: first the topics and configs, then the groups, then share state. Groups
/// and share state are in the order of Kafka's partitions.
///
/// # Errors
/// Kafka's files are damaged, the file system fails, or a record is too long for the log.
pub(super) fn write(
    data: &Path,
    kafka: &KafkaDirs,
    placement: Placement,
    topics: &Topics,
) -> Result<(Groups, Shares), Failure> {
    let mut ids = RandomIds::new()?;
    let mut meta = Meta::new(placement, &mut ids);
    let mut logs = new_logs(data, &meta, LogSizes::default())?;
    let now = wall().0;
    for record in topics.records(placement) {
        let log = &mut logs[CONTROLLER as usize];
        log.log.append(topics::CLUSTER, now, [record])?;
        flush_if_full(log)?;
    }
    let groups = Groups::read(kafka, placement, |partition, records| {
        let log = &mut logs[placement.shard_of(Slot(partition)) as usize];
        records.iter().try_for_each(|(key, live)| append(log, partition, key, live))
    })?;
    let shares = Shares::read(kafka, placement, topics, |slot, record| {
        let log = &mut logs[placement.shard_of(slot) as usize];
        log.log.append(slot.share_state(), now, [record])?;
        flush_if_full(log)
    })?;
    for (log, known) in logs.iter_mut().zip(&mut meta.logs) {
        known.end = log.finish()?;
    }
    if let Some(cluster_id) = &kafka.cluster_id {
        meta.cluster_id.clone_from(cluster_id);
    }
    Meta { state: State::Made, ..meta }.write(data)?;
    Ok((groups, shares))
}

/// Appends a record as an operation of its own. A crash between records does no harm: the directory
/// gets its name only when all are written.
fn append(
    offline: &mut OfflineLog,
    partition: u32,
    key: &[u8],
    live: &Live,
) -> Result<(), Failure> {
    let record = (key, Some(&*live.value));
    let partition = Slot(partition).log_partition();
    offline.log.append(partition, live.timestamp, [record]).map_err(|error| {
        let group = group_id(key).unwrap_or_default();
        format!("group {group:?}: {error}")
    })?;
    flush_if_full(offline)
}

fn flush_if_full(offline: &mut OfflineLog) -> Result<(), Failure> {
    if offline.log.is_full() { Ok(offline.flush()?) } else { Ok(()) }
}
