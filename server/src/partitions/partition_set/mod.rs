//! The entry point: passes each call to its part, and passes the changes of the table to the parts
//! that may wait for them. The parts do not call one another.

mod inspection;
mod requests;

use super::Effects;
use super::checkpoint::Checkpoint;
use super::compaction::Compactor;
use super::disk::Disk;
use super::happened::{Happened, Lost, Waiter};
use super::identity::Identity;
use super::jobs::Job;
use super::load;
use super::looks::{Looks, LostFile};
use super::partition::Bounds;
use super::partition_id::PartitionId;
use super::produces::Produces;
use super::reads::Reads;
use super::rounds::Rounds;
use super::scrub::Scrubber;
use super::table::Table;
use crate::clock::Times;
use crate::cluster::{ClusterImage, TOPIC_RESOURCE, Topic, leader};
use crate::config::{Config, effective};
use crate::topics::InternalTopic;
use muster_codec::{Uuid, Wall};
use muster_storage::{FileDone, FileToken, PartitionLog};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use tracing::error;

/// All partitions of user topics that one shard leads.
#[derive(Debug)]
pub struct Partitions {
    pub(super) table: Table,
    pub(super) disk: Disk,
    produces: Produces,
    rounds: Rounds,
    pub(super) reads: Reads,
    /// The number of parts of partitions that cannot be read and have not been dropped.
    pub(super) damaged_parts: usize,
    /// The time of the next check of retention and idle producers.
    pub(super) next_sweep: Option<i64>,
    pub(super) checkpoint: Checkpoint,
    pub(super) compactor: Compactor,
    pub(super) looks: Looks,
    pub(super) scrubber: Scrubber,
    /// The last partition that a clean stop has synced.
    pub(super) synced_until: Option<PartitionId>,
}

impl Partitions {
    /// `config` is the config of the shard, including altered configs ([`Config::with_dynamic`]).
    pub fn new(config: Config, identity: Identity) -> Self {
        let produces = Produces::new(identity.first_number);
        let (disk, reads) = (Disk::new(&config, &identity), Reads::new(&config));
        Self {
            table: Table::new(config, identity),
            disk,
            produces,
            rounds: Rounds::default(),
            reads,
            damaged_parts: 0,
            next_sweep: None,
            checkpoint: Checkpoint::default(),
            compactor: Compactor::default(),
            looks: Looks::default(),
            scrubber: Scrubber::default(),
            synced_until: None,
        }
    }

    /// Startup: reads the files of this shard's partitions with `std::fs`; blocks. Damaged or
    /// unreadable partitions are offline from then on. Directories of topics whose deletion is
    /// under way are removed; directories of unknown topics are moved to the trash. The operations
    /// in `out` open the files for the reactor.
    ///
    /// # Errors
    /// The directory of the topics, or of the recovery points, cannot be read.
    pub fn open(
        &mut self,
        times: Times,
        data: &Path,
        image: &ClusterImage,
        out: &mut Effects,
    ) -> io::Result<()> {
        // The shard of a deleted topic's partition follows from its id.
        let Identity { placement, shard, .. } = *self.table.identity();
        let ours = |id: &PartitionId| match image.topic_by_id(id.topic) {
            Some(topic) => leader(topic, id.index, placement) == shard,
            None => placement.partition_shard(id.topic, id.index) == shard,
        };
        let on_disk = load::on_disk(data)?.into_iter().filter(ours);
        let (there, gone): (BTreeSet<_>, BTreeSet<_>) = on_disk.partition(|id| is_in(image, *id));
        load::make_directory(data)?;
        let points = load::recovery_points(data)?;
        for topic in image.topics() {
            let config = effective(self.table.config(), image, &topic.name);
            self.compactor.configured(&config);
            for id in self.table.led(topic) {
                let point = points.get(&id).copied();
                let is_there = point.is_some() || there.contains(&id);
                let name = id.named(&topic.name);
                let found =
                    is_there.then(|| load::read(data, id, &name, point, times.wall)).transpose();
                match found {
                    Ok(found) => {
                        let (config, disk) = (config.clone(), &mut self.disk);
                        self.table.add(id, config, found, times.wall, disk, out);
                    }
                    Err(why) => self.table.take_offline(data, topic, id, point, &why),
                }
            }
        }
        load::clear(gone, image, times.wall.0, out);
        self.table.set_image(image);
        self.count_damage();
        self.schedule_sweep(times.now);
        Ok(())
    }

