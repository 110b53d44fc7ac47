//! `muster log export`: writes partitions as Kafka's directories and segment files. The batches are
//! those that a fetch would return, in Kafka's format. Share state is exported as snapshots.

mod kafka_partition;
mod share_state;

use crate::Verdict;
use crate::args::Export;
use crate::cluster;
use crate::damage::Damage;
use crate::open_read_only;
use crate::segment_file::SegmentFile;
use kafka_partition::KafkaPartition;
use muster_server::Failure;
use muster_server::cluster::Topic;
use muster_server::partitions::PartitionId;
use muster_server::partitions::layout::directory as partition_directory;
use muster_server::partitions::{partition_files, recovered, recovery_points};
use muster_server::shard::{log_directory, read_log};
use muster_server::topics::InternalTopic;
use muster_storage::partition_log::{START_OFFSET_FILE, read_start_offset};
use muster_storage::{LogPartition, RecoveredBatch, RecoveryPoint};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

/// When this number of bytes is buffered, they are written.
const BUFFERED_BYTES_MAX: usize = 64 << 20;

/// The name of Kafka's file of log start offsets.
const START_OFFSETS_FILE: &str = "log-start-offset-checkpoint";

/// Writes partitions to a directory that contains none of them yet.
///
/// # Errors
/// The path is not a data directory, or a server has it open; the logs are damaged; a topic does
/// not exist; files exist already or cannot be written.
pub(super) fn export(arguments: &Export, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let directory = open_read_only(&arguments.data)?;
    let (data, to) = (&directory.path, &arguments.to);
    let image = cluster::image(data, &directory.meta)?;
    let topics = arguments.topics.iter().map(|name| {
        image.topic(name).ok_or_else(|| Failure::from(format!("there is no topic {name}")))
    });
    let topics = topics.collect::<Result<Vec<_>, _>>()?;
    fs::create_dir_all(to).map_err(|error| format!("could not make {}: {error}", to.display()))?;
    let mut start_offsets = BTreeMap::new();
    for topic in topics {
        let shards = directory.meta.shards();
        let written = match InternalTopic::of_id(topic.id) {
            Some(InternalTopic::ShareState) => share_state::export(data, shards, topic, to)?,
            Some(
                InternalTopic::Cluster
                | InternalTopic::ConsumerOffsets
                | InternalTopic::TransactionState,
            ) => internal_topic(data, shards, topic, to)?,
            None => user_topic(data, topic, to)?,
        };
        for partition in written {
            writeln!(out, "{partition}")?;
            let name = (partition.topic().to_owned(), partition.index());
            start_offsets.insert(name, partition.start_offset());
        }
    }
    start_offsets.retain(|_, offset| *offset > 0);
    if !start_offsets.is_empty() {
        write_start_offsets(to, &start_offsets)?;
    }
    Ok(Verdict::Good)
}

/// Exports all partitions of an internal topic, from the logs of all shards.
fn internal_topic(
    data: &Path,
    shards: u32,
    topic: &Topic,
    to: &Path,
) -> Result<Vec<KafkaPartition>, Failure> {
    let directories: Vec<_> =
        (0..shards).map(|number| data.join(log_directory(shards, number))).collect();
    // Reads the logs first, so that damage is found before anything is written.
    directories.iter().try_for_each(|directory| read_log(directory, |_| {}).map(drop))?;
    let all = (0..topic.partitions)
        .map(|index| KafkaPartition::create(to, &topic.name, index, topic.id, 0));
    let mut all = all.collect::<Result<Vec<_>, _>>()?;
    let (mut buffered, mut failed) = (0, None);
    for directory in directories {
        read_log(&directory, |batch: RecoveredBatch<'_>| {
            let index = index_in(topic, batch.partition).filter(|_| failed.is_none());
            let Some(partition) = index.and_then(|index| all.get_mut(index as usize)) else {
                return;
            };
            failed = partition.push(batch.batch.header, batch.batch.bytes).err();
            buffered += batch.batch.bytes.len();
            if failed.is_none() && buffered > BUFFERED_BYTES_MAX {
                failed = all.iter_mut().try_for_each(KafkaPartition::flush).err();
                buffered = 0;
            }
        })?;
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    all.iter_mut().try_for_each(KafkaPartition::flush)?;
    Ok(all)
}

/// The partition's number in an internal topic. None if it belongs to another topic.
fn index_in(topic: &Topic, partition: LogPartition) -> Option<i32> {
    let internal = InternalTopic::of(partition);
    (topic.id == internal.id()).then_some(partition.index as i32)
}

fn user_topic(data: &Path, topic: &Topic, to: &Path) -> Result<Vec<KafkaPartition>, Failure> {
    let points = recovery_points(data)?;
    let partitions = (0..topic.partitions).map(|index| {
        let id = PartitionId { topic: topic.id, index };
        let directory = data.join(partition_directory(id));
        user_partition(&directory, topic, index, points.get(&id).copied(), to)
    });
    partitions.collect()
}

/// Exports the segments of a partition. Leaves out the torn end that recovery would cut off.
fn user_partition(
    directory: &Path,
    topic: &Topic,
    index: i32,
    point: Option<RecoveryPoint>,
    to: &Path,
) -> Result<KafkaPartition, Failure> {
    let found = recovered(directory, point)
        .map_err(|error| format!("{} {}: {error}", topic.name, directory.display()))?;
    let is_torn = found.torn().is_some();
    let start_offset = fs::read(directory.join(START_OFFSET_FILE)).unwrap_or_default();
    let start_offset = found.log_start(read_start_offset(&start_offset).unwrap_or(0));
    let segments = partition_files(directory)?.segments;
    let first = segments.first().map_or(start_offset, |(base_offset, _)| *base_offset);
    let mut partition = KafkaPartition::create(to, &topic.name, index, topic.id, first)?;
    partition.begin_at(start_offset);
    for (base_offset, name) in segments {
        partition.begin_segment(base_offset)?;
        let mut file = SegmentFile::open(directory.join(name))?;
        loop {
            match file.next() {
                Ok(Some(located)) => partition.push(located.batch.header, located.batch.bytes)?,
                Ok(None) => break,
                Err(failure) if is_torn && failure.is::<Damage>() => {
                    partition.flush()?;
                    return Ok(partition);
                }
                Err(failure) => return Err(failure),
            }
            partition.flush_if_longer(BUFFERED_BYTES_MAX)?;
        }
    }
    partition.flush()?;
    Ok(partition)
}

/// Writes the log start offsets in the format of Kafka's `OffsetCheckpointFile`.
fn write_start_offsets(to: &Path, offsets: &BTreeMap<(String, i32), i64>) -> Result<(), Failure> {
    let mut text = format!("0\n{}\n", offsets.len());
    for ((topic, partition), offset) in offsets {
        text += &format!("{topic} {partition} {offset}\n");
    }
    let path = to.join(START_OFFSETS_FILE);
    let written = fs::File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    Ok(written.map_err(|error| format!("could not write {}: {error}", path.display()))?)
}
