//! Random batches. They are compacted at any time, and crash images are checked at every file
//! operation. Readers must find the newest record of each key, and all else that they may expect.

#![allow(clippy::unwrap_used)]

mod common;

use common::compacting::{Compacting, KeyAndValue, Made, Read};
use common::partition::World;
use muster_codec::record_batch::{Batches, Compression};
use muster_storage::partition_log::{Compaction, CompactionEnd, LastOfProducer, Slice};
use muster_storage::{CompactionConfig, FileOp, FileToken, TopicConfig};
use std::collections::BTreeMap;

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % end
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// An appended record.
#[derive(Debug, Clone)]
struct Appended {
    read: Read,
    /// The index of its transaction, if any.
    transaction: Option<usize>,
}

/// A transaction: its producer id, its first offset, and the offset and the outcome of its marker.
#[derive(Debug, Clone, Copy)]
struct Transaction {
    producer: i64,
    first: i64,
    end: Option<(i64, bool)>,
}

struct History {
    world: World,
    random: Random,
    now: i64,
    appended: Vec<Appended>,
    transactions: Vec<Transaction>,
    /// The last batch of each producer: its last offset and last sequence number.
    sequences: BTreeMap<i64, (i64, i32)>,
    pass: Option<Compaction>,
    images: usize,
    passes: usize,
    /// The log start offset before the operations that are being performed.
    starts_at: i64,
    /// The number of segments that retention dropped.
    dropped: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut world = World::new(TopicConfig { segment_bytes: 2_500, ..TopicConfig::default() });
        world.known.rules = CompactionConfig {
            delete_retention_ms: 40,
            map_bytes: 1 << 20,
            min_dirty_ratio: 0.0,
            ..CompactionConfig::default()
        };
        Self {
            world,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now: 1_000,
            appended: Vec::new(),
            transactions: Vec::new(),
            sequences: BTreeMap::new(),
            pass: None,
            images: 0,
            passes: 0,
            starts_at: 0,
            dropped: 0,
        }
    }

    fn turn(&mut self) {
        self.now += 1;
        match self.random.below(12) {
            0 => self.end_transaction(),
            1 => self.world.store_point(),
            2 if self.random.chance(12) => self.delete_records(),
            2 if self.random.chance(12) => self.retain(),
            3 if self.pass.is_none() => self.begin(),
            4..8 => self.slice(),
            _ => self.append(),
        }
    }

    fn append(&mut self) {
        let count = 1 + self.random.below(4);
        let records: Vec<_> = (0..count).map(|_| self.record()).collect();
        let codec = CODECS[self.random.below(5) as usize];
        let producer = match self.random.below(4) {
            0 => None,
            by => Some(by as i64),
        };
        // The third producer writes only in transactions.
        let transaction = producer.filter(|it| *it == 3 || self.open(*it).is_some());
        let sequence = producer.map(|id| (id, 0, self.next_sequence(id)));
        let mut made = Made { records, time: self.now, codec, producer: sequence, ..Made::of(&[]) };
        made.transaction = transaction;
        let mut batch = made.batch();
        if let (Some(id), Some((_, _, sequence))) = (transaction, sequence) {
            let mut header = Batches::new(&batch).next().unwrap().unwrap().header;
            (header.producer_id, header.base_sequence) = (id, sequence);
            header.write(&mut batch);
        }
        let at = self.world.append(batch);
        if let Some(id) = producer {
            let last = at.next_offset - 1;
            self.sequences.insert(id, (last, self.next_sequence(id) + count as i32 - 1));
            self.world.producers.insert(id, LastOfProducer::Data(last));
        }
        let transaction = transaction.map(|id| self.open_at(id, at.base_offset));
        for (offset, (key, value)) in (at.base_offset..).zip(made.records) {
            self.appended.push(Appended { read: (offset, key.unwrap(), value), transaction });
        }
    }

    fn record(&mut self) -> KeyAndValue {
        let key = format!("key {}", self.random.below(6)).into_bytes();
        let len = self.random.below(90) as usize;
        let value = vec![b'a' + (self.random.below(26) as u8); len];
        (Some(key), (!self.random.chance(4)).then_some(value))
    }

    fn next_sequence(&self, producer: i64) -> i32 {
        self.sequences.get(&producer).map_or(0, |(_, last)| last + 1)
    }

    fn open(&self, producer: i64) -> Option<usize> {
        self.transactions.iter().position(|it| it.producer == producer && it.end.is_none())
    }

    fn open_at(&mut self, producer: i64, first: i64) -> usize {
        self.open(producer).unwrap_or_else(|| {
            self.transactions.push(Transaction { producer, first, end: None });
            self.transactions.len() - 1
        })
    }

    fn end_transaction(&mut self) {
        let Some(open) = self.transactions.iter().position(|it| it.end.is_none()) else { return };
        let Transaction { producer, first, .. } = self.transactions[open];
        let commits = !self.random.chance(3);
        let offset = self.world.append(Made::marker(producer, commits)).base_offset;
        self.transactions[open].end = Some((offset, commits));
        if !commits {
            self.world.aborted.push((producer, first..offset));
        }
    }

    fn delete_records(&mut self) {
        let end = self.world.log.high_watermark() as u64;
        let offset = self.random.below(end / 2 + 1) as i64;
        self.world.delete_records(offset);
        self.starts_at = self.world.log.log_start_offset();
    }

    /// Drops the first segments because of `retention.bytes`. Checks crash images at every file
    /// operation.
    fn retain(&mut self) {
        let kept = self.random.below(self.world.log.size()) as i64;
        let config = TopicConfig { segment_bytes: 2_500, ..TopicConfig::default() };
        self.world.log.set_config(TopicConfig { retention_bytes: kept, ..config });
        let mut ops = Vec::new();
        let World { log, files, .. } = &mut self.world;
        self.dropped += log.retain(self.now, files, &mut ops);
        log.set_config(config);
        for op in ops {
            self.check_images(&op);
            self.world.perform(vec![op]);
        }
        self.starts_at = self.world.log.log_start_offset();
    }

    /// The first offset of all transactions without a durable marker. At most the high watermark.
    fn stable(&self) -> i64 {
        let durable = self.world.stored.map_or(0, |point| point.end.offset);
        let is_unstable = |it: &&Transaction| it.end.is_none_or(|(marker, _)| marker >= durable);
        let unstable = self.transactions.iter().filter(is_unstable).map(|it| it.first);
        unstable.min().unwrap_or(i64::MAX).min(self.world.log.high_watermark())
    }

    fn begin(&mut self) {
        self.world.stable = Some(self.stable());
        self.pass = self.world.begin(self.now);
    }

    fn slice(&mut self) {
        let Some(mut pass) = self.pass.take() else { return };
        let mut ops = Vec::new();
        let World { log, files, .. } = &mut self.world;
        let slice = log.compact(&mut pass, FileToken(3), files, &mut ops);
        for op in ops {
            self.check_images(&op);
            if let Some(done) = self.world.disk.perform(op) {
                pass.done(done);
            }
        }
        match slice {
            Slice::End(end) => {
                assert!(
                    matches!(end, CompactionEnd::Done(_) | CompactionEnd::Overtaken),
                    "{end:?}"
                );
                self.passes += usize::from(matches!(end, CompactionEnd::Done(_)));
                self.check_here();
            }
            Slice::Pause | Slice::Wait { .. } => self.pass = Some(pass),
        }
    }

    fn check_images(&mut self, op: &FileOp) {
        if matches!(op, FileOp::Read { .. } | FileOp::Open { .. } | FileOp::Close { .. }) {
            return;
        }
        let mut disks = vec![self.world.disk.clone(), self.world.disk.clone()];
        disks[1].crash();
        if let FileOp::Write { .. } = op {
            let mut torn = self.world.disk.clone();
            torn.tear(op, 512, |block| block % 2 == 0);
            torn.crash();
            disks.push(torn);
        }
        for (number, disk) in disks.into_iter().enumerate() {
            self.images += 1;
            let mut world = World::new(TopicConfig { segment_bytes: 2_500, ..Default::default() });
            (world.disk, world.known) = (disk, self.world.known.clone());
            world.reopen_stored().unwrap_or_else(|error| panic!("{error} before {op:?}"));
            let start = world.log.log_start_offset();
            // A power loss may undo the removal of files, and lose a log start offset that is not
            // synced.
            assert!(number > 0 || start >= self.starts_at, "dropped records are back: {op:?}");
            self.check(&mut world);
            let names: Vec<_> = world.disk.live.keys().collect();
            let left = names.iter().filter(|path| path.extension().is_none_or(|it| it != "log"));
            let left = left.filter(|path| !path.ends_with("log-start-offset")).count();
            assert_eq!(left, 0, "{names:?}");
        }
    }

    fn check_here(&mut self) {
        let mut world = World::new(TopicConfig { segment_bytes: 2_500, ..Default::default() });
        (world.disk, world.known) = (self.world.disk.clone(), self.world.known.clone());
        let start = self.world.log.log_start_offset();
        world.reopen_stored().unwrap();
        assert_eq!(world.log.log_end_offset(), self.world.log.log_end_offset());
        assert_eq!(world.log.log_start_offset(), start);
        assert_eq!(world.log.size(), self.world.log.size());
        assert_eq!(world.all_records(), self.world.all_records());
        self.check(&mut world);
    }

    /// Checks the records that readers find in a log that was opened in a state of this or an
    /// earlier time.
    fn check(&self, world: &mut World) {
        let (start, end) = (world.log.log_start_offset(), world.log.log_end_offset());
        let stored = world.stored.map_or(0, |point| point.end.offset);
        assert!(end >= stored, "the log ends at {end}, before {stored}");
        let there: BTreeMap<i64, Read> =
            world.all_records().into_iter().map(|read| (read.0, read)).collect();
        let mut newest: BTreeMap<&[u8], &Read> = BTreeMap::new();
        let in_log = |it: &&Appended| (start..end).contains(&it.read.0);
        for Appended { read, transaction } in self.appended.iter().filter(in_log) {
            if let Some(found) = there.get(&read.0) {
                assert_eq!(found, read, "another record");
            }
            let ended = transaction.map(|number| self.transactions[number].end);
            let is_open =
                ended.is_some_and(|end_of| end_of.is_none_or(|(marker, _)| marker >= end));
            if is_open {
                assert!(there.contains_key(&read.0), "{read:?} of an open transaction is gone");
            } else if ended.flatten().is_none_or(|(_, commits)| commits) {
                newest.insert(&read.1, read);
            }
        }
        for (key, read) in newest {
            if read.2.is_some() {
                assert!(there.contains_key(&read.0), "the newest of its key is gone: {read:?}");
            } else if !there.contains_key(&read.0) {
                let older =
                    there.values().find(|older| older.1 == key && self.is_committed(older.0));
                let later = older.filter(|older| older.0 < read.0);
                assert_eq!(later, None, "its tombstone {read:?} is gone");
            }
        }
        self.check_sequences(world, end);
        self.check_markers(world, end);
    }

    fn is_committed(&self, offset: i64) -> bool {
        let appended = self.appended.iter().find(|it| it.read.0 == offset).unwrap();
        appended
            .transaction
            .is_none_or(|number| self.transactions[number].end.is_some_and(|(_, commits)| commits))
    }

    /// Checks that the last batch of each producer exists.
    fn check_sequences(&self, world: &mut World, end: i64) {
        let headers = world.headers();
        for (id, (last_offset, sequence)) in &self.sequences {
            if *last_offset < end && *last_offset >= world.log.log_start_offset() {
                let of = headers.iter().rfind(|it| it.producer_id == *id && !it.is_control());
                let of = of.unwrap_or_else(|| panic!("no batch of producer {id}"));
                assert_eq!((of.last_offset(), of.last_sequence()), (*last_offset, *sequence));
            }
        }
    }

    /// Checks that no transactional batch lacks its marker.
    fn check_markers(&self, world: &mut World, end: i64) {
        let mut open: BTreeMap<i64, i64> = BTreeMap::new();
        for header in world.headers() {
            if header.is_control() {
                if header.records_count > 0 {
                    open.remove(&header.producer_id);
                }
            } else if header.is_transactional() {
                open.entry(header.producer_id).or_insert(header.base_offset);
            }
        }
        for (producer, offset) in open {
            let is_it = |it: &&Transaction| it.producer == producer && it.first <= offset;
            let transaction = self.transactions.iter().rfind(is_it).unwrap();
            let ended = transaction.end.filter(|(marker, _)| *marker < end);
            assert_eq!(ended, None, "the marker of {transaction:?} is gone");
        }
    }

    /// Compacts everything possible, twice. Then each key must have exactly one record.
    fn check_exactness(&mut self) {
        while self.pass.is_some() {
            self.slice();
        }
        while let Some(open) = self.transactions.iter().position(|it| it.end.is_none()) {
            let Transaction { producer, .. } = self.transactions[open];
            let offset = self.world.append(Made::marker(producer, true)).base_offset;
            self.transactions[open].end = Some((offset, true));
        }
        self.world.seal();
        self.world.seal();
        self.world.stable = Some(self.stable());
        self.world.compact(self.now);
        let clean_to = self.world.stored.unwrap().end.segment;
        let mut seen = BTreeMap::new();
        for (offset, key, _) in self.world.all_records() {
            let Some(appended) = self.appended.iter().find(|it| it.read.0 == offset) else {
                continue;
            };
            let number = appended.transaction;
            let is_aborted = number.is_some_and(|it| !self.transactions[it].end.unwrap().1);
            if offset < clean_to {
                assert!(!is_aborted, "offset {offset} was aborted");
                assert_eq!(seen.insert(key.clone(), offset), None, "an older record of {key:?}");
            }
        }
        self.check_here();
    }
}

#[test]
fn random_histories_survive_a_crash_at_every_operation_of_compaction() {
    let (mut images, mut passes, mut dropped) = (0, 0, 0);
    for seed in 0..25 {
        let mut history = History::new(seed);
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..400).for_each(|_| history.turn());
            history.check_exactness();
        }));
        assert!(run.is_ok(), "seed {seed}");
        images += history.images;
        passes += history.passes;
        dropped += history.dropped;
    }
    println!("{passes} passes, {images} images, {dropped} segments dropped");
    assert!(passes > 100 && dropped > 20, "{passes} passes, {dropped} segments dropped");
}
