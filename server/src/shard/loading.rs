//! Start-up: opens a snapshot if there is one, reads and replays the log behind it, and makes the
//! shard. Blocks; no client is served yet.

use super::durable::GroupLog;
use super::group_configs::configure;
use super::known_log::log_id;
use super::names::{FIRST_LOG_FILE, FIRST_PARTITION_FILE, LOG_TOKENS, PARTITION_TOKENS};
use super::snapshot::read_cluster;
use super::{
    Common, Controller, DeletedTopics, KnownLog, LoadError, LogCheck, ProducerIds, RunQueue, Scans,
    Shard, Snapshots, Stopping,
};
use crate::clock::Times;
use crate::cluster::{ClusterImage, Endpoint, OfflinePartitions};
use crate::config::{Config, compaction};
use crate::logging::Throttle;
use crate::net::{Connections, INPUT_BYTES_DEFAULT, Limits, UNREAD_BYTES_MAX};
use crate::partitions::{Effects, Identity, Partitions};
use crate::placement::CONTROLLER;
use crate::trash;
use muster_codec::DecodeError;
use muster_codec::messages::NodeEndpoint;
use muster_codec::record_batch::Record;
use muster_codec::records::{ClusterRecord, GroupRecord};
use muster_coordinator::{Coordinator, Ids, SnapshotBytes};
use muster_storage::injected::{self, Fault};
use muster_storage::limits::BLOCK_BYTES_MAX;
use muster_storage::shard_log::recovery::{segment_file_name, segment_files};
use muster_storage::snapshot::{
    SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME, Snapshot, SnapshotHeader, SnapshotRefusal,
};
use muster_storage::{
    Cut, FileOp, KnownSegments, LogConfig, LogPartition, Recovered, RecoveredBatch, Recovery,
    ShardLog,
};
use muster_uring::MappedFile;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tracing::{info, warn};

/// Requests that a connection may have in flight, and bytes of answers that it may leave unread.
const REQUESTS_IN_FLIGHT_MAX: usize = 1_000;
const OUTPUT_BYTES_MAX: usize = 4 << 20;

/// The contents of a shard's log.
pub struct Loaded {
    number: u32,
    common: Common,
    coordinator: Coordinator,
    recovered: Recovered,
    /// On shard 0 only.
    image: Option<Arc<ClusterImage>>,
    /// The snapshot that was used, if there was one.
    snapshot: Option<SnapshotHeader>,
    /// The bytes of the log behind it.
    replayed_bytes: u64,
}

/// The directory of a shard's log, relative to the data directory. Its name has the number of
/// shards, so that logs can be rewritten for another number beside the old ones.
pub fn log_directory(shards: u32, number: u32) -> PathBuf {
    PathBuf::from(format!("shards-{shards}")).join(number.to_string())
}

/// Reads and replays the log of shard `number`, from the end of its snapshot. An unusable snapshot
/// costs a line in the server's log, and the time to replay all of the shard's; a snapshot that
/// shows that the log lost operations keeps the shard from starting.
///
/// # Errors
/// The log is damaged, or a file cannot be read.
pub fn load(data: &Path, common: &Common, number: u32) -> Result<Loaded, LoadError> {
    let began = Instant::now();
    let directory = data.join(log_directory(common.placement.shards, number));
    let snapshot = open_snapshot(&directory, common).and_then(|start| match start {
        Some(start) => replay_log(&directory, start)?.checked(&directory).map(Some),
        None => Ok(None),
    });
    let start = match snapshot {
        Ok(Some(start)) => start,
        Ok(None) => replay_log(&directory, Start::new(common))?,
        Err(Unusable::Snapshot(why)) => {
            let path = directory.join(SNAPSHOT_FILE_NAME);
            warn!("{} is not used, the log is replayed: {why}", path.display());
            replay_log(&directory, Start::new(common))?
        }
        Err(Unusable::Log(error)) => return Err(error),
    };
    let Start { coordinator, mut image, recovered, .. } = start;
    if let Some(known) = common.known_log(number) {
        known.check(&directory, &recovered)?;
    }
    image.loaded_at(recovered.position());
    info!(
        "shard {number} is at operation {}: {} of {} groups unloaded, {} records of {} bytes \
         replayed, in {} ms",
        recovered.position(),
        coordinator.unloaded_groups(),
        coordinator.groups(),
        start.replayed_records,
        start.replayed_bytes,
        began.elapsed().as_millis(),
    );
    Ok(Loaded {
        number,
        common: common.clone(),
        coordinator,
        recovered,
        image: (number == CONTROLLER).then(|| Arc::new(image)),
        snapshot: start.snapshot,
        replayed_bytes: start.replayed_bytes,
    })
}

