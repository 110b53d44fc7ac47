//! The shadow of a shard: the state that the blocks make that are durable in its log, read back
//! from the simulated disk. It must be what the shard itself has, and what a start finds.

use super::{Facts, Judge};
use crate::coverage::Seen;
use crate::process::{OpenFile, StartedShard};
use crate::world::World;
use muster::cluster::{BROKER_RESOURCE, ClusterImage, GROUP_RESOURCE, TOPIC_RESOURCE};
use muster::config::Config;
use muster_codec::DecodeError;
use muster_codec::records::{ClusterRecord, GroupRecord};
use muster_coordinator::Coordinator;
use muster_storage::LogPartition;
use muster_storage::OpenMode;
use muster_storage::layout::{BLOCK_MAGIC, Block};
use std::collections::BTreeSet;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// A record as its log has it.
pub(crate) type RecordBytes = (Vec<u8>, Option<Vec<u8>>);

pub(crate) struct Shadow {
    coordinator: Coordinator,
    image: ClusterImage,
    /// Of the last operation that was applied.
    position: u64,
    /// The block that is being written.
    in_flight: Option<Vec<u8>>,
    /// A block that a start found, though it was not answered: durable with the next sync.
    unsynced: Option<Vec<u8>>,
    /// What the shard once said to be durable.
    flushed: u64,
}

impl Shadow {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            coordinator: Coordinator::new(config.coordinator()),
            image: ClusterImage::new(config),
            position: 0,
            in_flight: None,
            unsynced: None,
            flushed: 0,
        }
    }

    /// Whether `flushed` is less than at a time before; that after a start starts with zero.
    pub(super) fn went_back(&mut self, flushed: u64) -> bool {
        if flushed != 0 && flushed < self.flushed {
            return true;
        }
        self.flushed = self.flushed.max(flushed);
        false
    }

    /// Another of the same state.
    fn copy(&self, config: &Config) -> Self {
        let mut copy = Self::new(config);
        let records = self.coordinator.durable_records();
        records.iter().for_each(|record| copy.coordinator.replay(record, 0));
        copy.image = self.image.clone();
        copy.position = self.position;
        copy
    }

    /// Applies a block if it is the next.
    fn apply(&mut self, bytes: &[u8]) -> Result<bool, DecodeError> {
        let block = Block::read(bytes)?;
        if block.header.first_position != self.position + 1 {
            return Ok(false);
        }
        each_record(&block, |record| match record {
            Record::Group(record) => self.coordinator.replay(record, 0),
            Record::Cluster(record) => self.image.apply(record),
        })?;
        self.position += u64::from(block.header.operations);
        Ok(true)
    }

    /// Whether what a start found is what was flushed, perhaps with the block that was on its way.
    fn is_found(
        &self,
        number: usize,
        started: &StartedShard,
        config: &Config,
    ) -> Result<(), String> {
        let found = started.shard.inspect().progress().accepted();
        if found < self.flushed {
            return Err(format!("operations up to {} were flushed", self.flushed));
        }
        let later;
        let with = if found > self.position {
            later = self.with_next_block(config)?;
            &later
        } else {
            self
        };
        if found != with.position {
            return Err(format!("the log had come to {}", with.position));
        }
        if let Some(what) = difference(&with.records(), &started.records) {
            return Err(format!("what is recovered is not what was written: {what}"));
        }
        let same_image = number != 0 || is_same(&with.image, started.shard.inspect().image());
        if same_image { Ok(()) } else { Err("the cluster is another".to_owned()) }
    }

    /// What the block makes of it that is on its way.
    fn with_next_block(&self, config: &Config) -> Result<Self, String> {
        let block = self.next_block().ok_or("nothing was on its way")?;
        let mut later = self.copy(config);
        later.apply(block).map_err(|error| error.to_string())?;
        Ok(later)
    }

    /// The block that may be durable or not: none is begun before what the last start found is
    /// synced.
    fn next_block(&self) -> Option<&Vec<u8>> {
        self.in_flight.as_ref().or(self.unsynced.as_ref())
    }

    /// A hash of what a start is laid against.
    fn key(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.position.to_le_bytes());
        hash.update(&self.flushed.to_le_bytes());
        hash.update(self.next_block().map_or(&[], Vec::as_slice));
        hash.digest()
    }

    fn records(&self) -> Vec<RecordBytes> {
        bytes_of(&self.coordinator.durable_records())
    }
}

enum Record<'a> {
    Group(&'a GroupRecord<'a>),
    Cluster(&'a ClusterRecord<'a>),
}

fn each_record(block: &Block<'_>, mut each: impl FnMut(Record<'_>)) -> Result<(), DecodeError> {
    for entry in block.entries() {
        let (partition, batch) = entry?;
        for record in batch.records()? {
            let record = record?;
            let Some(key) = record.key else { continue };
            match partition {
                LogPartition::Cluster => {
                    let record = ClusterRecord::read(key, record.value)?;
                    record.iter().for_each(|record| each(Record::Cluster(record)));
                }
                LogPartition::ConsumerOffsets(_) => {
                    let record = GroupRecord::read(key, record.value)?;
                    record.iter().for_each(|record| each(Record::Group(record)));
                }
            }
        }
    }
    Ok(())
}

