//! Loads a shard, at startup and after a failure. Opens its snapshot, if there is one, reads and
//! replays the part of the log after the snapshot, and creates the shard. Blocks; the shard serves
//! no client yet.

use super::audit::AuditLines;
use super::broker::Broker;
use super::confirmed_reads::ConfirmedReads;
use super::counters::ShardCounters;
use super::inquiries::Inquiries;
use super::known_log::log_id;
use super::limit_lines::LimitLines;
use super::names::{
    FIRST_LOG_FILE, FIRST_PARTITION_FILE, LOG_CHECK, LOG_TOKENS, PARTITION_TOKENS, SNAPSHOT_FILE,
    SNAPSHOT_TOKEN,
};
use super::raft_clock::RaftClock;
use super::replicated_log::{clustered, read_replicated};
use super::start::{Start, Unusable, open_snapshot, replay_log, unread_snapshot};
use super::topics::Internal;
use super::troubles::Troubles;
use super::{Common, KnownLog, LoadError, Shard, Stopping};
use crate::clock::{ClockWatch, Times};
use crate::cluster::ClusterImage;
use crate::config::{Config, compaction};
use crate::controller::{Accepted, Controller, ControllerRequests};
use crate::groups::{Groups, Setup};
use crate::logging::RequestErrors;
use crate::long_requests::LongRequests;
use crate::net::Clients;
use crate::partitions::{Effects, Identity, Partitions};
use crate::placement::CONTROLLER;
use crate::shares::Shares;
use crate::stall::Stalls;
use crate::telemetry::Telemetry;
use crate::transactions::{Life, Transactions};
use crate::{topics, trash};
use muster_codec::records::GroupRecord;
use muster_coordinator::Ids;
use muster_runtime::replicas::RecoveredReplicas;
use muster_runtime::{
    CheckConfig, LoadedSnapshot, LogReads, Replayed, RewriteConfig, Runtime, SnapshotsDue,
    TopicSet, Upkeep, UpkeepConfig,
};
use muster_storage::layout::Format;
use muster_storage::shard_log::recovery::segment_file_name;
use muster_storage::snapshot::{SNAPSHOT_FILE_NAME, SnapshotHeader, WriterConfig};
use muster_storage::{Corruption, Cut, FileOp, LogConfig, Recovered, ShardLog};
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tracing::{info, warn};

/// The contents of a shard's log.
pub struct Loaded {
    number: u32,
    common: Common,
    topics: Internal,
    recovered: Recovered,
    /// On shard 0 only.
    image: Option<Arc<ClusterImage>>,
    /// The snapshot that was used, if any.
    snapshot: Option<SnapshotHeader>,
    /// The records of the log after the snapshot.
    replayed: Replayed,
    /// The time that the load took, in microseconds.
    load_micros: u64,
    /// In a cluster.
    replicas: Option<RecoveredReplicas>,
}

/// The directory of a shard's log, relative to the data directory. Its name contains the number of
/// shards, so that logs can be rewritten for another number beside the old logs.
pub fn log_directory(shards: u32, number: u32) -> PathBuf {
    PathBuf::from(format!("shards-{shards}")).join(number.to_string())
}

/// Loads the snapshot of shard `number`, then reads and replays the log after it. If the snapshot
/// cannot be used, a line in the server's log says so, and the shard's whole log is replayed, which
/// takes longer. If a snapshot shows that the log lost operations, the shard does not start.
///
/// # Errors
/// The log is damaged, or a file cannot be read.
pub fn load(data: &Path, common: &Common, number: u32) -> Result<Loaded, LoadError> {
    load_by(data, common, number, false)
}

/// Like [`load`], but accepts a damaged or missing log: loads all that can be read, which is the
/// snapshot and every whole block of the log after it.
///
/// # Errors
/// A file cannot be read, or a later version wrote a record.
pub fn salvage(data: &Path, common: &Common, number: u32) -> Result<Loaded, LoadError> {
    load_by(data, common, number, true)
}