/// Why a start with a snapshot failed.
enum Unusable {
    /// The start is to be tried without the snapshot.
    Snapshot(String),
    Log(LoadError),
}

impl From<LoadError> for Unusable {
    fn from(error: LoadError) -> Self {
        Self::Log(error)
    }
}

/// The state of a shard while its log is read.
struct Start {
    coordinator: Coordinator,
    image: ClusterImage,
    /// Segments that need not be read.
    known: KnownSegments,
    snapshot: Option<SnapshotHeader>,
    recovered: Recovered,
    replayed_bytes: u64,
    replayed_records: u64,
}

impl Start {
    /// An empty state.
    fn new(common: &Common) -> Self {
        Self {
            coordinator: Coordinator::new(common.config.coordinator()),
            image: ClusterImage::new(&common.config),
            known: KnownSegments::default(),
            snapshot: None,
            recovered: Recovered::default(),
            replayed_bytes: 0,
            replayed_records: 0,
        }
    }

    /// Applies a batch, unless all of it is in the snapshot.
    fn replay(&mut self, batch: RecoveredBatch<'_>) -> Result<(), DecodeError> {
        let RecoveredBatch { partition, batch, position } = batch;
        if self.snapshot.is_some_and(|header| position <= header.from) {
            return Ok(());
        }
        self.replayed_bytes += batch.bytes.len() as u64;
        self.replayed_records += u64::from(batch.header.records_count.unsigned_abs());
        let mut records = batch.records()?.filter(|record| !is_lost(record));
        match partition {
            LogPartition::Cluster => records.try_for_each(|record| self.replay_cluster(&record?)),
            LogPartition::ConsumerOffsets(_) => self.coordinator.replay_batch(records, position),
        }
    }

    fn replay_cluster(&mut self, record: &Record<'_>) -> Result<(), DecodeError> {
        let read = record.key.map(|key| ClusterRecord::read(key, record.value)).transpose()?;
        read.flatten().iter().for_each(|record| self.image.apply(record));
        Ok(())
    }

    /// Checks that snapshot and log belong together, when all of the log is read; loads groups with
    /// members.
    fn checked(mut self, directory: &Path) -> Result<Self, Unusable> {
        let Some(header) = self.snapshot else { return Ok(self) };
        self.coordinator.load_members();
        belongs_to(&header, directory, &self.recovered)?;
        let refuse = |why: &dyn fmt::Display| Err(Unusable::Snapshot(why.to_string()));
        if self.recovered.dropped_position() > header.from {
            return refuse(&SnapshotRefusal::LogIsAhead);
        }
        match self.coordinator.damage() {
            Some(damage) => refuse(damage),
            None => Ok(self),
        }
    }
}

/// A snapshot is named once the log is flushed up to the newest position in it: a shorter log has
/// lost operations.
fn belongs_to(
    header: &SnapshotHeader,
    directory: &Path,
    found: &Recovered,
) -> Result<(), LoadError> {
    match found.log_id() {
        None if injected::is(Fault::StartDeletes) => Ok(()),
        None => Err(LoadError::Missing { directory: directory.to_owned() }),
        Some(id) if id != header.log_id => {
            Err(LoadError::OtherSnapshot { path: directory.join(SNAPSHOT_FILE_NAME) })
        }
        Some(_) if found.position() < header.newest && !injected::is(Fault::SilentCut) => {
            let (directory, when) = (directory.to_owned(), "when its snapshot was named");
            Err(LoadError::short(directory, found, header.newest, when))
        }
        Some(_) => Ok(()),
    }
}

