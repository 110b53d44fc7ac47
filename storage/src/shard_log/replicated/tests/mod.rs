//! A replicated log beside a model of it: the entries of each group as they were written, without
//! the void ones.

#[path = "../../../../test-disk/src/lib.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)]
mod disk;

mod compaction;
mod durable;
mod entries;
mod gone;
mod lengths;
mod markers;
mod random;

use super::*;
use crate::file_op::{FileDone, FileOp, FileToken};
use crate::layout::Format;
use crate::log_partition::UNPARTITIONED;
use crate::shard_log::recovery::segment_files;
use crate::shard_log::{Corruption, LogConfig, Recovered, RecoveredItem, Recovery, ShardLog};
use crate::slot_entry::{EntryKind, Marker, NODE_GROUP, group_of};
use crate::topic_rules::{KeyRule, TopicRule, TopicRules};
use disk::Disk;
use muster_codec::record_batch::{Batch, BatchBuilder, Batches};
use std::collections::BTreeMap;

const SLOTS: u32 = 4;
const STAMP: u64 = 77;

const TOPICS: TopicRules = {
    const fn rule(number: u8) -> TopicRule {
        TopicRule { number, lingers: false, keys: KeyRule::SameKey }
    }
    TopicRules::new(&[rule(UNPARTITIONED), rule(0), rule(1)])
};

/// The only partition of the image.
const IMAGE: LogPartition = LogPartition { topic: UNPARTITIONED, index: 0 };

fn partition(topic: u8, index: u32) -> LogPartition {
    LogPartition { topic, index }
}

fn config() -> LogConfig {
    LogConfig {
        dir: "shard-0".into(),
        log_id: 0x1122_3344_5566_7788,
        token_tag: 7,
        format: Format::Replicated,
        segment_bytes: 32 << 10,
        first_segment_bytes: 16 << 10,
        block_bytes: 512,
        operation_bytes_max: 12 << 10,
        open_bytes_max: 4 << 10,
        slots: SLOTS,
        topics: TOPICS,
        ..LogConfig::default()
    }
}

/// A record of an entry: its partition, offset and value.
type Value = (LogPartition, i64, Vec<u8>);

#[derive(Debug, Clone, PartialEq, Default)]
struct ModelEntry {
    term: u32,
    values: Vec<Value>,
}

/// The log of a group in the model.
#[derive(Debug, Clone, PartialEq, Default)]
struct ModelGroup {
    /// The entry after which the log begins.
    base: u64,
    entries: Vec<ModelEntry>,
    /// The ends of partitions at the base.
    ends: BTreeMap<LogPartition, i64>,
    /// The highest commit index in the headers of the entries.
    in_headers: u64,
}

impl ModelGroup {
    fn last(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    fn upto(&self, index: u64) -> &[ModelEntry] {
        &self.entries[..(index.max(self.base) - self.base) as usize]
    }

    fn truncate(&mut self, index: u64) {
        self.entries.truncate((index - self.base - 1) as usize);
    }

    fn values(&self, to: u64) -> Vec<Value> {
        self.upto(to).iter().flat_map(|it| it.values.clone()).collect()
    }

    /// The end of a partition after the entries up to this one.
    fn end(&self, partition: LogPartition, to: u64) -> i64 {
        let values = self.values(to);
        let last = values.iter().filter(|it| it.0 == partition).map(|it| it.1 + 1).next_back();
        last.unwrap_or_else(|| self.ends.get(&partition).copied().unwrap_or(0))
    }
}

type Model = BTreeMap<u16, ModelGroup>;

/// A node with one log. It is sometimes the leader of a group, and sometimes a follower.
struct Node {
    log: ShardLog,
    disk: Disk,
    /// The model of the entries that were written to blocks: now, and at the end of each sealed
    /// block.
    model: Model,
    sealed: Vec<Model>,
    /// Records that were appended and have no entry yet.
    open: BTreeMap<u16, Vec<Value>>,
    commits: BTreeMap<u16, u64>,
    config: LogConfig,
    now: i64,
}

impl Node {
    fn new() -> Self {
        Self::of(config())
    }