fn load_by(
    data: &Path,
    common: &Common,
    number: u32,
    accepts_loss: bool,
) -> Result<Loaded, LoadError> {
    let (began, watched) = (Instant::now(), (common.stopwatch)());
    let directory = data.join(log_directory(common.placement.shards, number));
    if common.nodes.is_some() {
        let known = common.known_log(number).filter(|_| !accepts_loss);
        return load_replicated(&directory, common, number, known);
    }
    let snapshot = open_snapshot(&directory, common, number).and_then(|start| match start {
        Some(start) => replay_log(&directory, start.accepting_loss(accepts_loss))?
            .checked(&directory)
            .map(Some),
        None => Ok(None),
    });
    let new = || Start::new(common, number).accepting_loss(accepts_loss);
    let start = match snapshot {
        Ok(Some(start)) => start,
        Ok(None) => replay_log(&directory, new())?,
        Err(Unusable::Snapshot(why)) => {
            let path = directory.join(SNAPSHOT_FILE_NAME);
            warn!("{} is not used, the log is replayed: {why}", path.display());
            let unread = unread_snapshot(&directory);
            replay_log(&directory, new()).map_err(|error| error.beside_unread(unread))?
        }
        Err(Unusable::Log(error)) => return Err(error),
    };
    let Start { load, mut recovered, .. } = start;
    let (snapshot, replayed) = (load.snapshot(), load.replayed());
    let mut topics = load.topics;
    topics.shares.loaded();
    let cluster = (number == CONTROLLER).then_some(topics::CLUSTER);
    recovered.skip_offsets(common.placement.log_partitions_of(number).chain(cluster));
    if let Some(known) = common.known_log(number).filter(|_| !accepts_loss) {
        known.check(&directory, &recovered)?;
    }
    let took = began.elapsed();
    let load_micros = (common.stopwatch)().saturating_sub(watched) / 1_000;
    info!(
        target: "load",
        shard = number,
        took_ms = took.as_millis() as u64,
        "shard {number} loaded its log up to operation {} in {} ms{}{}{}",
        recovered.position(),
        took.as_millis(),
        counted("groups", topics.slots.groups(), topics.slots.unloaded_groups()),
        in_words(replayed),
        counted("transactional ids", topics.transactions.ids(), topics.transactions.unloaded_ids()),
    );
    let image = topics.image.as_mut().map(|it| it.loaded_at(recovered.position()));
    Ok(Loaded {
        number,
        common: common.clone(),
        topics,
        recovered,
        image,
        snapshot,
        replayed,
        load_micros,
        replicas: None,
    })
}

/// Reads and replays the log of a node in a cluster. It has no snapshots yet.
fn load_replicated(
    directory: &Path,
    common: &Common,
    number: u32,
    known: Option<&KnownLog>,
) -> Result<Loaded, LoadError> {
    let watched = (common.stopwatch)();
    let (mut topics, recovered, replicas) = read_replicated(directory, common, number, known)?;
    topics.shares.loaded();
    let image = topics.image.as_ref().map(Accepted::loaded);
    let load_micros = (common.stopwatch)().saturating_sub(watched) / 1_000;
    Ok(Loaded {
        number,
        common: common.clone(),
        topics,
        recovered,
        image,
        snapshot: None,
        replayed: Replayed::default(),
        load_micros,
        replicas: Some(replicas),
    })
}

/// The number of a shard's groups or transactional ids, in words; empty if there are none.
fn counted(what: &str, all: usize, unread: usize) -> String {
    match (all, unread) {
        (0, _) => String::new(),
        (_, 0) => format!("; {what}: {all}"),
        _ => format!("; {what}: {all} ({unread} not read yet)"),
    }
}

/// Words about the records after the snapshot; empty if there are none.
fn in_words(Replayed { records, bytes }: Replayed) -> String {
    if records == 0 {
        return String::new();
    }
    format!("; records replayed: {records} ({bytes} bytes)")
}

impl Loaded {
    /// The image of the cluster in shard 0's log; None on other shards.
    pub fn image(&self) -> Option<&Arc<ClusterImage>> {
        self.image.as_ref()
    }

    /// The image for a shard that is loaded again. Shard 0 gets the image from its log, which may
    /// have further changes; all shards treat these changes as new. Other shards keep their image.
    pub fn image_after(&mut self, before: &Arc<ClusterImage>) -> Arc<ClusterImage> {
        match &mut self.image {
            // In a cluster the versions are those of the other nodes. Changes that are not known to
            // be committed yet follow.
            Some(image) if self.replicas.is_some() => {
                if image.is_older_than(before) {
                    before.clone()
                } else {
                    image.clone()
                }
            }
            Some(image) => {
                Arc::make_mut(image).changed_since(before);
                image.clone()
            }
            None => before.clone(),
        }
    }