fn learn(facts: &mut Facts, bytes: &[u8], now: u64) -> Result<(), DecodeError> {
    let block = Block::read(bytes)?;
    each_record(&block, |record| match record {
        Record::Group(record) => facts.group_record(record, now),
        Record::Cluster(record) => facts.cluster_record(record),
    })
}

pub(crate) fn bytes_of(records: &[GroupRecord<'_>]) -> Vec<RecordBytes> {
    let bytes = |record: &GroupRecord<'_>| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record.write_key(&mut key);
        let has_value = record.write_value(&mut value);
        (key, has_value.then_some(value))
    };
    records.iter().map(bytes).collect()
}

fn is_in_log(path: &Path) -> bool {
    path.to_string_lossy().starts_with("shards-")
}

impl Judge {
    /// Changes with what a start of a shard is laid against.
    pub(crate) fn shadow_key(&self, number: u32) -> u64 {
        self.shadows.get(number as usize).map_or(0, Shadow::key)
    }
}

impl World {
    fn is_block(&self, file: &OpenFile, data: &[u8]) -> bool {
        let is_block = data.starts_with(&BLOCK_MAGIC.to_be_bytes());
        is_block && file.mode == OpenMode::Durable && is_in_log(self.disk.name(file.inode))
    }

    /// A shard asks for a write.
    pub(crate) fn judge_write(&mut self, shard: u32, file: &OpenFile, offset: u64, data: &[u8]) {
        if self.is_block(file, data) {
            let path = self.path_of(file);
            let path = path.display();
            self.note(format_args!(
                "shard {shard} writes {} bytes at {offset} of {path}",
                data.len()
            ));
            self.judge.shadows[shard as usize].in_flight = Some(data.to_vec());
        }
    }

    /// A write is durable: what it says is read back.
    pub(crate) fn judge_written(&mut self, shard: u32, file: &OpenFile, offset: u64, data: &[u8]) {
        if !self.is_block(file, data) {
            return;
        }
        let now = self.queue.now();
        let durable = self.disk.durable(file.inode, offset);
        let durable = durable.get(..data.len()).unwrap_or_default();
        let shadow = &mut self.judge.shadows[shard as usize];
        shadow.in_flight = None;
        let learned = learn(&mut self.judge.facts, durable, now);
        if let Err(error) = learned.and_then(|()| shadow.apply(durable)) {
            let path = self.path_of(file);
            let path = path.display();
            self.violate(format_args!("a block at {offset} of {path} cannot be read: {error}"));
        }
        self.judge_ended_groups();
    }

    /// A sync is done: what a start found is durable.
    pub(crate) fn judge_synced(&mut self, shard: u32, file: &OpenFile) {
        if !is_in_log(self.disk.name(file.inode)) {
            return;
        }
        let now = self.queue.now();
        let shadow = &mut self.judge.shadows[shard as usize];
        let Some(block) = shadow.unsynced.take() else { return };
        let learned = learn(&mut self.judge.facts, &block, now);
        if let Err(error) = learned.and_then(|()| shadow.apply(&block)) {
            self.violate(format_args!("a block that was found cannot be read: {error}"));
        }
        self.judge_ended_groups();
    }

    /// Whether a shard has what its log says, when nothing is on its way.
    pub(super) fn judge_live_state(&mut self, number: u32) {
        self.coverage.saw(Seen::LiveCompared);
        let shard = self.process.seats[number as usize].shard.inspect();
        let live = shard.durable_records();
        let shadow = &self.judge.shadows[number as usize].coordinator;
        let mut log = shadow.durable_records();
        let alive: BTreeSet<&str> = live.iter().map(GroupRecord::group_id).collect();
        log.retain(|record| {
            let is_offset = matches!(record, GroupRecord::OffsetCommit(..));
            let group = record.group_id();
            !shard.is_unloaded(group) || alive.contains(group) && !is_offset
        });
        let (log, live) = (bytes_of(&log), bytes_of(&live));
        if let Some(what) = difference(&log, &live) {
            self.violate(format_args!("shard {number}: replay(log) is not the live state: {what}"));
        }
    }

    /// The process is about to end against its will.
    pub(crate) fn judge_crash(&mut self) {
        for number in 0..self.process.shards() {
            let shard = self.process.seats[number as usize].shard.inspect();
            let progress = shard.progress();
            if progress.accepted() == progress.flushed() && !shard.is_failed() {
                self.judge_live_state(number);
            }
        }
        self.judge_restarted();
    }

    /// The process has ended in order.
    pub(crate) fn judge_clean_stop(&mut self) {
        for number in 0..self.process.shards() {
            let progress = self.process.seats[number as usize].shard.inspect().progress();
            if progress.accepted() != progress.flushed() {
                self.violate(format_args!("shard {number} stopped with {progress:?}"));
            }
        }
        self.judge_crash();
    }