    fn of(config: LogConfig) -> Self {
        let log = ShardLog::new(config.clone(), Recovered::default());
        let mut node = Self {
            log,
            disk: Disk::default(),
            model: Model::new(),
            sealed: vec![Model::new()],
            open: BTreeMap::new(),
            commits: BTreeMap::new(),
            config,
            now: 2_000,
        };
        node.settle();
        node
    }

    /// Appends a record at the leader of its slot.
    fn append(&mut self, partition: LogPartition, value: &[u8]) -> u64 {
        let offset = self.log.log_end_offset(partition);
        let position = self.log.append(partition, 1_000, [(&b"key"[..], Some(value))]).unwrap();
        let of_group = self.open.entry(group_of(partition, SLOTS)).or_default();
        of_group.push((partition, offset, value.to_vec()));
        position
    }

    /// Gives the open entries that fit in the next block their indexes, in this term.
    fn propose(&mut self, term: u32) {
        for EndedEntry { group, bytes } in self.log.end_entries(|_| term) {
            let values = values_of(&bytes);
            let of_group = self.open.get_mut(&group).unwrap();
            // An entry has its records in the order of the partitions.
            let mut opened: Vec<Value> = of_group.drain(..values.len()).collect();
            opened.sort();
            assert!(values.iter().all(|it| opened.binary_search(it).is_ok()));
            let index = self.log.last_entry(group).index + 1;
            self.write(group, index, ModelEntry { term, values }, &bytes);
        }
        let mut waiting = self.log.replicated.iter().flat_map(|it| &it.ended);
        let waits = waiting.any(|it| it.group != NODE_GROUP);
        let has_open = self.open.values().any(|it| !it.is_empty());
        assert_eq!(has_open, waits, "records that are in no entry");
    }

    /// Writes an entry as a follower: another leader made it. It replaces the entries from its
    /// index on.
    fn follow(&mut self, group: u16, index: u64, term: u32, records: &[(LogPartition, &[u8])]) {
        let mut of_group = self.model.get(&group).cloned().unwrap_or_default();
        of_group.truncate(index.min(of_group.last() + 1));
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        for (partition, value) in records {
            let written = values.iter().filter(|it: &&Value| it.0 == *partition).count();
            let offset = of_group.end(*partition, index - 1) + written as i64;
            bytes.extend(batch(*partition, offset, term, value));
            values.push((*partition, offset, value.to_vec()));
        }
        self.write(group, index, ModelEntry { term, values }, &bytes);
    }

    fn write(&mut self, group: u16, index: u64, entry: ModelEntry, bytes: &[u8]) {
        let kind = if bytes.is_empty() { EntryKind::Empty } else { EntryKind::Records };
        let new = NewEntry { group, kind, index, term: entry.term, stamp: STAMP };
        self.log.write_entry(new, bytes).unwrap();
        let of_group = self.model.entry(group).or_default();
        of_group.truncate(index);
        of_group.entries.push(entry);
        let commit = self.commits.get(&group).copied().unwrap_or(0);
        of_group.in_headers = of_group.in_headers.max(commit);
    }

    fn commit(&mut self, group: u16, index: u64) {
        self.log.commit(group, index);
        let commit = self.commits.entry(group).or_default();
        *commit = index.max(*commit);
    }

    fn seal(&mut self) -> Option<u64> {
        let block = self.log.seal_block()?;
        assert_eq!(block, self.sealed.len() as u64, "blocks are numbered");
        self.sealed.push(self.model.clone());
        Some(block)
    }

    /// Polls until everything is durable.
    fn settle(&mut self) {
        while !self.poll() {}
    }