    /// Applies changes of topics, partitions or configs: creates the logs of this shard's new
    /// partitions, removes the logs of deleted topics, and answers requests that wait for them. For
    /// `config` see [`Self::new`].
    pub fn image_changed(
        &mut self,
        times: Times,
        config: &Config,
        image: &ClusterImage,
        out: &mut Effects,
    ) {
        let is_other_config = self.table.config() != config;
        self.table.set_config(config);
        let before = self.table.set_image(image);
        let is_same = image.shares_topics_with(&before)
            && image.reconfigured(&before, TOPIC_RESOURCE).is_empty();
        if is_same && !is_other_config {
            return;
        }
        let gone = before.topics().filter(|topic| image.topic_by_id(topic.id).is_none());
        gone.for_each(|topic| self.remove_topic(topic.id, out));
        for topic in image.topics() {
            if is_other_config || differs(topic, &before, image) {
                self.topic_changed(times.wall, topic, out);
            }
        }
        if self.next_sweep.is_none() || self.table.is_empty() {
            self.schedule_sweep(times.now);
        }
    }

    fn topic_changed(&mut self, wall: Wall, topic: &Topic, out: &mut Effects) {
        let config = effective(self.table.config(), self.table.image(), &topic.name);
        self.compactor.configured(&config);
        self.table.topic_changed(topic, &config, wall, &mut self.disk, out);
    }

    fn remove_topic(&mut self, topic: Uuid, out: &mut Effects) {
        for id in self.table.of_topic(topic) {
            let happened = self.table.remove(id, &mut self.disk, out);
            self.happened(happened, out);
        }
    }

    /// Reports a change of the table to the parts with requests that may wait for it.
    pub(super) fn happened(&mut self, happened: Happened, out: &mut Effects) {
        match happened {
            Happened::Nothing => {}
            Happened::Written { id, done, grown } => {
                self.answer(done, out);
                self.reads.grown(&self.table, &mut self.disk, id, grown, out);
            }
            Happened::Synced { done } => {
                self.checkpoint.advanced();
                self.answer(done, out);
            }
            Happened::Grown { id, grown } => {
                self.reads.wake(&self.table, &mut self.disk, id, grown, out)
            }
            Happened::Trimmed => self.checkpoint.advanced(),
            Happened::Lost(lost) => self.lost(lost, out),
            Happened::Removed { id, done } => {
                self.looks.forget(id);
                self.rounds.sync_ended(id);
                self.answer(done, out);
                self.reads.removed(&self.table, &mut self.disk, id, out);
            }
        }
    }

    /// Handles a write or a sync of a partition that found no file.
    fn lost(&mut self, lost: Lost, out: &mut Effects) {
        let Lost { id, segment, reason, is_first, waiting } = lost;
        let file = LostFile { what: reason.clone(), lacks_writes: true };
        let is_new = self.looks.note_lost(&mut self.disk, (id, segment), file);
        if is_first || is_new {
            let consequence = "Produces are refused until the next start, which needs the file";
            error!(target: "damage", "{}: {reason}. {consequence}", self.table.name_of(id));
        }
        let topic = self.table.image().topic_by_id(id.topic).map(|topic| topic.name.clone());
        let topic = topic.unwrap_or_default();
        for waiter in waiting {
            match waiter {
                Waiter::Produce(number) => self.produces.lost(number, (id, &topic), out),
                Waiter::Round(number) => self.rounds.round_lost(&self.table, number, out),
            }
        }
    }

    /// Notes that the waits of requests for a partition are over.
    fn answer(&mut self, done: Vec<Waiter>, out: &mut Effects) {
        for waiter in done {
            match waiter {
                Waiter::Produce(number) => self.produces.part_ended(number, out),
                Waiter::Round(number) => self.rounds.round_done(&self.table, number, out),
            }
        }
    }