    /// What a start found: nothing is missing that was flushed, nothing is half there.
    pub(crate) fn judge_recovered(&mut self, started: &[StartedShard]) {
        self.judge_restarted();
        while self.judge.shadows.len() < started.len() {
            self.judge.shadows.push(Shadow::new(&self.config));
        }
        self.coverage.saw(Seen::StartCompared);
        let is_intact = self.coverage.count(Seen::MisdirectedWrite) == 0;
        for (number, started) in started.iter().enumerate() {
            let offline = started.shard.inspect().offline_partitions();
            if offline > 0 && is_intact {
                return self
                    .violate(format_args!("shard {number}: {offline} partitions are offline"));
            }
            let found = started.shard.inspect().progress().accepted();
            if let Err(what) = self.judge_found(number, started, found) {
                return self
                    .violate(format_args!("shard {number}, found position {found}: {what}"));
            }
        }
    }

    /// As [`World::judge_recovered`], of one shard that was loaded again.
    pub(crate) fn judge_reloaded(
        &mut self,
        number: u32,
        started: &StartedShard,
    ) -> Result<(), String> {
        self.judge_restarted();
        let found = started.shard.inspect().progress().accepted();
        self.judge_found(number as usize, started, found)
    }

    fn judge_found(
        &mut self,
        number: usize,
        started: &StartedShard,
        found: u64,
    ) -> Result<(), String> {
        self.judge.shadows[number].is_found(number, started, &self.config)?;
        let shadow = &mut self.judge.shadows[number];
        let block = shadow.in_flight.take().or(shadow.unsynced.take());
        shadow.unsynced = block.filter(|_| found > shadow.position);
        Ok(())
    }

    /// As [`World::judge_recovered`], of one shard, and of a start that is not: it changes nothing.
    pub(crate) fn judge_start_from_image(
        &self,
        number: u32,
        started: &StartedShard,
    ) -> Result<(), String> {
        let shadow = self.judge.shadows.get(number as usize);
        let shadow = shadow.ok_or("a shard that was not there")?;
        shadow.is_found(number as usize, started, &self.config)?;
        self.judge_books(number, started)
    }

    /// The logs were written anew for another number of shards: together they hold what they held.
    pub(crate) fn judge_resharded(&mut self, started: &[StartedShard]) {
        let now = self.queue.now();
        for shadow in &mut self.judge.shadows {
            // What was copied is synced before the old logs go.
            let Some(block) = shadow.unsynced.take() else { continue };
            let learned = learn(&mut self.judge.facts, &block, now);
            let applied = learned.and_then(|()| shadow.apply(&block));
            assert!(applied.is_ok(), "it was applied to a copy before");
        }
        self.judge_ended_groups();
        let mut before: Vec<_> = self.judge.shadows.iter().flat_map(Shadow::records).collect();
        let mut after = Vec::new();
        let mut shadows = Vec::new();
        for StartedShard { shard, .. } in started {
            let shard = shard.inspect();
            let mut shadow = Shadow::new(&self.config);
            shard.durable_records().iter().for_each(|it| shadow.coordinator.replay(it, 0));
            shadow.image = (**shard.image()).clone();
            shadow.position = shard.progress().accepted();
            after.extend(shadow.records());
            shadows.push(shadow);
        }
        before.sort_unstable();
        after.sort_unstable();
        let same_image = match (self.judge.shadows.first(), shadows.first()) {
            (Some(old), Some(new)) => is_same(&old.image, &new.image),
            _ => false,
        };
        self.judge.shadows = shadows;
        if let Some(what) = difference(&before, &after) {
            self.violate(format_args!("after the change of shards: {what}"));
        } else if !same_image {
            self.violate(format_args!("after the change of shards the cluster is another"));
        }
    }
}

/// Whether two images tell the same of the cluster. How often it changed is not durable: a log that
/// was compacted has fewer changes.
fn is_same(one: &ClusterImage, other: &ClusterImage) -> bool {
    let configs = |image: &ClusterImage| {
        let of = |kind: i8| {
            let name =
                move |name: &str| (kind, name.to_owned(), image.configs(kind, name).cloned());
            image.configured(kind, "").map(name).collect::<Vec<_>>()
        };
        [TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE].map(of)
    };
    one.topics().eq(other.topics())
        && configs(one) == configs(other)
        && one.next_producer_id() == other.next_producer_id()
}

/// The first record in which both differ.
fn difference(expected: &[RecordBytes], found: &[RecordBytes]) -> Option<String> {
    if expected == found {
        return None;
    }
    let at = expected.iter().zip(found).position(|(one, other)| one != other);
    let at = at.unwrap_or(expected.len().min(found.len()));
    let (expected, found) = (expected.get(at).map(tell), found.get(at).map(tell));
    Some(format!("record {at} is to be {expected:?}, and is {found:?}"))
}

fn tell((key, value): &RecordBytes) -> String {
    format!("{:?}", GroupRecord::read(key, value.as_deref()))
}
