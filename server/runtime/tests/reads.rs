//! Reads of the log of toy machines.

#![allow(clippy::unwrap_used)]

mod toys;

use muster_codec::record_batch::{Batches, EndTxnMarker, Producer, TransactionOutcome};
use muster_runtime::{LogBatches, LogRead, LogReads, Runtime, Topic};
use muster_storage::{FileDone, FileOp, FileToken, LogPartition};
use test_disk::Disk;
use toys::{Toys, record, runtime, small_log};

const TOKEN: FileToken = FileToken(7 << 56);

const INDEX: u32 = 3;

const TALLY: LogPartition = LogPartition { topic: 0, index: INDEX };

struct World {
    runtime: Runtime,
    reads: LogReads,
    disk: Disk,
    toys: Toys,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            runtime: runtime(small_log()),
            reads: LogReads::default(),
            disk: Disk::default(),
            toys: Toys::new(),
        };
        world.flush();
        world
    }

    /// Makes all appended operations durable.
    fn flush(&mut self) {
        loop {
            let mut ops = Vec::new();
            self.runtime.poll(0, &mut ops);
            if ops.is_empty() {
                return;
            }
            for done in self.disk.perform_all(ops) {
                self.runtime.done(done);
            }
        }
    }

    /// Appends a record, in a transaction of the producer if there is one.
    fn append(&mut self, producer: Option<i64>) {
        let (Self { runtime, toys: Toys { tallies, .. }, .. }, operation) = (self, [record(3)]);
        let operations = [&operation[..]];
        match producer {
            None => runtime.append(tallies, INDEX, 0, operations),
            Some(id) => {
                let producer = Producer { id, epoch: 0 };
                runtime.append_in_transaction(tallies, INDEX, 0, producer, operations)
            }
        }
        .unwrap();
    }

    fn read(&mut self, stable: Option<i64>) -> LogBatches {
        let (token, partition) = (TOKEN, TALLY);
        let read = LogRead { token, partition, offset: 0, max_bytes: 10_000, stable };
        let mut ops = Vec::new();
        assert!(self.reads.begin(self.runtime.log_mut(), read, &mut ops));
        let done = self.disk.perform_all(ops).pop().unwrap();
        let Self { runtime, reads, toys, .. } = self;
        let (token, batches) = reads.take(runtime.log_mut(), toys, done).unwrap();
        assert_eq!(token, TOKEN);
        batches.unwrap()
    }
}

fn offsets(batches: &LogBatches) -> Vec<i64> {
    Batches::new(&batches.bytes).map(|it| it.unwrap().header.base_offset).collect()
}

#[test]
fn committed_records_end_at_the_last_stable_offset_and_name_what_was_aborted() {
    let mut world = World::new();
    let [dropped, aborted, open] = [9, 7, 8];
    let marker = EndTxnMarker { outcome: TransactionOutcome::Abort, coordinator_epoch: 0 };
    world.append(Some(aborted));
    let producer = Producer { id: aborted, epoch: 0 };
    world.runtime.append_marker(&mut world.toys.tallies, INDEX, 0, producer, marker);
    world.append(Some(open));
    world.append(None);
    world.flush();
    world.toys.tallies.on(INDEX, |tally, _| tally.aborted = [(aborted, 0), (dropped, 0)].into());
    let all = world.read(None);
    assert_eq!((offsets(&all), all.aborted.len()), (vec![0, 1, 2, 3], 0));
    let committed = world.read(Some(2));
    assert_eq!(offsets(&committed), [0, 1]);
    let named = committed.aborted.iter().map(|it| (it.producer_id, it.first_offset));
    assert_eq!(named.collect::<Vec<_>>(), [(aborted, 0)], "not those of which nothing is left");
}

/// A topic may have partitions without a machine: there may be more partitions of the share states
/// than machines.
#[test]
fn a_partition_without_a_machine_has_an_end() {
    let Toys { mut tallies, .. } = Toys::new();
    let topic: &mut dyn Topic = &mut tallies;
    assert_eq!((topic.stable_offset(9_999, 5), topic.aborted(9_999, 7, 0)), (5, None));
}

#[test]
fn completions_of_other_operations_are_returned() {
    let mut world = World::new();
    world.append(None);
    world.flush();
    let read = LogRead { token: TOKEN, partition: TALLY, offset: 0, max_bytes: 10, stable: None };
    let mut ops: Vec<FileOp> = Vec::new();
    assert!(world.reads.begin(world.runtime.log_mut(), read, &mut ops));
    let other = FileDone::ReadFailed { token: FileToken(1), reason: "EIO".to_owned() };
    let World { runtime, reads, toys, .. } = &mut world;
    assert!(reads.take(runtime.log_mut(), toys, other).is_err());
    let failed = FileDone::ReadFailed { token: TOKEN, reason: "EIO".to_owned() };
    let (_, batches) = reads.take(runtime.log_mut(), toys, failed).unwrap();
    assert_eq!(batches.unwrap_err(), "EIO");
    let nothing = LogRead { partition: LogPartition { topic: 1, index: 1 }, ..read };
    assert!(!reads.begin(runtime.log_mut(), nothing, &mut ops));
}