    /// Logs that the log has a torn end, and copies the bytes of this end to the trash, as the log
    /// will overwrite them. `now` is the time of the wall clock.
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
            "{}: {} bytes from byte {at} on are no whole block, after operation {}: the log \
             overwrites them. An interrupted write leaves such bytes; they are kept in {}",
            path.display(),
            bytes.len(),
            self.recovered.position(),
            place.display()
        );
        Ok(())
    }

    /// The position of the last operation that was found.
    pub fn position(&self) -> u64 {
        self.recovered.position()
    }

    /// The log as recovery found it.
    pub(crate) fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// The state.
    pub(crate) fn topics(&mut self) -> &mut dyn TopicSet {
        &mut self.topics
    }

    /// Whether a snapshot was used.
    pub fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Loads all groups, for checks. Returns their durable state, as records whose replay results
    /// in this state. None if a group of the snapshot is damaged.
    pub fn durable_records(&mut self) -> Option<Vec<GroupRecord<'_>>> {
        let slots = &mut self.topics.slots;
        slots.load_all();
        slots.damage().is_none().then(|| slots.durable_records())
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
        let damage = self.recovered.spared().map(Corruption::place);
        let (mut log, load_micros) = (self.take_log(block_bytes, ids.as_mut()), self.load_micros);
        let (log_id, config) = (log.log_id(), self.common.config.with_dynamic(&image, self.number));
        log.set_compaction(compaction(&config, &image, self.common.placement.shards));
        let upkeep = Upkeep::new(self.upkeep(&config, damage), &mut log, times.now);
        let (placement, runtime) = (self.common.placement, self.take_runtime(log)?);
        let topics = configured(self.topics, &config, &image, times, &runtime);
        let (Internal { slots, transactions, shares, image: _ }, now) = (topics, times.now);
        let mut partitions =
            Partitions::new(config.clone(), identity(&self.common, self.number, log_id));
        let mut effects = Effects::default();
        let opened = partitions.open(times, data, &image, &mut effects);
        opened.map_err(|error| LoadError::Io { path: data.to_owned(), error })?;
        let Common { may_have_lost_writes, life: number, config: ref common, .. } = self.common;
        let life = Life { number, may_have_lost_writes };
        let number = self.number;
        let transactions = Transactions::new(number, placement, transactions, life);
        let setup = Setup {
            shard: number,
            placement,
            config: Arc::clone(common),
            slots,
            cut_bytes: self.common.log_sizes.cut_bytes(),
            first_number: first_number(life.number),
        };
        let (cluster, shards) = (Arc::clone(&self.common.cluster_id), placement.shards);
        let mut shard = Shard {
            clients: Clients::new(
                self.number,
                Arc::clone(&self.common.config),
                &self.common.token_keys,
                &config,
                now,
                self.common.stopwatch,
            ),
            groups: Groups::new(setup, &config, now),
            runtime,
            upkeep,
            reads: LogReads::default(),
            ops: Vec::new(),
            partitions,
            transactions,
            shares: Shares::new(
                self.number,
                self.common.endpoints.clone(),
                first_number(life.number),
                shares,
                &config,
            ),
            telemetry: Telemetry::new(&config, &image),
            controller: self.image.map(|it| Controller::new(it, cluster, shards, common, &config)),
            controller_requests: ControllerRequests::new(self.number),
            long: LongRequests::default(),
            inquiries: Inquiries::default(),
            limit_lines: LimitLines::default(),
            broker: Broker::new(self.number, self.common, image),
            ids,
            times,
            errors: RequestErrors::default(),
            audit: AuditLines::default(),
            commands: Vec::new(),
            counters: ShardCounters { up: 1, load_micros, ..ShardCounters::default() },
            turn_began: None,
            clock_watch: ClockWatch::default(),
            troubles: Troubles::default(),
            stalls: Stalls::default(),
            may_have_lost_records: may_have_lost_writes,
            stopping: Stopping::No,
            raft_clock: RaftClock::at(now),
            confirmed_reads: ConfirmedReads::default(),
        };
        shard.report_loaded();
        Ok((shard, effects.ops))
    }

    /// The config of the log's upkeep. `config` is the config with the altered values. `damage` is
    /// where the log was found damaged before its snapshot, if it was.
    fn upkeep(&self, config: &Config, damage: Option<String>) -> UpkeepConfig {
        let Common { placement, config: common, audits, .. } = &self.common;
        let (number, growth) =
            (self.number, config.metadata_log_max_record_bytes_between_snapshots);
        let rate = common.state_check_max_bytes_per_second.max(0).unsigned_abs();
        // Snapshots and the check would have to know how far each slot is applied.
        let is_replicated = self.replicas.is_some();
        let rate = if is_replicated { 0 } else { rate };
        let interval_ms = config.metadata_log_max_snapshot_interval_ms;
        let all = iter::once(topics::CLUSTER).chain(placement.log_partitions_of(number));
        UpkeepConfig {
            due: SnapshotsDue {
                growth_bytes_min: if is_replicated { u64::MAX } else { growth.unsigned_abs() },
                interval_ms: if is_replicated { 0 } else { interval_ms },
            },
            snapshot_writer: snapshot_writer(placement.shards, number),
            snapshot: LoadedSnapshot { header: self.snapshot, behind: self.replayed.bytes },
            check: CheckConfig {
                shard: number,
                names: LOG_CHECK,
                bytes_per_second: rate,
                partitions: all.collect(),
                name_of: topics::name_of,
            },
            audits: *audits && rate > 0,
            rewrite: RewriteConfig { shard: number, place_of: trash::place_of },
            damage,
        }
    }

    /// The runtime of a log. In a cluster it has the replicas that were found.
    fn take_runtime(&mut self, log: ShardLog) -> Result<Runtime, LoadError> {
        let placement = self.common.placement;
        let partitions = placement.log_partitions_of(self.number).collect();
        match self.replicas.take() {
            None => Ok(Runtime::new(log, partitions)),
            Some(found) => clustered(log, partitions, placement, found),
        }
    }

    /// Returns only the log, to write to it without a server.
    pub fn into_log(mut self, block_bytes: u32, ids: &mut dyn Ids) -> ShardLog {
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
        let segment_bytes = log_sizes.segment_bytes.unwrap_or_else(|| config.segment_bytes());
        LogConfig {
            dir: log_directory(placement.shards, self.number),
            log_id,
            block_bytes,
            linger_ms: config.group_coordinator_append_linger_ms,
            operation_bytes_max: log_sizes.operation_bytes_max,
            open_bytes_max: log_sizes.open_bytes_max,
            first_file_id: FIRST_LOG_FILE,
            token_tag: LOG_TOKENS,
            format: if self.common.nodes.is_some() { Format::Replicated } else { Format::Alone },
            slots: placement.offsets_partitions,
            topics: topics::RULES,
            ..LogConfig::with_segments(segment_bytes)
        }
    }
}

