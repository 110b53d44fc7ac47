//! Rebuilds a lost or damaged stamp (`meta.properties`) from the logs.

use crate::args::Recover;
use crate::shard_files::ShardFiles;
use muster_codec::record_batch::Record;
use muster_codec::records::{ClusterRecord, GroupRecord, ShareRecord, TransactionRecord};
use muster_coordinator::Ids;
use muster_server::Failure;
use muster_server::config::Config;
use muster_server::data_dir::{
    DataDirError, Entry, Meta, State, entries, is_of_node, partitions, stamp_file, value,
};
use muster_server::placement::{
    CONTROLLER, NodePlace, OFFSETS_PARTITIONS, Placement, TRANSACTIONS_PARTITIONS,
};
use muster_server::shard::{KnownLog, log_directory, read_log};
use muster_server::topics::{self, InternalTopic};
use muster_storage::LogPartition;
use std::fs;
use std::path::Path;

/// The number of starts of the server for a rebuilt stamp. It must exceed the real number.
const STARTS_LOST: u32 = 1 << 20;

pub(super) struct FoundStamp {
    pub(super) meta: Meta,
    /// A description of the damage to the existing stamp.
    pub(super) wrong: Option<String>,
}

impl FoundStamp {
    /// Reads or rebuilds the stamp.
    ///
    /// # Errors
    /// There is no valid stamp, and it cannot be rebuilt.
    pub(super) fn find(arguments: &Recover, ids: &mut dyn Ids) -> Result<Self, Failure> {
        let data = &arguments.data;
        let why = match Meta::read(data) {
            Ok(meta) => return Ok(Self { meta, wrong: None }),
            Err(DataDirError::Damaged { what, .. }) => format!("is damaged: {what}"),
            Err(_) if !stamp_file(data).try_exists()? => "is missing".to_owned(),
            Err(error) => return Err(error.into()),
        };
        let text = fs::read(stamp_file(data)).unwrap_or_default();
        let (meta, has_new_id) = rebuild(arguments, &String::from_utf8_lossy(&text), ids)?;
        let new_id = if has_new_id {
            ". The cluster has a new id, as the log of shard 0 does not have it"
        } else {
            ""
        };
        let wrong = format!(
            "LOST meta.properties {why}. By the logs it says: shards {}, partitions of \
             __consumer_offsets {}, of __transaction_state {}. The length of the logs at the last \
             clean stop is not known any more{new_id}",
            meta.shards(),
            meta.offsets_partitions,
            meta.transactions_partitions
        );
        Ok(Self { meta, wrong: Some(wrong) })
    }
}

/// Rebuilds the stamp. `text` is the part of the damaged stamp that can be read. Also returns
/// whether the cluster id is a new one.
fn rebuild(arguments: &Recover, text: &str, ids: &mut dyn Ids) -> Result<(Meta, bool), Failure> {
    let data = &arguments.data;
    if is_of_node(text) {
        return Err("the directory is that of a node in a cluster. A stamp that is made from the \
                    logs could let the node vote twice: restore the stamp, or use the other nodes"
            .into());
    }
    let shards = shards(arguments)?;
    let offsets_partitions = match arguments.offsets_partitions {
        Some(partitions) => partitions,
        None => partitions(text, OFFSETS_PARTITIONS).map_err(|_| {
            "the number of partitions of __consumer_offsets is not known: give the \
             offsets.topic.num.partitions that the server was started with (50 if it was not set) \
             by --offsets-partitions N"
        })?,
    };
    let given = arguments.transactions_partitions;
    let placement = |transactions_partitions| Placement {
        shards,
        offsets_partitions,
        transactions_partitions,
        share_state_partitions: offsets_partitions,
        node: NodePlace::ALONE,
    };
    let placement = match given.or(partitions(text, TRANSACTIONS_PARTITIONS).ok()) {
        Some(count) => fitting(data, placement(count))?,
        // The number is not known. Tries the default and then, as with earlier servers, the number
        // of the other topic.
        None => {
            fitting(data, placement(Config::default().placement(shards).transactions_partitions))
                .or_else(|_| fitting(data, placement(offsets_partitions)))?
        }
    };
    let known_id = match value(text, "cluster.id") {
        Ok(cluster_id) if !cluster_id.is_empty() => Some(cluster_id.to_owned()),
        _ => recorded_cluster_id(data, shards),
    };
    let has_new_id = known_id.is_none();
    let cluster_id = known_id.unwrap_or_else(|| ids.next_id().to_string());
    let logs = (0..shards).map(|number| known(data, shards, number, ids)).collect();
    let starts = value(text, "starts").ok().and_then(|it| it.parse().ok()).unwrap_or(STARTS_LOST);
    // It is not known during which boot of the machine a server last used the directory.
    let boot = Some("unknown".to_owned());
    let Placement { transactions_partitions, .. } = placement;
    let meta = Meta {
        state: State::Made,
        cluster_id,
        offsets_partitions,
        transactions_partitions,
        starts,
        boot,
        logs,
        node: None,
    };
    Ok((meta, has_new_id))
}