/// See [`Fault::LostTombstone`].
fn is_lost(record: &Result<Record<'_>, DecodeError>) -> bool {
    let is_such = |record: &Record<'_>| {
        record.value.is_none() && record.key.is_some_and(|key| key.len() % 4 == 1)
    };
    injected::is(Fault::LostTombstone) && record.as_ref().is_ok_and(is_such)
}

/// The state of a snapshot, if there is one.
fn open_snapshot(directory: &Path, common: &Common) -> Result<Option<Start>, Unusable> {
    let unusable = |why: &dyn fmt::Display| Unusable::Snapshot(why.to_string());
    let path = |name| directory.join(name);
    let (path, aside) = (path(SNAPSHOT_FILE_NAME), path(SNAPSHOT_DAMAGED_FILE_NAME));
    let file = match MappedFile::open(&path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| unusable(&error))?,
    };
    begin_with(Arc::new(file), common).map(Some)
}

/// The state of a snapshot, from the bytes of its file.
fn begin_with(bytes: SnapshotBytes, common: &Common) -> Result<Start, Unusable> {
    let unusable = |why: &dyn fmt::Display| Unusable::Snapshot(why.to_string());
    let file = (*bytes).as_ref();
    let Snapshot { header, groups, cluster, log } =
        Snapshot::open(file).map_err(|why| unusable(&why))?;
    let mut start = Start::new(common);
    start.snapshot = Some(header);
    start.known = KnownSegments::read(&file[log]).map_err(|error| unusable(&error))?;
    read_cluster(&file[cluster], &mut start.image).map_err(|error| unusable(&error))?;
    let opened = start.coordinator.open_snapshot(Arc::clone(&bytes), groups, header.groups.crc);
    opened.map_err(|damage| unusable(&damage))?;
    Ok(start)
}

/// The groups that a start would have from a snapshot and the log behind it, all loaded. Nothing is
/// changed.
///
/// # Errors
/// The reason why a start would not use the snapshot, or would find it damaged later.
pub(crate) fn groups_of_snapshot(
    directory: &Path,
    bytes: Vec<u8>,
    common: &Common,
) -> Result<Coordinator, String> {
    let words = |unusable| match unusable {
        Unusable::Snapshot(why) => why,
        Unusable::Log(error) => error.to_string(),
    };
    let start = begin_with(Arc::new(bytes), common).map_err(words)?;
    let start = replay_log(directory, start).map_err(|error| error.to_string())?;
    let mut coordinator = start.checked(directory).map_err(words)?.coordinator;
    coordinator.load_all();
    match coordinator.damage() {
        Some(damage) => Err(damage.to_string()),
        None => Ok(coordinator),
    }
}

/// Replays the log behind the state that `start` has.
fn replay_log(directory: &Path, mut start: Start) -> Result<Start, LoadError> {
    let recovery = Recovery::knowing(std::mem::take(&mut start.known));
    let mut failed = None;
    start.recovered = read_segments(directory, recovery, |batch| {
        failed = failed.take().or(start.replay(batch).err());
    })?;
    match failed {
        Some(error) => Err(LoadError::Record { directory: directory.to_owned(), error }),
        None => Ok(start),
    }
}

/// Reads the segments of a log in order, and passes each batch to `replay`.
///
/// # Errors
/// Files cannot be read, or are damaged other than by a torn end.
pub fn read_log(
    directory: &Path,
    replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    read_segments(directory, Recovery::default(), replay)
}

/// Like [`read_log`], for a log that the stamp names.
///
/// # Errors
/// As for [`read_log`], or the log is not the known one.
pub(crate) fn read_known_log(
    directory: &Path,
    known: &KnownLog,
    replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    let recovered = read_log(directory, replay)?;
    known.check(directory, &recovered)?;
    Ok(recovered)
}