    /// Performs the file operations that are due. Returns whether there were none.
    fn poll(&mut self) -> bool {
        let mut ops = Vec::new();
        self.log.poll(self.now, &mut ops);
        let is_idle = ops.is_empty();
        for done in self.disk.perform_all(ops) {
            self.log.done(done);
        }
        is_idle
    }

    /// Starts a new process with the files on the disk, which have the log up to this block.
    fn restart(&mut self, block: u64) -> Vec<Value> {
        let replayed = self.reopen(block);
        for (group, model) in &self.model {
            assert_eq!(self.commits[group], model.in_headers, "the commit of group {group}");
        }
        self.check_replayed(&replayed);
        replayed
    }

    fn reopen(&mut self, block: u64) -> Vec<Value> {
        self.disk.crash();
        let (recovered, replayed) = recover(&self.disk).unwrap();
        self.model = self.sealed[block as usize].clone();
        self.sealed = vec![self.model.clone()];
        self.open.clear();
        self.disk.close_all();
        self.log = ShardLog::new(self.config.clone(), recovered);
        // Merged entries are committed, too.
        let before = std::mem::take(&mut self.commits);
        for (group, model) in &self.model {
            let commit = self.log.group(*group).map_or(0, |it| it.commit());
            let committed = model.in_headers..=before.get(group).copied().unwrap_or(0);
            assert!(committed.contains(&commit), "{commit} of {committed:?} in group {group}");
            self.commits.insert(*group, commit);
        }
        self.check();
        replayed
    }

    /// The index of the log must equal that of the model.
    fn check(&self) {
        for (group, model) in &self.model {
            let last = self.log.last_entry(*group);
            assert_eq!(last.index, model.last(), "the last entry of group {group}");
            for (index, entry) in (model.base + 1..).zip(&model.entries) {
                if let Some(kept) = self.log.kept_entry(*group, index) {
                    assert_eq!(kept.term, entry.term, "group {group}, entry {index}");
                }
            }
            for (partition, _, _) in model.values(model.last()) {
                let open = self.open.get(group).map_or(&[][..], |it| &it[..]);
                let open = open.iter().filter(|it| it.0 == partition).count();
                let end = model.end(partition, model.last()) + open as i64;
                assert_eq!(self.log.log_end_offset(partition), end, "{partition:?}");
            }
        }
    }

    /// All records that are known to be committed must have been replayed once, in their order.
    fn check_replayed(&self, replayed: &[Value]) {
        for (group, model) in &self.model {
            let of_group = |it: &&Value| group_of(it.0, SLOTS) == *group;
            let found: Vec<Value> = replayed.iter().filter(of_group).cloned().collect();
            let expected = model.values(self.commits[group]);
            assert_eq!(found, expected, "what was replayed of group {group}");
        }
    }

    /// Reads must show the committed and durable records, and no others. All sealed blocks are
    /// durable.
    fn check_reads(&mut self) {
        for (group, model) in self.model.clone() {
            let durable =
                self.sealed.last().and_then(|it| it.get(&group)).map_or(&[][..], |it| &it.entries);
            let alike = model.entries.iter().zip(durable).take_while(|(one, other)| one == other);
            let durable = model.base + alike.count() as u64;
            let commit = self.commits.get(&group).copied().unwrap_or(0);
            let expected = model.values(commit.min(durable));
            let mut partitions: Vec<_> = expected.iter().map(|it| it.0).collect();
            partitions.sort();
            partitions.dedup();
            for partition in partitions {
                let of_partition = expected.iter().filter(|it| it.0 == partition).cloned();
                let found = self.read(partition);
                assert_eq!(found, of_partition.collect::<Vec<_>>(), "{partition:?}");
            }
        }
    }

