//! Start-up: a shard's log is read and replayed, and the shard goes on from there. Blocks; nothing
//! is served yet.

use super::durable::{self, GroupLog};
use super::group_configs::configure;
use super::{Common, Controller, ProducerIds, Shard, Stopping};
use crate::cluster::{ClusterImage, Endpoint};
use crate::config::{Config, compaction};
use crate::net::{Connections, Limits};
use crate::partitions::{Effects, Identity, Partitions};
use muster_codec::DecodeError;
use muster_codec::messages::NodeEndpoint;
use muster_codec::records::{ClusterRecord, GroupRecord};
use muster_coordinator::{Coordinator, Ids};
use muster_storage::layout::CLUSTER_PARTITION;
use muster_storage::limits::{BLOCK_BYTES_MAX, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use muster_storage::planted::{self, Fault};
use muster_storage::shard_log::recovery::segment_files;
use muster_storage::{
    Corruption, FileId, FileOp, LogConfig, PartitionError, Recovered, RecoveredBatch, Recovery,
    ShardLog,
};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::info;

/// File ids from here on belong to the partitions; those below to the shard's log.
const FIRST_PARTITION_FILE: FileId = FileId(1 << 16);

/// Files that the partitions of a shard keep open; others are opened when they are read.
const PARTITION_FILES_MAX: u32 = 4_096;

/// The top byte of the tokens of partitions.
const PARTITION_TOKENS: u8 = 2;

/// Requests that a connection may have in flight, and bytes of answers that it may leave unread.
const REQUESTS_IN_FLIGHT_MAX: usize = 1_000;
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// Why a shard cannot start.
#[derive(Debug)]
pub enum LoadError {
    Io {
        path: PathBuf,
        error: io::Error,
    },
    Corruption {
        directory: PathBuf,
        corruption: Corruption,
    },
    /// A record that this version cannot read: the log is of a later one.
    Record {
        directory: PathBuf,
        error: DecodeError,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "could not read {}: {error}", path.display()),
            Self::Corruption { directory, corruption } => {
                write!(f, "{}: {corruption}", directory.display())
            }
            Self::Record { directory, error } => {
                write!(f, "the log in {} holds what cannot be read: {error}", directory.display())
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// What a shard's log held.
pub struct Loaded {
    number: u32,
    common: Common,
    coordinator: Coordinator,
    recovered: Recovered,
    /// Of shard 0 only.
    image: Option<Arc<ClusterImage>>,
}

/// The directory of a shard's log, relative to the data directory. It is named by the number of
/// shards, so that logs can be written anew for another number beside the old ones.
pub fn log_directory(shards: u32, number: u32) -> PathBuf {
    PathBuf::from(format!("shards-{shards}")).join(number.to_string())
}

/// Reads and replays the log of shard `number`.
///
/// # Errors
/// What keeps the shard from starting.
pub fn load(data: &Path, common: &Common, number: u32) -> Result<Loaded, LoadError> {
    let directory = data.join(log_directory(common.placement.shards, number));
    let mut coordinator = Coordinator::new(common.config.coordinator());
    let mut image = ClusterImage::new(&common.config);
    let mut failed = None;
    let recovered = read_log(&directory, |batch| {
        let replayed = replay(batch, &mut coordinator, &mut image);
        failed = failed.or(replayed.err());
    })?;
    if let Some(error) = failed {
        return Err(LoadError::Record { directory, error });
    }
    info!("shard {number} replayed {} operations", recovered.position());
    let image = (number == 0).then(|| Arc::new(image));
    Ok(Loaded { number, common: common.clone(), coordinator, recovered, image })
}

/// Reads the segments of a log in order, giving each batch to `replay`.
///
/// # Errors
/// Files that cannot be read, or are damaged other than by a torn end.
pub fn read_log(
    directory: &Path,
    mut replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    let failed = |path: &Path, error| LoadError::Io { path: path.to_owned(), error };
    let names = file_names(directory).map_err(|error| failed(directory, error))?;
    let mut recovery = Recovery::default();
    for (sequence, name) in segment_files(names) {
        let path = directory.join(name);
        let bytes = std::fs::read(&path).map_err(|error| failed(&path, error))?;
        recovery.segment(sequence, &bytes, &mut replay).map_err(|corruption| {
            LoadError::Corruption { directory: directory.to_owned(), corruption }
        })?;
    }
    Ok(recovery.finish())
}

/// None if there is no such directory.
fn file_names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn replay(
    batch: RecoveredBatch<'_>,
    coordinator: &mut Coordinator,
    image: &mut ClusterImage,
) -> Result<(), DecodeError> {
    for record in batch.batch.records()? {
        let record = record?;
        let Some(key) = record.key else { continue };
        let is_tombstone = record.value.is_none();
        if planted::is(Fault::LostTombstone) && is_tombstone && key.len() % 4 == 1 {
            continue;
        }
        if batch.partition == CLUSTER_PARTITION {
            if let Some(record) = ClusterRecord::read(key, record.value)? {
                image.apply(&record);
            }
        } else if let Some(record) = GroupRecord::read(key, record.value)? {
            coordinator.replay(&record, 0);
        }
    }
    Ok(())
}

impl Loaded {
    /// The cluster that shard 0's log told of; None on other shards.
    pub fn image(&self) -> Option<&Arc<ClusterImage>> {
        self.image.as_ref()
    }

    /// The shard that goes on from what was loaded, and the file operations that it begins with.
    ///
    /// # Errors
    /// Partitions that cannot be read.
    pub fn into_shard(
        mut self,
        data: &Path,
        block_bytes: u32,
        image: Arc<ClusterImage>,
        mut ids: Box<dyn Ids>,
        now: i64,
    ) -> Result<(Shard, Vec<FileOp>), PartitionError> {
        let log_id = u64::from_be_bytes(*ids.next_id().0.last_chunk().unwrap_or(&[0; 8]));
        let mut log = ShardLog::new(self.log_config(block_bytes, log_id), self.recovered);
        let config = self.common.config.with_dynamic(&image, self.number);
        log.set_compaction(compaction(&config, &image, self.common.placement.shards));
        configure(&mut self.coordinator, &config, None, &image);
        self.coordinator.loaded(now);
        let mut partitions = Partitions::new(config.clone(), identity(&self.common, self.number));
        let mut effects = Effects::default();
        partitions.open(now, data, &image, &mut effects)?;
        let mut shard = Shard {
            number: self.number,
            connections: Connections::new(limits(&config)),
            groups: GroupLog::new(self.coordinator, log, self.common.placement),
            partitions,
            controller: self.image.map(Controller::new),
            producer_ids: ProducerIds::default(),
            common: self.common,
            image,
            ids,
            now,
            commands: Vec::new(),
            config,
            sendable: Vec::new(),
            waiting_for_log: VecDeque::new(),
            next_idle_sweep: now,
            stopping: Stopping::No,
        };
        shard.open_offsets_topic();
        Ok((shard, effects.ops))
    }

    fn log_config(&self, block_bytes: u32, log_id: u64) -> LogConfig {
        LogConfig {
            dir: log_directory(self.common.placement.shards, self.number),
            log_id,
            segment_bytes: self.segment_bytes(),
            block_bytes,
            linger_ms: self.common.config.group_coordinator_append_linger_ms,
            operation_bytes_max: self.common.log_sizes.operation_bytes_max,
            open_bytes_max: self.common.log_sizes.open_bytes_max,
            first_file_id: 0,
            token_tag: durable::LOG_TOKENS,
            ..Default::default()
        }
    }

    /// `offsets.topic.segment.bytes`, as near to it as the log can have them.
    fn segment_bytes(&self) -> u32 {
        if let Some(segment_bytes) = self.common.log_sizes.segment_bytes {
            return segment_bytes;
        }
        let wanted = self.common.config.offsets_topic_segment_bytes.unsigned_abs();
        wanted.next_multiple_of(BLOCK_BYTES_MAX).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }
}

/// What the connections of a shard are held to.
pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        connections: config.max_connections.unsigned_abs() as usize,
        connections_per_ip: config.max_connections_per_ip.unsigned_abs() as usize,
        requests_in_flight: REQUESTS_IN_FLIGHT_MAX,
        output_bytes: OUTPUT_BYTES_MAX,
    }
}

fn identity(common: &Common, number: u32) -> Identity {
    let endpoint = |(number, endpoint): (usize, &Endpoint)| NodeEndpoint {
        node_id: number as i32,
        host: endpoint.host.clone().into(),
        port: i32::from(endpoint.port),
        rack: None,
    };
    Identity {
        shard: number,
        placement: common.placement,
        endpoints: common.endpoints.iter().enumerate().map(endpoint).collect(),
        first_file: FIRST_PARTITION_FILE,
        open_files_max: PARTITION_FILES_MAX,
        token_tag: PARTITION_TOKENS,
    }
}