fn read_segments(
    directory: &Path,
    mut recovery: Recovery,
    mut replay: impl FnMut(RecoveredBatch<'_>),
) -> Result<Recovered, LoadError> {
    let failed = |path: &Path, error| LoadError::Io { path: path.to_owned(), error };
    let names = file_names(directory).map_err(|error| failed(directory, error))?;
    let mut bytes = Vec::new();
    for (sequence, name) in segment_files(names) {
        let path = directory.join(name);
        let mut file = File::open(&path).map_err(|error| failed(&path, error))?;
        let len = read_head(&file, &mut bytes).map_err(|error| failed(&path, error))?;
        if recovery.known_segment(sequence, &bytes, len) {
            continue;
        }
        file.read_to_end(&mut bytes).map_err(|error| failed(&path, error))?;
        recovery.segment(sequence, &bytes, &mut replay).map_err(|corruption| {
            LoadError::Corruption { directory: directory.to_owned(), corruption }
        })?;
    }
    Ok(recovery.finish())
}

/// Reads the first block of a file; returns the length of the file.
fn read_head(file: &File, bytes: &mut Vec<u8>) -> io::Result<u64> {
    bytes.clear();
    file.take(u64::from(BLOCK_BYTES_MAX)).read_to_end(bytes)?;
    Ok(file.metadata()?.len())
}

/// The names in a directory; none if it does not exist.
fn file_names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

impl Loaded {
    /// The image of the cluster in shard 0's log; None on other shards.
    pub fn image(&self) -> Option<&Arc<ClusterImage>> {
        self.image.as_ref()
    }

    /// The image for a shard that is loaded again: the previous one, except on shard 0, whose log
    /// may have more changes. These are new to all shards.
    pub fn image_after(&mut self, before: &Arc<ClusterImage>) -> Arc<ClusterImage> {
        match &mut self.image {
            Some(image) => {
                Arc::make_mut(image).changed_since(before);
                image.clone()
            }
            None => before.clone(),
        }
    }

    /// Logs a torn end of the log, and keeps its bytes in the trash: the log overwrites them. `now`
    /// is the wall clock's.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn keep_cut(&self, data: &Path, now: i64) -> Result<(), LoadError> {
        let Some(Cut { segment, at, bytes }) = self.recovered.cut() else { return Ok(()) };
        let directory = log_directory(self.common.placement.shards, self.number);
        let path = data.join(&directory).join(segment_file_name(*segment));
        let what = format!("{}-{segment}-byte-{at}", directory.display()).replace('/', "-");
        let kept = trash::keep(data, &what, bytes, now);
        let place = kept.map_err(|error| LoadError::Io { path: path.clone(), error })?;
        warn!(
            "{}: {} bytes from byte {at} on are no whole block, behind operation {}: the log \
             overwrites them. An interrupted write leaves such bytes; they are kept in {}",
            path.display(),
            bytes.len(),
            self.recovered.position(),
            place.display()
        );
        Ok(())
    }

    /// Whether a snapshot was used.
    pub fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Loads all groups, for checks, and returns their durable state as the records that replay to
    /// it. None if a group of the snapshot is damaged.
    pub fn durable_records(&mut self) -> Option<Vec<GroupRecord<'_>>> {
        self.coordinator.load_all();
        let is_whole = self.coordinator.damage().is_none();
        is_whole.then(|| self.coordinator.durable_records())
    }

    /// The shard with the loaded state, and its first file operations.
    ///
    /// # Errors
    /// The directory of the partitions cannot be read.
    pub fn into_shard(
        mut self,
        data: &Path,
        block_bytes: u32,
        image: Arc<ClusterImage>,
        mut ids: Box<dyn Ids>,
        times: Times,
    ) -> Result<(Shard, Vec<FileOp>), LoadError> {
        let mut log = self.take_log(block_bytes, ids.as_mut());
        let config = self.common.config.with_dynamic(&image, self.number);
        log.set_compaction(compaction(&config, &image, self.common.placement.shards));
        configure(&mut self.coordinator, &config, None, &image);
        let Times { now, wall } = times;
        self.coordinator.loaded(now, wall, &*image);
        let mut partitions = Partitions::new(config.clone(), identity(&self.common, self.number));
        let mut effects = Effects::default();
        let opened = partitions.open(times, data, &image, &mut effects);
        opened.map_err(|error| LoadError::Io { path: data.to_owned(), error })?;
        let shards = self.common.placement.shards;
        let directory = log_directory(shards, self.number);
        let mut shard = Shard {
            number: self.number,
            offline: OfflinePartitions::default(),
            connections: Connections::new(limits(&config)),
            groups: GroupLog::new(self.coordinator, log, &self.common, now),
            partitions,
            controller: self.image.map(|image| Controller::new(image, shards)),
            deleted_topics: DeletedTopics::default(),
            producer_ids: ProducerIds::default(),
            snapshots: Snapshots::new(directory, &config, self.snapshot, self.replayed_bytes, now),
            log_check: LogCheck::new(now),
            common: self.common,
            image,
            ids,
            now,
            wall,
            heard: now,
            commands: Vec::new(),
            config,
            sendable: Vec::new(),
            run_queue: RunQueue::default(),
            scans: Scans::default(),
            requests_handled: 0,
            waiting_for_readers: Vec::new(),
            next_idle_sweep: now,
            next_account_line: now,
            request_errors: Throttle::default(),
            stopping: Stopping::No,
        };
        shard.open_offsets_topic();
        shard.report_offline();
        Ok((shard, effects.ops))
    }

    /// The log alone, for writing without a server.
    pub(crate) fn into_log(mut self, block_bytes: u32, ids: &mut dyn Ids) -> ShardLog {
        self.take_log(block_bytes, ids)
    }

    fn take_log(&mut self, block_bytes: u32, ids: &mut dyn Ids) -> ShardLog {
        let known = self.common.known_log(self.number);
        let log_id = known.map_or_else(|| log_id(ids), |known| known.id);
        let recovered = std::mem::take(&mut self.recovered);
        ShardLog::new(self.log_config(block_bytes, log_id), recovered)
    }

    fn log_config(&self, block_bytes: u32, log_id: u64) -> LogConfig {
        let Common { config, log_sizes, placement, .. } = &self.common;
        LogConfig {
            dir: log_directory(placement.shards, self.number),
            log_id,
            segment_bytes: log_sizes.segment_bytes.unwrap_or_else(|| config.segment_bytes()),
            block_bytes,
            linger_ms: config.group_coordinator_append_linger_ms,
            operation_bytes_max: log_sizes.operation_bytes_max,
            open_bytes_max: log_sizes.open_bytes_max,
            first_file_id: FIRST_LOG_FILE,
            token_tag: LOG_TOKENS,
            ..Default::default()
        }
    }
}

/// The limits of a shard's connections.
pub(super) fn limits(config: &Config) -> Limits {
    Limits {
        connections: config.max_connections.unsigned_abs() as usize,
        connections_per_ip: config.max_connections_per_ip.unsigned_abs() as usize,
        requests_in_flight: REQUESTS_IN_FLIGHT_MAX,
        output_bytes: OUTPUT_BYTES_MAX,
        input_bytes: input_bytes_max(config),
        unread_bytes: UNREAD_BYTES_MAX,
    }
}

/// `queued.max.request.bytes`, for which Kafka has no limit by default. A request of the largest
/// size has to fit.
fn input_bytes_max(config: &Config) -> usize {
    let largest = config.socket_request_max_bytes.unsigned_abs() as usize;
    match usize::try_from(config.queued_max_request_bytes) {
        Ok(bytes) if bytes > 0 => bytes,
        _ => INPUT_BYTES_DEFAULT.max(largest),
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
        open_files_max: common.partition_files_max,
        token_tag: PARTITION_TOKENS,
    }
}
