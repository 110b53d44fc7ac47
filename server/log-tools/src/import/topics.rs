//! Imports topics with Kafka's names, ids and offsets. Their records are imported only on request.

use super::failed;
use super::groups::{control_type, is_marker};
use super::kafka_dirs::{KafkaDirs, start_offset, topic_id};
use super::kafka_partition::KafkaPartition;
use super::metadata::{self, Configs, Metadata};
use crate::args::Import;
use crate::damage::Damage;
use crate::decompress;
use crate::recovery_points;
use crate::segment_file::Located;
use muster_codec::Uuid;
use muster_codec::record_batch::{Batch, set_partition_leader_epoch};
use muster_codec::records::{
    ClusterRecord, ProducerIdsKey, ProducerIdsValue, TopicKey, TopicValue,
};
use muster_coordinator::Ids;
use muster_server::Failure;
use muster_server::cluster::limits::{PARTITIONS_MAX, PARTITIONS_PER_TOPIC_MAX};
use muster_server::cluster::{check_topic_name, config_record, is_reserved};
use muster_server::config::Config;
use muster_server::partitions::layout::directory as partition_directory;
use muster_server::partitions::{PartitionId, RecoveryPoints, recovered};
use muster_server::placement::{Placement, Slot};
use muster_server::random::RandomIds;
use muster_server::topics::InternalTopic;
use muster_storage::RecoveryPoint;
use muster_storage::partition_log::{START_OFFSET_FILE, new_start_offset};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Topics {
    topics: Vec<Topic>,
    /// The configs of topics, groups and client metrics subscriptions.
    configs: Configs,
    notes: Vec<String>,
    /// The highest producer id in the imported records.
    producer_id: Cell<i64>,
}

#[derive(Debug)]
struct Topic {
    name: String,
    id: Uuid,
    partitions: u32,
    with_data: bool,
}

/// A partition to import.
pub(super) struct Partition {
    id: PartitionId,
    from: KafkaPartition,
    /// The partition's log start offset.
    start: i64,
    with_data: bool,
}

impl Topics {
    /// Reads the topics.
    ///
    /// # Errors
    /// Partitions are missing or too many, a topic's name or id is not valid, two topics have the
    /// same id, a topic of the arguments does not exist, Kafka's files are damaged or have an open
    /// transaction, or the file system fails.
    pub(super) fn read(kafka: &KafkaDirs, arguments: &Import) -> Result<Self, Failure> {
        let mut topics = Vec::new();
        let mut ids = BTreeSet::new();
        let mut new_ids = RandomIds::new()?;
        let is_internal = |name: &str| InternalTopic::of_name(name).is_some() || is_reserved(name);
        for name in kafka.topics().into_iter().filter(|name| !is_internal(name)) {
            let partitions = kafka.partition_count(name);
            if i64::from(partitions) > PARTITIONS_PER_TOPIC_MAX {
                return Err(format!("topic {name} has {partitions} partitions: too many").into());
            }
            if !arguments.partial {
                kafka.require_all(name, partitions)?;
            }
            check_topic_name(name).map_err(|what| format!("topic {name:?}: {what}"))?;
            let id = id_of(kafka, name)?.unwrap_or_else(|| new_ids.next_id());
            if !ids.insert(id) {
                return Err(format!("topic {name} has the id {id} of another topic").into());
            }
            let with_data = arguments.with_data || arguments.data_of.iter().any(|it| it == name);
            topics.push(Topic { name: name.to_owned(), id, partitions, with_data });
        }
        let all: i64 = topics.iter().map(|topic: &Topic| i64::from(topic.partitions)).sum();
        if all > PARTITIONS_MAX {
            return Err(format!("{all} partitions are more than muster's {PARTITIONS_MAX}").into());
        }
        let unknown = |name: &&String| !topics.iter().any(|topic| topic.name == **name);
        if let Some(unknown) = arguments.data_of.iter().find(unknown) {
            return Err(format!("there is no topic {unknown}").into());
        }
        let mut notes = Vec::new();
        let found = Metadata::read(kafka)?;
        if found.is_none() && !topics.is_empty() {
            notes.push(NO_METADATA.to_owned());
        }
        let mut configs = found.unwrap_or_default();
        let has_topic = |name: &str| topics.iter().any(|topic| topic.name == name);
        notes.extend(metadata::retain_valid(&mut configs, &Config::default(), has_topic));
        let topics = Self { topics, configs, notes, producer_id: Cell::new(-1) };
        topics.find_producers(kafka)?;
        Ok(topics)
    }

