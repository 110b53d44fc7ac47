//! The entry point. It passes each call to the part that it concerns. If a call changes the table,
//! it notifies the parts whose requests may wait for the change. The parts do not call one another.

mod inspection;
mod requests;

use super::disk::Disk;
use super::effects::Effects;
use super::happened::{Happened, Lost, Waiter};
use super::identity::Identity;
use super::jobs::Job;
use super::load;
use super::partition::Bounds;
use super::partition_id::PartitionId;
use super::produces::Produces;
use super::reads::Reads;
use super::rounds::Rounds;
use super::table::Table;
use super::upkeep::Upkeep;
use crate::clock::{Times, earliest};
use crate::cluster::{ClusterImage, TOPIC_RESOURCE, Topic, leader};
use crate::config::{Config, effective};
use muster_codec::{Uuid, Wall};
use muster_storage::{FileDone, FileToken, PartitionLog};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use tracing::error;

/// All partitions of user topics that one shard leads.
#[derive(Debug)]
pub struct Partitions {
    table: Table,
    disk: Disk,
    produces: Produces,
    rounds: Rounds,
    reads: Reads,
    upkeep: Upkeep,
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
            upkeep: Upkeep::default(),
        }
    }

    /// Startup: reads the files of this shard's partitions with `std::fs`, so it blocks. Damaged or
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
        // If the topic is deleted, the ids of topic and partition alone determine the shard.
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
            self.upkeep.configured(&config);
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
        self.upkeep.count_damage(&self.table);
        self.upkeep.schedule_sweep(&self.table, times.now);
        Ok(())
    }

    /// Applies changes of topics, partitions or configs. Creates the logs of this shard's new
    /// partitions. Removes the logs of deleted topics, and answers the requests that wait for
    /// these. For `config` see [`Self::new`].
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
        self.upkeep.table_changed(&self.table, times.now);
    }

    fn topic_changed(&mut self, wall: Wall, topic: &Topic, out: &mut Effects) {
        let config = effective(self.table.config(), self.table.image(), &topic.name);
        self.upkeep.configured(&config);
        self.table.topic_changed(topic, &config, wall, &mut self.disk, out);
    }

    fn remove_topic(&mut self, topic: Uuid, out: &mut Effects) {
        for id in self.table.of_topic(topic) {
            let happened = self.table.remove(id, &mut self.disk, out);
            self.happened(happened, out);
        }
    }

    /// Reports a change of the table to the parts with requests that may wait for it.
    fn happened(&mut self, happened: Happened, out: &mut Effects) {
        match happened {
            Happened::Nothing => {}
            Happened::Written { id, done, grown } => {
                self.answer(done, out);
                self.reads.grown(&self.table, &mut self.disk, id, grown, out);
            }
            Happened::Synced { done } => {
                self.upkeep.advanced();
                self.answer(done, out);
            }
            Happened::Grown { id, grown } => {
                self.reads.wake(&self.table, &mut self.disk, id, grown, out);
            }
            // The recovery points must be written again, because they contain the log start.
            Happened::Trimmed => self.upkeep.advanced(),
            Happened::Lost(lost) => self.lost(lost, out),
            Happened::Removed { id, done } => {
                self.upkeep.removed(id);
                self.rounds.sync_ended(id);
                self.answer(done, out);
                self.reads.removed(&self.table, &mut self.disk, id, out);
            }
        }
    }

    /// Handles a write or a sync of a partition that has not found its file.
    fn lost(&mut self, lost: Lost, out: &mut Effects) {
        let is_new = self.upkeep.lost(&mut self.disk, &lost);
        let Lost { id, reason, is_first, waiting, .. } = lost;
        if is_first || is_new {
            let consequence = "Produces are refused until the next start, which needs the file";
            error!(target: "damage", "{}: {reason}. {consequence}", self.table.name_of(id));
        }
        let topic = self.table.image().topic_by_id(id.topic).map(|topic| topic.name.clone());
        let topic = topic.unwrap_or_default();
        for waiter in waiting {
            match waiter {
                Waiter::Produce(number) => self.produces.lost(number, id, &topic, out),
                Waiter::Round(number) => self.rounds.round_lost(&self.table, number, out),
            }
        }
    }

    /// Notes that the requests in `done` no longer have to wait for a partition.
    fn answer(&mut self, done: Vec<Waiter>, out: &mut Effects) {
        for waiter in done {
            match waiter {
                Waiter::Produce(number) => self.produces.part_ended(number, out),
                Waiter::Round(number) => self.rounds.round_done(&self.table, number, out),
            }
        }
    }

    /// Handles a completed operation. Its token has the tag of these partitions (in their
    /// identity).
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
                if let Some((id, suspect)) = suspect {
                    self.upkeep.suspect(id, suspect);
                }
            }
            Some(Job::Upkeep(job)) => {
                self.upkeep.job_done(&mut self.table, &mut self.disk, job, done, out);
            }
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
            FileDone::Synced { .. } => self.upkeep.advanced(),
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

    /// The monotonic time, in milliseconds, at which [`Self::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<i64> {
        earliest([self.reads.next_deadline(), self.upkeep.next_deadline(&self.table, &self.disk)])
    }

    /// Answers fetches whose deadline has passed, checks retention and idle producers, compacts
    /// partitions, writes recovery points, and searches for damage and lost files. A call that
    /// comes too early does no harm.
    pub fn expire(&mut self, times: Times, out: &mut Effects) {
        let (table, disk) = (&mut self.table, &mut self.disk);
        self.reads.expire(table, disk, times.now, out);
        self.upkeep.sweep(table, disk, times, out);
        let happened = self.upkeep.compact(table, disk, times, out);
        self.happened(happened, out);
        self.upkeep.run(&mut self.table, &mut self.disk, times.now, out);
    }

    /// Performs a step of a clean stop, during which nothing more is written. A step syncs some
    /// partitions. When all are synced, a step writes the recovery points. The caller calls again
    /// when the operations of the step are done. Returns false if nothing is left.
    pub fn sync_next(&mut self, out: &mut Effects) -> bool {
        self.upkeep.sync_next(&mut self.table, &mut self.disk, out)
    }

    /// Prevents further slices of compactions, and further reads of a scrub, because the server
    /// stops.
    pub(crate) fn stop_upkeep(&mut self) {
        self.upkeep.stop();
    }

    /// Whether no operation on files is under way.
    pub fn is_quiet(&self) -> bool {
        self.disk.is_quiet()
    }

    /// Hides these partitions from clients until the shard's log is flushed up to a position.
    pub(crate) fn withhold(&mut self, ids: BTreeSet<PartitionId>, until: u64) {
        self.table.withhold(ids, until);
    }

    /// Notes that the shard's log is flushed up to a position.
    pub(crate) fn shard_log_flushed(&mut self, position: u64) {
        self.table.shard_log_flushed(position);
    }

    /// Notes how much of a partition of an internal topic can be read. This shard leads the
    /// partition. Called at startup and after each flush, which added `bytes`.
    pub(crate) fn log_flushed(
        &mut self,
        id: PartitionId,
        bounds: Bounds,
        bytes: u64,
        out: &mut Effects,
    ) {
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
