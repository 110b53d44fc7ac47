//! Random histories. The compacted log and the full log must replay to the same state, and recovery
//! must use the segment index of a snapshot only while it is valid.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    Disk, SHARE_STATE, State, TOPICS, compact, compacting_config, open, part, records, recover,
    recover_by, settle,
};
use muster_codec::record_batch::{Batches, EndTxnMarker, Producer, TransactionOutcome};
use muster_storage::{
    CompactionConfig, FileDone, FileToken, KnownSegments, LogConfig, Recovered, Recovery,
    SegmentWalk, ShardLog,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Operation {
    /// One operation. Each of its records is a key and the length of a value, or None for a
    /// tombstone.
    Append { partition: i32, records: Vec<(u8, Option<usize>)> },
    /// One operation in a producer's transaction.
    Transact { partition: i32, producer: i64, records: Vec<(u8, usize)> },
    /// The end of the producer's transaction, if one is open.
    End { partition: i32, producer: i64, outcome: TransactionOutcome },
    /// Takes a snapshot, after which markers up to its position may be dropped.
    Snapshot,
    /// Lets milliseconds pass.
    Wait(i64),
    /// One turn; its file operations are performed.
    Turn,
    /// Runs passes until none is due.
    Compact,
    /// Writes the segment index for a snapshot.
    Know,
    /// The process ends when all blocks are flushed. Compaction may be at any point.
    Crash { block_bytes: u32 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let value = prop_oneof![1 => Just(None), 4 => (0..1_200usize).prop_map(Some)];
    let records = prop::collection::vec((0..12u8, value), 1..4);
    let in_transaction = prop::collection::vec((0..12u8, 0..1_200usize), 1..4);
    let partition = prop_oneof![2 => -1..3, 1 => SHARE_STATE..SHARE_STATE + 2];
    let outcome = prop_oneof![
        2 => Just(TransactionOutcome::Commit),
        1 => Just(TransactionOutcome::Abort),
    ];
    prop_oneof![
        15 => (0..3i32, 0..3i64, in_transaction).prop_map(|(partition, producer, records)| {
            Operation::Transact { partition, producer, records }
        }),
        15 => (0..3i32, 0..3i64, outcome).prop_map(|(partition, producer, outcome)| {
            Operation::End { partition, producer, outcome }
        }),
        4 => Just(Operation::Snapshot),
        30 => (partition, records).prop_map(|(partition, records)| {
            Operation::Append { partition, records }
        }),
        20 => Just(Operation::Turn),
        3 => (1..200i64).prop_map(Operation::Wait),
        1 => Just(Operation::Compact),
        1 => Just(Operation::Know),
        1 => prop_oneof![4 => Just(512), 1 => Just(4096)]
            .prop_map(|block_bytes| Operation::Crash { block_bytes }),
    ]
}

/// The bytes of a key. In a partition of share state, it is the key of a snapshot or an update of
/// one of three share partitions.
fn key_of(partition: i32, key: u8) -> Vec<u8> {
    if partition < SHARE_STATE {
        return vec![key; 5];
    }
    let is_update = !key.is_multiple_of(4);
    vec![0, is_update.into(), key / 4]
}

/// Two logs with the same operations. Only one of them is compacted.
struct Twins {
    config: LogConfig,
    log: ShardLog,
    disk: Disk,
    full: ShardLog,
    full_disk: Disk,
    now: i64,
    /// The segment index of the last snapshot.
    known: Vec<u8>,
    /// The last snapshot: a state, and the position of the last operation that it contains.
    snapshot: (State, u64),
}

impl Twins {
    fn new(compaction: CompactionConfig) -> Self {
        let config = LogConfig { compaction: Some(compaction), ..compacting_config() };
        let new = |config: &LogConfig| ShardLog::new(config.clone(), Recovered::default());
        let full = LogConfig { compaction: None, ..config.clone() };
        Self {
            log: new(&config),
            full: new(&full),
            config,
            disk: Disk::default(),
            full_disk: Disk::default(),
            now: 1_000,
            known: Vec::new(),
            snapshot: (State::default(), 0),
        }
    }

    fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Append { partition, records } => self.append(*partition, records),
            Operation::Transact { partition, producer, records } => {
                self.transact(*partition, *producer, records);
            }
            Operation::End { partition, producer, outcome } => {
                self.end(*partition, *producer, *outcome);
            }
            Operation::Snapshot => self.take_snapshot(),
            Operation::Wait(ms) => self.now += ms,
            Operation::Turn => {
                self.now += 1;
                let mut ops = Vec::new();
                self.log.poll(self.now, &mut ops);
                for done in self.disk.perform_all(ops) {
                    self.log.done(done);
                }
            }
            Operation::Compact => compact(&mut self.log, &mut self.disk, &mut self.now),
            Operation::Know => self.know(),
            Operation::Crash { block_bytes } => self.crash(*block_bytes),
        }
    }

    fn know(&mut self) {
        self.known.clear();
        let mut walk = SegmentWalk::new(0, self.log.progress().accepted());
        while self.log.write_segments(&mut walk, &mut self.known).is_none() {}
    }

    fn append(&mut self, partition: i32, written: &[(u8, Option<usize>)]) {
        let of = |(key, len): &(u8, Option<usize>)| {
            (key_of(partition, *key), len.map(|len| vec![(len % 251) as u8; len]))
        };
        let written: Vec<_> = written.iter().map(of).collect();
        let records = || written.iter().map(|(key, value)| (key.as_slice(), value.as_deref()));
        if self.log.is_full() {
            settle(&mut self.log, &mut self.disk, self.now);
        }
        self.log.append(part(partition), self.now, records()).unwrap();
        self.full.append(part(partition), self.now, records()).unwrap();
        settle(&mut self.full, &mut self.full_disk, self.now);
    }

    fn transact(&mut self, partition: i32, producer: i64, written: &[(u8, usize)]) {
        let of = |(key, len): &(u8, usize)| (vec![*key; 5], vec![(len % 251) as u8; *len]);
        let written: Vec<_> = written.iter().map(of).collect();
        let records = || written.iter().map(|(key, value)| (&**key, Some(&**value)));
        if self.log.is_full() {
            settle(&mut self.log, &mut self.disk, self.now);
        }
        let (at, by) = (part(partition), Producer { id: producer, epoch: 0 });
        self.log.append_in_transaction(at, self.now, by, records()).unwrap();
        self.full.append_in_transaction(at, self.now, by, records()).unwrap();
        settle(&mut self.full, &mut self.full_disk, self.now);
    }

    fn end(&mut self, partition: i32, producer: i64, outcome: TransactionOutcome) {
        let marker = EndTxnMarker { outcome, coordinator_epoch: 3 };
        let (at, by) = (part(partition), Producer { id: producer, epoch: 0 });
        self.log.append_marker(at, self.now, by, marker);
        self.full.append_marker(at, self.now, by, marker);
        settle(&mut self.full, &mut self.full_disk, self.now);
    }

    fn take_snapshot(&mut self) {
        settle(&mut self.log, &mut self.disk, self.now);
        let position = self.log.progress().flushed();
        self.snapshot =
            (State::of(&recover(&self.full_disk, &self.config.dir).unwrap().1), position);
        self.log.keep_markers_after(position);
    }

    fn crash(&mut self, block_bytes: u32) {
        settle(&mut self.log, &mut self.disk, self.now);
        self.disk.crash();
        self.config.block_bytes = block_bytes;
        self.disk.block_bytes = block_bytes as usize;
        self.check();
        self.log = open(&self.disk, self.config.clone()).0;
        self.log.keep_markers_after(self.snapshot.1);
    }

    /// Checks that both logs replay to the same state, and that the compacted one contains no
    /// records that the other lacks.
    fn check(&self) {
        let (recovered, replayed) = recover(&self.disk, &self.config.dir).unwrap();
        let (full_recovered, full_replayed) = recover(&self.full_disk, &self.config.dir).unwrap();
        let (left, full) = (records(&replayed), records(&full_replayed));
        let state = State::of(&full_replayed);
        assert_eq!(State::of(&replayed), state);
        let (mut later, from) = self.snapshot.clone();
        if recovered.dropped_position() <= from {
            let after = replayed.iter().filter(|batch| batch.position > from);
            after.for_each(|batch| later.replay(batch));
            assert_eq!(later, state, "from the snapshot");
        }
        left.iter().for_each(|(at, record)| assert_eq!(Some(record), full.get(at)));
        assert_eq!(recovered.position(), full_recovered.position());
        let ends = |recovered: &Recovered| recovered.partitions().collect::<Vec<_>>();
        assert_eq!(ends(&recovered), ends(&full_recovered));
        self.check_known(&recovered);
    }

    /// Checks that recovery with the segment index has the same result as without it.
    fn check_known(&self, recovered: &Recovered) {
        let known = KnownSegments::read(&self.known, TOPICS).unwrap();
        let recovery = Recovery::new(TOPICS).knowing(known);
        let (knowing, _) = recover_by(recovery, &self.disk, &self.config.dir).unwrap();
        let found = |it: &Recovered| format!("{it:?}").split(" ends: ").next().unwrap().to_owned();
        assert_eq!(found(&knowing), found(recovered));
    }

    /// Checks that fetches return exactly the batches that compaction has left.
    fn check_fetch(&mut self) {
        let (_, replayed) = recover(&self.disk, &self.config.dir).unwrap();
        for partition in (-1..3).chain(SHARE_STATE..SHARE_STATE + 2) {
            let batches = replayed.iter().filter(|batch| batch.partition == partition);
            let expected: BTreeMap<_, _> =
                batches.map(|batch| (batch.base_offset, batch.bytes.clone())).collect();
            assert_eq!(self.fetch(partition), expected);
        }
    }

    fn fetch(&mut self, partition: i32) -> BTreeMap<i64, Vec<u8>> {
        let (mut offset, mut found) = (0, BTreeMap::new());
        while offset < self.log.high_watermark(part(partition)) {
            let (mut ops, token) = (Vec::new(), FileToken(0));
            let plan = self.log.read_plan(part(partition), offset, 4_000, token, &mut ops).unwrap();
            let done = self.disk.perform_all(ops);
            self.log.end_read(&plan);
            let [FileDone::Read { data, .. }] = done.as_slice() else { panic!("{done:?}") };
            let mut bytes = Vec::new();
            plan.extract(data, &mut bytes).unwrap();
            for batch in Batches::new(&bytes) {
                let batch = batch.unwrap();
                offset = batch.header.next_offset();
                found.insert(batch.header.base_offset, batch.bytes.to_vec());
            }
        }
        found
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn the_compacted_log_makes_the_state_of_the_full_log(
        delete_retention_ms in prop_oneof![Just(0), Just(50), Just(100_000)],
        min_dirty_ratio in prop_oneof![Just(0.0), Just(0.5)],
        map_bytes in prop_oneof![Just(1), Just(1 << 20)],
        operations in prop::collection::vec(operation(), 1..500),
    ) {
        let rules = compacting_config().compaction.unwrap();
        let mut twins = Twins::new(CompactionConfig {
            delete_retention_ms, min_dirty_ratio, map_bytes, ..rules
        });
        for operation in &operations {
            twins.run(operation);
        }
        compact(&mut twins.log, &mut twins.disk, &mut twins.now);
        twins.check();
        twins.check_fetch();
        twins.crash(512);
        settle(&mut twins.log, &mut twins.disk, twins.now);
        twins.check_fetch();
    }
}
