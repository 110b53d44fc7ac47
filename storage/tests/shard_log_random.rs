//! Random operations and restarts of a shard's log, compared with a list of values for each
//! partition.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Disk, Replayed, open, part, recover, settle, small_config, values};
use muster_storage::{FileDone, FileToken, LogConfig, Recovered, ShardLog};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PARTITIONS: i32 = 4;

#[derive(Debug, Clone)]
enum Operation {
    Append {
        partition: i32,
        records: usize,
        bytes: usize,
    },
    /// Polls until no operation is left.
    Settle,
    /// Polls once and performs the operations.
    Poll,
    /// The process ends after all its writes. The next one opens the log with this block size.
    Reopen {
        block_bytes: u32,
    },
    Fetch {
        partition: i32,
        max_bytes: usize,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (-1..PARTITIONS, 1..4usize, 0..1_200usize)
            .prop_map(|(partition, records, bytes)| {
                Operation::Append { partition, records, bytes }
            }),
        2 => Just(Operation::Settle),
        3 => Just(Operation::Poll),
        1 => prop_oneof![4 => Just(512), 1 => Just(4096)]
            .prop_map(|block_bytes| Operation::Reopen { block_bytes }),
        1 => (-1..PARTITIONS, 0..5_000usize)
            .prop_map(|(partition, max_bytes)| Operation::Fetch { partition, max_bytes }),
    ]
}

/// The log, the disk, and the values that each partition must have.
struct World {
    log: ShardLog,
    disk: Disk,
    config: LogConfig,
    partitions: BTreeMap<i32, Vec<Vec<u8>>>,
    now: i64,
}

impl World {
    fn new(linger_ms: i32) -> Self {
        // The first segment must be able to hold a block of 4096 bytes, too.
        let config = LogConfig { linger_ms, first_segment_bytes: 8 << 10, ..small_config() };
        let log = ShardLog::new(config.clone(), Recovered::default());
        Self { log, disk: Disk::default(), config, partitions: BTreeMap::new(), now: 0 }
    }

    fn run(&mut self, operation: &Operation) {
        self.now += 1;
        match *operation {
            Operation::Append { partition, records, bytes } => {
                self.append(partition, records, bytes);
            }
            Operation::Settle => self.settle(),
            Operation::Poll => {
                let mut ops = Vec::new();
                self.log.poll(self.now, &mut ops);
                for done in self.disk.perform_all(ops) {
                    self.log.done(done);
                }
            }
            Operation::Reopen { block_bytes } => self.reopen(block_bytes),
            Operation::Fetch { partition, max_bytes } => self.fetch_all(partition, max_bytes),
        }
        let progress = self.log.progress();
        assert!(progress.accepted() >= progress.submitted());
        assert!(progress.submitted() >= progress.flushed());
    }

    fn append(&mut self, partition: i32, records: usize, bytes: usize) {
        if self.log.is_full() {
            self.settle();
        }
        let written = self.partitions.entry(partition).or_default();
        let first = written.len();
        for number in first..first + records {
            let mut value = number.to_be_bytes().to_vec();
            value.resize(8 + bytes, number as u8);
            written.push(value);
        }
        let records = written[first..].iter().map(|value| (&b"k"[..], Some(value.as_slice())));
        self.log.append(part(partition), self.now, records).unwrap();
    }

    fn settle(&mut self) {
        self.now += 1_000;
        settle(&mut self.log, &mut self.disk, self.now);
        assert_eq!(self.log.progress().flushed(), self.log.progress().accepted());
    }

    fn reopen(&mut self, block_bytes: u32) {
        self.settle();
        self.disk.crash();
        self.config.block_bytes = block_bytes;
        let position = self.log.progress().accepted();
        let (log, replayed) = open(&self.disk, self.config.clone());
        assert_eq!(log.progress().accepted(), position);
        self.log = log;
        self.check(&replayed);
        self.settle();
    }

    fn check(&self, replayed: &[Replayed]) {
        for (partition, expected) in &self.partitions {
            let batches = replayed.iter().filter(|batch| batch.partition == *partition);
            let found: Vec<_> = batches.flat_map(|batch| values(&batch.bytes)).collect();
            assert_eq!(&found, expected, "partition {partition}");
        }
    }

    fn fetch_all(&mut self, partition: i32, max_bytes: usize) {
        let end = self.log.high_watermark(part(partition)) as usize;
        let mut found: Vec<Vec<u8>> = Vec::new();
        while found.len() < end {
            let mut ops = Vec::new();
            let (offset, token) = (found.len() as i64, FileToken(0));
            let plan =
                self.log.read_plan(part(partition), offset, max_bytes, token, &mut ops).unwrap();
            let done = self.disk.perform_all(ops);
            let [FileDone::Read { data, .. }] = done.as_slice() else { panic!("{done:?}") };
            let mut bytes = Vec::new();
            plan.extract(data, &mut bytes).unwrap();
            for batch in muster_codec::record_batch::Batches::new(&bytes) {
                found.extend(values(batch.unwrap().bytes));
            }
        }
        if end > 0 {
            assert_eq!(found, self.partitions[&partition][..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_log_holds_the_appended_records(
        linger_ms in prop_oneof![Just(-1), Just(0), Just(5)],
        operations in prop::collection::vec(operation(), 1..200),
    ) {
        let mut world = World::new(linger_ms);
        for operation in &operations {
            world.run(operation);
        }
        world.settle();
        for partition in -1..PARTITIONS {
            world.fetch_all(partition, 2_000);
        }
        let (_, replayed) = recover(&world.disk, &world.config.dir).unwrap();
        world.check(&replayed);
    }

    #[test]
    fn any_bytes_in_a_segment_are_recovered_or_refused(
        seed in prop::collection::vec((0..8_192usize, any::<u8>()), 1..20),
    ) {
        let mut world = World::new(-1);
        for partition in 0..8 {
            world.append(partition % 3, 2, 400);
            world.settle();
        }
        let (name, _) = world.disk.live.first_key_value().unwrap();
        let name = name.clone();
        for (at, byte) in seed {
            world.disk.live.get_mut(&name).unwrap()[at] = byte;
        }
        let _ = recover(&world.disk, &world.config.dir);
    }
}