/// The number of shards, derived from the directory of their logs.
fn shards(arguments: &Recover) -> Result<u32, Failure> {
    let all: Vec<u32> = entries(&arguments.data)?
        .into_iter()
        .filter_map(
            |(_, entry)| if let Entry::ShardLogs(shards) = entry { Some(shards) } else { None },
        )
        .filter(|shards| *shards > 0)
        .collect();
    match (arguments.shards, &all[..]) {
        (Some(shards), all) if all.contains(&shards) => Ok(shards),
        (Some(shards), _) => Err(format!("there is no directory shards-{shards}").into()),
        (None, [shards]) => Ok(*shards),
        (None, []) => Err("there are no logs of shards (shards-<number>) to recover from".into()),
        (None, _) => {
            Err("there are logs of several numbers of shards: a change of the number was \
                          interrupted. Choose with --shards N which ones to use; the others go to \
                          the trash"
                .into())
        }
    }
}

/// Returns the placement if it fits the logs: each group and each transactional id must be in the
/// partition, and in the log of the shard, in which this placement puts it.
fn fitting(data: &Path, placement: Placement) -> Result<Placement, Failure> {
    (0..placement.shards).try_for_each(|number| fits(data, placement, number))?;
    Ok(placement)
}

fn fits(data: &Path, placement: Placement, number: u32) -> Result<(), Failure> {
    let mut misfit = None;
    ShardFiles::open(data, placement.shards, number)?.each_batch(|partition, batch| {
        let Ok(records) = batch.records() else { return };
        if batch.header.is_control() {
            return;
        }
        for record in records.flatten() {
            let belongs = belonging(placement, partition, &record);
            if let Some((name, there)) = belongs
                && (there != partition || placement.log_shard(there) != number)
            {
                misfit = Some((name, partition));
            }
        }
    })?;
    let Some((name, partition)) = misfit else { return Ok(()) };
    let partition = topics::name_of(partition);
    let Placement { shards, offsets_partitions, transactions_partitions, .. } = placement;
    Err(format!(
        "{name} is in {partition} of shard {number}, and would not be there with these numbers: \
         shards {shards}, partitions of __consumer_offsets {offsets_partitions}, of \
         __transaction_state {transactions_partitions}. Give the right numbers with \
         --offsets-partitions N and --transactions-partitions N"
    )
    .into())
}

/// The partition to which a record belongs. Also the group or transactional id of the record, as
/// text for an error.
fn belonging(
    placement: Placement,
    partition: LogPartition,
    record: &Record<'_>,
) -> Option<(String, LogPartition)> {
    match InternalTopic::of(partition) {
        InternalTopic::Cluster => None,
        InternalTopic::ConsumerOffsets => {
            let read = GroupRecord::read(record.key?, None).ok()??;
            let group = read.group_id();
            Some((format!("group {group:?}"), placement.group_slot(group).log_partition()))
        }
        InternalTopic::TransactionState => {
            let read = TransactionRecord::read(record.key?, None).ok()??;
            let id = &*read.key.transactional_id;
            let there = placement.transactions_partition(id).log_partition();
            Some((format!("transactional id {id:?}"), there))
        }
        InternalTopic::ShareState => {
            let read = ShareRecord::read(record.key?, None).ok()??;
            let there = placement.slot_of_index(partition.index).share_state();
            Some((format!("a share partition of group {:?}", &*read.key.group_id), there))
        }
    }
}

/// The cluster id in the log of shard 0. The log contains it since the first change of the cluster.
fn recorded_cluster_id(data: &Path, shards: u32) -> Option<String> {
    let mut id = None;
    let files = ShardFiles::open(data, shards, CONTROLLER).ok()?;
    let read = files.each_batch(|partition, batch| {
        let Ok(records) = batch.records() else { return };
        for record in records.flatten().filter(|_| partition == topics::CLUSTER) {
            let read = record.key.and_then(|key| ClusterRecord::read(key, record.value).ok());
            if let Some(Some(ClusterRecord::ClusterId(_, Some(value)))) = read {
                id = Some(value.cluster_id.into_owned());
            }
        }
    });
    read.ok().and(id)
}

/// A log's entry for the stamp: the log's id, and its end (0 if the log cannot be read).
fn known(data: &Path, shards: u32, number: u32, ids: &mut dyn Ids) -> KnownLog {
    let recovered = read_log(&data.join(log_directory(shards, number)), |_| {});
    let found = recovered.ok().and_then(|it| Some((it.log_id()?, it.position())));
    match found {
        Some((id, end)) => KnownLog { id, end },
        None => KnownLog { id: first_id(data, shards, number).unwrap_or(ids_of(ids)), end: 0 },
    }
}

/// The log id in the first readable header of a damaged log.
fn first_id(data: &Path, shards: u32, number: u32) -> Option<u64> {
    let files = ShardFiles::open(data, shards, number).ok()?;
    let mut id = None;
    let read = files.each(
        |segment| {
            id = id.or(segment.header.map(|header| header.log_id));
            Ok(())
        },
        |_| Ok(()),
    );
    read.ok().and(id)
}

fn ids_of(ids: &mut dyn Ids) -> u64 {
    KnownLog::new(ids).id
}