    /// Finds the highest producer id and rejects open transactions, before anything is written.
    fn find_producers(&self, kafka: &KafkaDirs) -> Result<(), Failure> {
        for topic in self.topics.iter().filter(|topic| topic.with_data) {
            for (_, replicas) in kafka.of_topic(&topic.name) {
                let partition = KafkaPartition::longest(replicas, kafka.may_be_torn)?;
                let mut open = BTreeSet::new();
                partition.each(|path, located| {
                    let header = located.batch.header;
                    self.producer_id.set(self.producer_id.get().max(header.producer_id));
                    note_transaction(path, located, &mut open)
                })?;
                if !open.is_empty() {
                    let directory = partition.directory.display();
                    return Err(format!("{directory}: {OPEN_TRANSACTION}").into());
                }
            }
        }
        Ok(())
    }

    /// The slot of a partition. None if the partition is not imported.
    pub(super) fn slot(&self, id: Uuid, partition: i32, placement: Placement) -> Option<Slot> {
        let topic = self.topics.iter().find(|topic| topic.id == id)?;
        let is_there = (0..topic.partitions as i32).contains(&partition);
        is_there.then(|| placement.partition_slot(id, partition))
    }

    /// The first records of the cluster's log: topics, configs, and the next producer id.
    pub(super) fn records(&self, placement: Placement) -> impl Iterator<Item = ClusterRecord<'_>> {
        let topics = self.topics.iter().map(move |topic| {
            let (name, partitions) = (topic.name.as_str().into(), topic.partitions as i32);
            let slots = (0..partitions).map(|it| placement.partition_slot(topic.id, it));
            let slots = slots.map(|Slot(slot)| slot as i32).collect();
            let value = TopicValue { name, partitions, slots };
            ClusterRecord::Topic(TopicKey { topic_id: topic.id }, Some(value))
        });
        let configs = self.configs.iter().flat_map(|((resource_type, resource), overrides)| {
            overrides.iter().map(|(name, value)| {
                config_record(*resource_type, resource, name, Some(value.clone()))
            })
        });
        let largest = self.producer_id.get();
        let producers = (largest >= 0).then(|| {
            let next_producer_id = largest.saturating_add(1);
            ClusterRecord::ProducerIds(
                ProducerIdsKey {},
                Some(ProducerIdsValue { next_producer_id }),
            )
        });
        topics.chain(configs).chain(producers)
    }

    /// Writes the partitions. A partition that is imported without records begins where Kafka's
    /// partition ends. All data that is written here is durable before the data directory is
    /// renamed, so the recovery points include all of it.
    ///
    /// # Errors
    /// Kafka's files are damaged, or the file system fails.
    pub(super) fn write_partitions(&self, data: &Path, kafka: &KafkaDirs) -> Result<(), Failure> {
        let mut points = RecoveryPoints::new();
        self.each_partition(kafka, |Partition { id, from, start, with_data }| {
            let to = data.join(partition_directory(*id));
            fs::create_dir_all(&to).map_err(failed("make", &to))?;
            if *with_data {
                copy(from, &to)?;
            }
            if *start > 0 {
                let path = to.join(START_OFFSET_FILE);
                fs::write(&path, new_start_offset(*start)).map_err(failed("write", &path))?;
            }
            points.extend(point(&to, *start)?.map(|point| (*id, point)));
            Ok(())
        })?;
        recovery_points::write(data, points)
    }

    /// Passes each partition to `visit`.
    ///
    /// # Errors
    /// Kafka's files are damaged, the file system fails, or `visit` fails.
    pub(super) fn each_partition(
        &self,
        kafka: &KafkaDirs,
        mut visit: impl FnMut(&Partition) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for Topic { name, id, with_data, .. } in &self.topics {
            for (index, replicas) in kafka.of_topic(name) {
                let from = KafkaPartition::longest(replicas, kafka.may_be_torn)?;
                let start = if *with_data {
                    start_offset(&from.directory, name, index)?
                } else {
                    from.end_offset()?
                };
                let id = PartitionId { topic: *id, index };
                visit(&Partition { id, from, start, with_data: *with_data })?;
            }
        }
        Ok(())
    }

    /// Notes about the imported topics.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let empty = self.topics.iter().filter(|topic| !topic.with_data).count();
        let empty = (empty > 0).then(|| {
            format!(
                "{empty} topics have no records, and begin where they ended in Kafka: groups \
                 that had not read to the end continue with new records"
            )
        });
        empty.into_iter().chain(self.notes.iter().cloned())
    }
}

impl fmt::Display for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions: u32 = self.topics.iter().map(|topic| topic.partitions).sum();
        write!(f, "{} topics of {partitions} partitions", self.topics.len())
    }
}

const NO_METADATA: &str = "the configs of topics and groups are not imported: \
    none of the directories has __cluster_metadata, which is on the controllers";