/// The machines, ready to serve. In a cluster a slot is served once the node leads it.
fn configured(
    mut topics: Internal,
    config: &Config,
    image: &ClusterImage,
    Times { now, wall, .. }: Times,
    runtime: &Runtime,
) -> Internal {
    topics.slots.configure(config, None, image);
    if runtime.replication().is_none() {
        topics.slots.loaded(now, wall, image);
    }
    topics
}

impl Shard {
    /// Reports the loaded state to readers, to the other shards and to the coordinators.
    fn report_loaded(&mut self) {
        self.report_ends();
        let offline = self.partitions.offline_list();
        self.broker.report_offline(&offline, &mut self.commands);
        self.broker.report_access(&mut self.commands);
        self.transactions_loaded();
    }
}

fn snapshot_writer(shards: u32, shard: u32) -> WriterConfig {
    let dir = log_directory(shards, shard);
    WriterConfig { dir, file: SNAPSHOT_FILE, token: SNAPSHOT_TOKEN }
}

fn identity(common: &Common, number: u32, secret: u64) -> Identity {
    Identity {
        shard: number,
        placement: common.placement,
        endpoints: common.endpoints.clone(),
        first_file: FIRST_PARTITION_FILE,
        open_files_max: common.partition_files_max,
        token_tag: PARTITION_TOKENS,
        first_number: first_number(common.life),
        secret,
        space: common.space.clone(),
    }
}

/// The first number of requests to coordinators. Two loads of the shard never use the same numbers,
/// so a late answer is never mistaken for the answer to a later request.
fn first_number(life: i32) -> u64 {
    u64::from(life.unsigned_abs()) << 32
}
