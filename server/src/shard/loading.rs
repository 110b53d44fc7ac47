//! Start-up: opens a snapshot if there is one, reads and replays the log behind it, and makes the
//! shard. Blocks; no client is served yet.

use super::durable::GroupLog;
use super::known_log::log_id;
use super::names::{FIRST_LOG_FILE, FIRST_PARTITION_FILE, LOG_TOKENS, PARTITION_TOKENS};
use super::slots::Slots;
use super::start::{Start, Unusable, open_snapshot, replay_log};
use super::{
    Audit, Common, Controller, DeletedTopics, LoadError, LogCheck, ProducerIds, RunQueue, Scans,
    Shard, Snapshots, Stopping, ToController,
};
use crate::clock::Times;
use crate::cluster::{ClusterImage, Endpoint, OfflinePartitions};
use crate::config::{Config, compaction};
use crate::logging::Throttle;
use crate::net::{Connections, INPUT_BYTES_DEFAULT, Limits, UNREAD_BYTES_MAX};
use crate::partitions::{Effects, Identity, Partitions};
use crate::placement::CONTROLLER;
use crate::trash;
use muster_codec::messages::NodeEndpoint;
use muster_codec::records::GroupRecord;
use muster_coordinator::Ids;
use muster_storage::shard_log::recovery::segment_file_name;
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, SnapshotHeader};
use muster_storage::{Cut, FileOp, LogConfig, Recovered, ShardLog};
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
    slots: Slots,
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
    let snapshot = open_snapshot(&directory, common, number).and_then(|start| match start {
        Some(start) => replay_log(&directory, start)?.checked(&directory).map(Some),
        None => Ok(None),
    });
    let start = match snapshot {
        Ok(Some(start)) => start,
        Ok(None) => replay_log(&directory, Start::new(common, number))?,
        Err(Unusable::Snapshot(why)) => {
            let path = directory.join(SNAPSHOT_FILE_NAME);
            warn!("{} is not used, the log is replayed: {why}", path.display());
            replay_log(&directory, Start::new(common, number))?
        }
        Err(Unusable::Log(error)) => return Err(error),
    };
    let Start { slots, mut image, recovered, .. } = start;
    if let Some(known) = common.known_log(number) {
        known.check(&directory, &recovered)?;
    }
    image.loaded_at(recovered.position());
    info!(
        "shard {number} is at operation {}: {} of {} groups unloaded, {} records of {} bytes \
         replayed, in {} ms",
        recovered.position(),
        slots.unloaded_groups(),
        slots.groups(),
        start.replayed_records,
        start.replayed_bytes,
        began.elapsed().as_millis(),
    );
    Ok(Loaded {
        number,
        common: common.clone(),
        slots,
        recovered,
        image: (number == CONTROLLER).then(|| Arc::new(image)),
        snapshot: start.snapshot,
        replayed_bytes: start.replayed_bytes,
    })
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
        self.slots.load_all();
        let is_whole = self.slots.damage().is_none();
        is_whole.then(|| self.slots.durable_records())
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
        self.slots.configure(&config, None, &image);
        let Times { now, wall } = times;
        self.slots.loaded(now, wall, &*image);
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
            groups: GroupLog::new(self.slots, log, &self.common, now),
            partitions,
            controller: self.image.map(|image| Controller::new(image, shards)),
            deleted_topics: DeletedTopics::default(),
            producer_ids: ProducerIds::default(),
            to_controller: ToController::default(),
            snapshots: Snapshots::new(directory, &config, self.snapshot, self.replayed_bytes, now),
            audit: Audit::new(now),
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
        shard.report_ends();
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