/// The topic id, which must be the same in all directories of the topic's partitions.
fn id_of(kafka: &KafkaDirs, name: &str) -> Result<Option<Uuid>, Failure> {
    let mut found: Option<(Uuid, &PathBuf)> = None;
    for replica in kafka.of_topic(name).flat_map(|(_, replicas)| replicas) {
        match (topic_id(replica)?, found) {
            (Some(id), Some((before, path))) if id != before => {
                let (path, other) = (path.display(), replica.display());
                return Err(format!("{path} and {other} belong to different topics").into());
            }
            (Some(id), None) => found = Some((id, replica)),
            _ => {}
        }
    }
    Ok(found.map(|(id, _)| id))
}

const OPEN_TRANSACTION: &str = "a transaction has no end, so that consumers of committed records \
    would wait for it for ever; end it in Kafka, or import the topic without records";

/// Updates the set of producers that have an open transaction after this batch.
fn note_transaction(
    path: &Path,
    located: &Located<'_>,
    open: &mut BTreeSet<i64>,
) -> Result<(), Failure> {
    let Located { at, batch } = located;
    let producer = batch.header.producer_id;
    if batch.header.is_control() {
        if is_end(batch).map_err(|what| Damage::new(path, *at, what))? {
            open.remove(&producer);
        }
    } else if batch.header.is_transactional() {
        open.insert(producer);
    }
    Ok(())
}

/// Whether a control batch ends a transaction. A batch of another type does not, nor does a batch
/// whose record Kafka's compaction has removed.
fn is_end(batch: &Batch<'_>) -> Result<bool, String> {
    let mut buffer = Vec::new();
    let Some(record) = decompress::records(batch, &mut buffer)?.next() else { return Ok(false) };
    let record = record.map_err(|error| error.to_string())?;
    Ok(is_marker(control_type(record.key.unwrap_or_default())?))
}

/// The recovery point of a written partition; None if it has no segments. Kafka's compaction may
/// have left gaps in the offsets. The point allows gaps before `whole_from`, the end of the last
/// gap.
fn point(directory: &Path, log_start: i64) -> Result<Option<RecoveryPoint>, Failure> {
    let written =
        recovered(directory, None).map_err(|error| format!("{}: {error}", directory.display()))?;
    let whole_from = written.gaps().last().map_or(0, |gap| gap.end);
    Ok(written.end().map(|end| RecoveryPoint { end, whole_from, log_start }))
}

/// Copies the segments and sets the leader epoch of all records to 0.
fn copy(from: &KafkaPartition, to: &Path) -> Result<(), Failure> {
    for (_, name) in &from.segments {
        let path = to.join(name);
        File::create_new(&path).map_err(failed("write", &path))?;
    }
    let mut writing: Option<(PathBuf, BufWriter<File>)> = None;
    let mut copy = Vec::new();
    from.each(|path, located| {
        let path = to.join(path.file_name().unwrap_or_default());
        if writing.as_ref().is_none_or(|(it, _)| *it != path) {
            if let Some((path, mut done)) = writing.take() {
                done.flush().map_err(failed("write", &path))?;
            }
            let opened =
                File::options().append(true).open(&path).map_err(failed("write", &path))?;
            writing = Some((path.clone(), BufWriter::new(opened)));
        }
        copy.clear();
        copy.extend_from_slice(located.batch.bytes);
        set_partition_leader_epoch(&mut copy, 0);
        match &mut writing {
            Some((_, file)) => file.write_all(&copy).map_err(failed("write", &path)),
            None => Ok(()),
        }
    })?;
    match writing {
        Some((path, mut file)) => file.flush().map_err(failed("write", &path)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::record_batch::{BatchBuilder, EndTxnMarker, Producer, TransactionOutcome};

    /// The producers with an open transaction after these batches.
    fn open_after(batches: &[Vec<u8>]) -> BTreeSet<i64> {
        let mut open = BTreeSet::new();
        for bytes in batches {
            let located = Located { at: 0, batch: Batch::read(bytes).unwrap() };
            note_transaction(Path::new("t-0"), &located, &mut open).unwrap();
        }
        open
    }

    fn records(producer: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::default();
        builder.append(0, &(&b"k"[..], Some(&b"v"[..])));
        builder.seal_in_transaction(0, 0, Producer { id: producer, epoch: 0 }).to_vec()
    }

    fn end(producer: i64, outcome: TransactionOutcome) -> Vec<u8> {
        EndTxnMarker { outcome, coordinator_epoch: 0 }.batch(producer, 0, 0).to_vec()
    }

    #[test]
    fn only_transactions_without_an_end_are_open() {
        let (abort, commit) = (TransactionOutcome::Abort, TransactionOutcome::Commit);
        let ended = [records(1), records(2), end(1, abort), end(2, commit)];
        assert_eq!(open_after(&ended), BTreeSet::new());
        assert_eq!(open_after(&ended[..3]), BTreeSet::from([2]));
        let again = [records(1), end(1, abort), records(1)];
        assert_eq!(open_after(&again), BTreeSet::from([1]));
    }
}