    /// Handles a completion whose token has this identity's tag.
    pub fn file_done(&mut self, done: FileDone, out: &mut Effects) {
        let token = done.token();
        if Disk::is_job(token) {
            self.job_done(token, done, out);
        } else {
            self.log_done(PartitionLog::number(token), done, out);
        }
        self.reads.resume(&self.table, &mut self.disk, out);
    }

    fn job_done(&mut self, token: FileToken, done: FileDone, out: &mut Effects) {
        match self.disk.end(token) {
            Some(Job::Read(job)) => {
                let data = self.disk.data_of(done, self.reads.read_by(&job), out);
                let suspect = self.reads.job_done(&self.table, &mut self.disk, job, data, out);
                suspect.into_iter().for_each(|(id, suspect)| self.scrubber.suspect(id, suspect));
            }
            Some(Job::Upkeep(job)) => self.upkeep_done(job, done, out),
            Some(Job::Flush(id, end)) => {
                self.rounds.sync_ended(id);
                let happened = match done {
                    FileDone::Lost { reason, .. } => {
                        self.table.lost_sync(id, end.segment, &reason, &mut self.disk)
                    }
                    FileDone::Written { .. }
                    | FileDone::Synced { .. }
                    | FileDone::Looked { .. }
                    | FileDone::Renamed { .. }
                    | FileDone::NoSpace { .. }
                    | FileDone::Read { .. }
                    | FileDone::ReadFailed { .. } => self.table.synced(id, end),
                };
                self.happened(happened, out);
            }
            None => {
                self.disk.data_of(done, None, out);
            }
        }
    }

    fn log_done(&mut self, number: u32, done: FileDone, out: &mut Effects) {
        let happened = self.table.log_done(number, &done, &mut self.disk);
        self.happened(happened, out);
        match done {
            FileDone::Written { buffer, .. } => self.disk.recycle(buffer),
            FileDone::Synced { .. } => self.checkpoint.advanced(),
            FileDone::NoSpace { .. }
            | FileDone::Lost { .. }
            | FileDone::Renamed { .. }
            | FileDone::Read { .. }
            | FileDone::ReadFailed { .. }
            | FileDone::Looked { .. } => {}
        }
    }

    /// Forgets the fetches and look-ups of a closed connection. Its writes continue.
    pub fn connection_closed(&mut self, connection: u64) {
        self.reads.connection_closed(connection);
    }

    /// Hides these partitions from clients until the shard's log is flushed up to a position.
    pub(crate) fn withhold(&mut self, ids: BTreeSet<PartitionId>, until: u64) {
        self.table.withhold(ids, until);
    }

    /// Notes that the shard's log is flushed up to a position.
    pub(crate) fn shard_log_flushed(&mut self, position: u64) {
        self.table.shard_log_flushed(position);
    }

    /// Notes that a partition of an internal topic that this shard leads can be read from
    /// `log_start` to `high_watermark`, and committed records to `stable`. Called at startup and
    /// after each flush, which added `bytes`.
    pub fn log_flushed(
        &mut self,
        (topic, index): (InternalTopic, i32),
        (log_start, high_watermark, stable): (i64, i64, i64),
        bytes: u64,
        out: &mut Effects,
    ) {
        let id = PartitionId { topic: topic.id(), index };
        let bounds = Bounds { log_start, high_watermark, stable };
        let happened = self.table.flushed(id, bounds, bytes);
        self.happened(happened, out);
    }
}

/// Whether the image has this partition of a user topic.
fn is_in(image: &ClusterImage, id: PartitionId) -> bool {
    let topic = image.topic_by_id(id.topic).filter(|topic| !topic.is_internal());
    topic.is_some_and(|topic| id.index < topic.partitions)
}

/// Whether a topic or its configs changed.
fn differs(topic: &Topic, before: &ClusterImage, after: &ClusterImage) -> bool {
    let [was, is] = [before, after].map(|image| image.configs(TOPIC_RESOURCE, &topic.name));
    before.topic_by_id(topic.id) != Some(topic) || was != is
}