    /// Durable entries after the base must be read as they were written.
    fn check_fetches(&mut self) {
        for (group, model) in self.model.clone() {
            let mut next = self.log.base_entry(group).index + 1;
            loop {
                let (mut ops, token) = (Vec::new(), FileToken(1 << 50));
                let range = next..=model.last();
                let Some(plan) = self.log.fetch_plan(group, range, 2_000, token, &mut ops) else {
                    break;
                };
                let done = self.disk.perform_all(ops);
                let [FileDone::Read { data, .. }] = &done[..] else { panic!("{done:?}") };
                let fetched = plan.extract(data).unwrap();
                self.log.end_fetch(&plan);
                assert!(!fetched.is_empty(), "entry {next} of group {group}");
                for FetchedEntry { head, body } in fetched {
                    let expected = &model.entries[(next - model.base - 1) as usize];
                    assert_eq!((head.group, head.index, head.term), (group, next, expected.term));
                    assert_eq!(values_of(&body), expected.values);
                    next += 1;
                }
            }
            let last = self.log.last_entry(group).index;
            assert!(
                next > last
                    || self.log.kept_entry(group, next).unwrap().block > self.log.flushed_block()
            );
        }
    }

    fn read(&mut self, partition: LogPartition) -> Vec<Value> {
        let (mut offset, mut found) = (0, Vec::new());
        while offset < self.log.high_watermark(partition) {
            let mut ops = Vec::new();
            let token = FileToken(1 << 50);
            let plan = self.log.read_plan(partition, offset, 1_000, token, &mut ops).unwrap();
            let done = self.disk.perform_all(ops);
            let [FileDone::Read { data, .. }] = &done[..] else { panic!("{done:?}") };
            let mut bytes = Vec::new();
            plan.extract(data, &mut bytes).unwrap();
            assert!(self.log.end_read(&plan));
            for batch in Batches::new(&bytes) {
                let batch = batch.unwrap();
                found.extend(values_of_batch(partition, &batch));
                assert!(batch.header.next_offset() > offset, "a batch that was read before");
                offset = batch.header.next_offset();
            }
        }
        found
    }
}

fn batch(partition: LogPartition, offset: i64, term: u32, value: &[u8]) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    builder.append(1_000, &(&b"key"[..], Some(value)));
    [&partition.to_bytes()[..], builder.seal(offset, term as i32)].concat()
}

fn values_of_batch(partition: LogPartition, batch: &Batch<'_>) -> Vec<Value> {
    batch.validate().unwrap();
    let value = |record: muster_codec::record_batch::Record<'_>| {
        (partition, batch.offset(&record), record.value.unwrap().to_vec())
    };
    batch.records().unwrap().map(|record| value(record.unwrap())).collect()
}

/// The records of batches that are each preceded by their partition.
fn values_of(bytes: &[u8]) -> Vec<Value> {
    let entries = crate::layout::Entries::new(bytes, TOPICS, Format::Alone);
    let batches = entries.map(|entry| entry.unwrap());
    batches.flat_map(|(partition, batch)| values_of_batch(partition, &batch)).collect()
}

fn recover(disk: &Disk) -> Result<(Recovered, Vec<Value>), Corruption> {
    let mut recovery = Recovery::new(TOPICS).replicated(SLOTS);
    let files = disk.dir(&config().dir);
    let mut replayed = Vec::new();
    for (sequence, name) in segment_files(files.keys().cloned()) {
        recovery.items(sequence, files[&name], |item| match item {
            RecoveredItem::Batch { found, .. } => {
                replayed.extend(values_of_batch(found.partition, &found.batch));
            }
            RecoveredItem::Marker { group, .. } => {
                replayed.retain(|it: &Value| group_of(it.0, SLOTS) != group);
            }
        })?;
    }
    let recovered = recovery.finish();
    assert_eq!(recovered.incomplete_group(), None);
    Ok((recovered, replayed))
}

fn marker() -> Marker {
    Marker { replica: 1 << 16 | 3, voters: vec![1, 2, 3], ..Marker::default() }
}

/// Whether an operation writes a block.
fn is_block(op: &FileOp) -> bool {
    matches!(op, FileOp::Write { data, .. } if data.starts_with(b"MBLK"))
}
