//! Transactions in the slots of groups: compaction, snapshots, the running check and restarts
//! keep committed, aborted and pending offsets as they are.

use super::snapshots::stop;
use super::world::{GROUPS, PARTITIONS, Random, World, commit};
use crate::groups::Slots;
use crate::net::{Reply, VisibleAt};
use crate::placement::Slot;
use crate::shard::Shard;
use muster_codec::messages::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use muster_codec::record_batch::{EndTxnMarker, TransactionOutcome};
use muster_codec::records::{
    GroupRecord, OFFSETS_TOPIC, TransactionLogKey, TransactionLogValue, TransactionPartitions,
    TransactionRecord,
};
use muster_codec::{ErrorCode, Request, Response};
use muster_coordinator::{Caller, Producer, RequestId};
use muster_storage::snapshot::SNAPSHOT_FILE_NAME;
use muster_transactions::PartitionSet;
use muster_transactions::message::{Stamp, Verdict};

const PRODUCERS: u64 = 6;

/// Begins the transaction of a producer in all slots, by a record of its coordinator. As the
/// coordinator knows the transaction, its offsets stay pending after a restart.
fn begin(world: &mut World, producer_id: i64) {
    let transactional_id = format!("t{producer_id}");
    let partition = world.common.placement.transactions_partition(&transactional_id);
    let partitions =
        TransactionPartitions { topic: OFFSETS_TOPIC.into(), partition_ids: (0..4).collect() };
    let value = TransactionLogValue {
        producer_id,
        producer_epoch: 1,
        transaction_timeout_ms: 900_000,
        transaction_status: ONGOING,
        transaction_partitions: Some(vec![partitions]),
        transaction_last_update_timestamp_ms: world.now,
        transaction_start_timestamp_ms: world.now,
        ..Default::default()
    };
    let key = TransactionLogKey { transactional_id: transactional_id.into() };
    let record = TransactionRecord { key, value: Some(value) };
    let log = world.shard.runtime.log_mut();
    log.append(partition.log_partition(), world.now, [&record]).unwrap();
}

/// The status in the record of an open transaction.
const ONGOING: i8 = 1;

/// A shard, and the state that replay of its log should result in.
struct Story {
    world: World,
    expected: Slots,
    random: Random,
}

impl Story {
    fn new(seed: u64, configs: &[&str]) -> Self {
        let mut world = World::new(configs);
        (0..PRODUCERS).for_each(|id| begin(&mut world, id as i64));
        world.turn();
        world.pass(10);
        world.restart();
        let expected = Slots::new(&world.common.config, world.common.placement, 0);
        Self { world, expected, random: Random(seed) }
    }

    /// Commits an offset, deletes one, adds one to a transaction, or ends a transaction.
    fn change(&mut self) {
        let random = &mut self.random;
        let (group, partition) = (random.below(GROUPS / 4), random.below(PARTITIONS));
        let offset = random.below(1_000) as i64;
        let producer = Producer { id: random.below(PRODUCERS) as i64, epoch: 1 };
        if self.world.shard.runtime.is_closed() {
            return self.world.turn();
        }
        match self.random.below(10) {
            0 => self.append(None, &commit(group, partition, None)),
            1..4 => self.append(None, &commit(group, partition, Some(offset))),
            4..8 => self.append(Some(producer), &commit(group, partition, Some(offset))),
            _ => {
                let slot = Slot(self.random.below(4) as u32);
                self.end(slot, producer);
            }
        }
        self.world.turn();
    }

    fn append(&mut self, producer: Option<Producer>, record: &GroupRecord<'_>) {
        let slot = self.world.common.placement.group_slot(record.group_id());
        self.world.append_of(slot, producer, std::slice::from_ref(record));
        self.expected.on(slot, |coordinator, _| match producer {
            None => coordinator.replay(record, 0),
            Some(producer) => coordinator.replay_in_transaction(producer, record, 0),
        });
    }

    fn end(&mut self, slot: Slot, producer: Producer) {
        let commits = self.random.below(3) > 0;
        let outcome = if commits { TransactionOutcome::Commit } else { TransactionOutcome::Abort };
        let marker = EndTxnMarker { outcome, coordinator_epoch: 2 };
        self.world.end_transaction(slot, producer, marker);
        self.expected.on(slot, |coordinator, _| {
            coordinator.replay_end_transaction(producer.id, outcome, 0);
        });
    }

    /// The transactions that are open, with their first offsets.
    fn places(&self) -> Vec<(Slot, (i64, i16), i64)> {
        self.world.shard.inspect().open_transactions().collect()
    }

    /// Compares all groups with the expected state.
    fn check(&mut self) {
        let slots = self.world.shard.groups.slots_mut();
        for group in 0..GROUPS / 4 {
            let id = format!("g{group}");
            assert_eq!(slots.fingerprint(&id), self.expected.fingerprint(&id), "{id}");
        }
        for slot in self.world.common.placement.slots_of(0) {
            let open = |slots: &mut Slots| {
                slots.on(slot, |coordinator, _| {
                    let open = coordinator.open_transactions();
                    open.map(|it| (it.producer, it.group_id.to_owned())).collect::<Vec<_>>()
                })
            };
            assert_eq!(open(slots), open(&mut self.expected), "{slot:?}");
        }
    }
}

#[test]
fn a_restart_finds_what_is_committed_and_what_is_pending() {
    let (mut pending, mut places_found, mut snapshots) = (0, 0, 0);
    for (seed, retention_ms) in [(1, 0), (2, 50), (3, 86_400_000), (4, 0)] {
        let retention = format!("log.cleaner.delete.retention.ms={retention_ms}");
        let mut story = Story::new(seed, &[&retention]);
        let mut compared = 0;
        for round in 0..6 {
            for _ in 0..500 {
                story.change();
                let ms = story.random.below(3) as i64;
                story.world.pass(ms);
            }
            story.check();
            if round % 2 > 0 {
                story.world.pass(20_000);
            }
            assert!(!story.world.is_failed(), "seed {seed}");
            compared += story.world.shard.inspect().groups_checked();
            let places = story.places();
            story.world.restart();
            story.check();
            assert_eq!(story.places(), places, "seed {seed}, round {round}");
            places_found += places.len();
            pending += story.world.shard.groups.slots().counters().gauges.pending_offsets;
        }
        assert!(compared > 0, "seed {seed}: no group was compared with the log");
        assert!(story.world.swaps > 0, "seed {seed}: no segment was compacted");
        snapshots += story.world.unloaded;
    }
    assert!(pending > 0, "no restart found a pending offset");
    assert!(places_found > 0 && snapshots > 0, "no restart found the places of transactions");
}

#[test]
fn a_rewrite_of_the_log_keeps_what_is_committed_and_what_is_pending() {
    let mut pending = 0;
    for seed in 1..=4 {
        let (mut story, mut rewritten) = (Story::new(seed, &[]), 0);
        for round in 0..6 {
            for step in 0..300 {
                if step == 100 {
                    story.world.shard.upkeep.rewrite("a test");
                }
                story.change();
                let ms = story.random.below(3) as i64;
                story.world.pass(ms);
            }
            pending += story.world.shard.groups.slots().counters().gauges.pending_offsets;
            story.world.pass(if round % 2 > 0 { 20_000 } else { 3 });
            assert!(!story.world.is_failed(), "seed {seed}, round {round}");
            rewritten += story.world.totals().of("log_rewritten");
            story.check();
            if round % 3 > 0 {
                let _absent = std::fs::remove_file(story.world.path(SNAPSHOT_FILE_NAME));
            }
            story.world.restart();
            story.check();
        }
        assert!(rewritten >= 3, "seed {seed}: {rewritten} times");
    }
    assert!(pending > 0, "no rewrite found a pending offset");
}

/// Commits an offset of group `g1` in a transaction. The coordinator permits it to the producer.
pub(super) fn commit_in_transaction(world: &mut World, metadata: &str) -> (Vec<i16>, VisibleAt) {
    let (is_asked, errors, visible_at) = commit_or_ask(world, metadata);
    assert!(is_asked);
    (errors, visible_at)
}

/// Like [`commit_in_transaction`]; also returns whether the coordinator was asked.
fn commit_or_ask(world: &mut World, metadata: &str) -> (bool, Vec<i16>, VisibleAt) {
    let partition = TxnOffsetCommitRequestPartition {
        partition_index: 3,
        committed_offset: 70,
        committed_leader_epoch: -1,
        committed_metadata: Some(metadata.to_owned().into()),
    };
    let topic = TxnOffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..Default::default()
    };
    let request = TxnOffsetCommitRequest {
        group_id: "g1".into(),
        producer_id: PRODUCER.id,
        producer_epoch: PRODUCER.epoch,
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    let caller = Caller {
        request: RequestId { connection: 0, sequence: 0 },
        api_version: 3,
        client_id: "c",
        client_host: "/127.0.0.1",
        describes: None,
    };
    let mut body = Vec::new();
    Request::from(request.clone()).write(caller.api_version, &mut body).unwrap();
    let mut reply = None;
    let mut take = |it: Reply<'_>| match it.response {
        Response::TxnOffsetCommit(response) => {
            let partitions = response.topics.into_iter().flat_map(|topic| topic.partitions);
            reply = Some((partitions.map(|it| it.error_code).collect(), it.visible_at));
        }
        other => panic!("{other:?}"),
    };
    let (groups, inputs, _) = world.shard.of_groups();
    let question = groups.txn_offset_commit(inputs, caller, &body, request, &mut take);
    let is_asked = question.is_some();
    if let Some(question) = question {
        let verdict = Verdict {
            stamp: Stamp { coordinator_epoch: 1, sequence: 1 },
            number: question.number,
            producer: question.producer,
            error: ErrorCode::None,
            refused: PartitionSet::default(),
        };
        let (groups, inputs, _) = world.shard.of_groups();
        groups.verdict(inputs, &verdict, &mut take);
    }
    let (errors, visible_at) = reply.unwrap();
    (is_asked, errors, visible_at)
}

pub(super) const PRODUCER: Producer = Producer { id: 7, epoch: 2 };

fn pending(world: &World) -> u64 {
    world.shard.groups.slots().counters().gauges.pending_offsets
}

#[test]
fn an_offset_of_a_transaction_is_committed_by_its_marker() {
    let mut world = World::new(&["num.partitions=4"]);
    world.create_topic("t");
    let slot = world.common.placement.group_slot("g1");
    let (errors, visible_at) = commit_in_transaction(&mut world, "");
    assert_eq!(errors, [0]);
    assert_eq!(
        visible_at,
        VisibleAt::position(slot.log_slot(), world.shard.runtime.position(slot.log_partition()))
    );
    assert_eq!((world.committed(1, 3), pending(&world)), (None, 1));
    let marker = EndTxnMarker { outcome: TransactionOutcome::Commit, coordinator_epoch: 2 };
    let marked = world.end_transaction(slot, PRODUCER, marker);
    assert_eq!(marked, world.shard.runtime.position(slot.log_partition()));
    assert_eq!((world.committed(1, 3), pending(&world)), (Some(70), 0));
    world.turn();
    world.pass(10);
    world.restart();
    assert_eq!((world.committed(1, 3), pending(&world)), (Some(70), 0));
}

#[test]
fn offsets_are_written_without_a_question_if_the_config_says_so() {
    let config = "transaction.partition.verification.enable=false";
    let mut world = World::new(&["num.partitions=4", config]);
    world.create_topic("t");
    let (is_asked, errors, _) = commit_or_ask(&mut world, "");
    assert_eq!((is_asked, errors, pending(&world)), (false, vec![0], 1));
    let slot = world.common.placement.group_slot("g1");
    let described = world.producers_of(slot);
    assert!(described[0].current_txn_start_offset >= 0, "the transaction is open");
}

#[test]
fn an_offset_of_a_transaction_that_is_not_written_is_an_error() {
    let mut world = World::new(&["num.partitions=4", "offset.metadata.max.bytes=20000"]);
    world.create_topic("t");
    let (errors, _) = commit_in_transaction(&mut world, &"m".repeat(9_000));
    assert_eq!(errors, [ErrorCode::UnknownServerError as i16]);
    assert_eq!(pending(&world), 0);
    assert_eq!(world.shard.groups.slots().groups(), 0, "the group that it would have created");
    let (errors, _) = commit_in_transaction(&mut world, "");
    assert_eq!((errors, pending(&world)), (vec![0], 1));
}

/// An open transaction: its producer, its first offset, and the time of its last record.
type OpenTransaction = (i64, i64, i64);

/// The transactions of a slot as clients see them: the last stable offset, the open transactions
/// that DescribeProducers lists, and the aborted transaction at two offsets.
fn seen(world: &mut World, slot: Slot) -> (i64, Vec<OpenTransaction>, [Option<i64>; 2]) {
    let described = world.producers_of(slot);
    let open = described.iter().filter(|it| it.current_txn_start_offset >= 0);
    let open = open.map(|it| (it.producer_id, it.current_txn_start_offset, it.last_timestamp));
    let open = open.collect();
    let aborted = [0, 3].map(|offset| world.shard.groups.aborted_at(slot, 8, offset));
    let Shard { groups, runtime, .. } = &mut world.shard;
    (groups.stable_offset(runtime, slot), open, aborted)
}

/// The time of the records of these tests.
const NOW: i64 = 1_020;

/// A slot with offsets from outside of transactions, from an aborted transaction and from an open
/// one.
fn with_open_and_aborted() -> (World, Slot) {
    let mut world = World::new(&["num.partitions=4"]);
    [7, 9].iter().for_each(|id| begin(&mut world, *id));
    world.turn();
    world.pass(10);
    world.restart();
    world.pass(10);
    assert_eq!(world.now, NOW);
    let slot = world.common.placement.group_slot("g1");
    let [open, aborted] = [7, 8].map(|id| Producer { id, epoch: 1 });
    world.append_of(slot, Some(aborted), &[commit(1, 1, Some(10))]);
    world.append_of(slot, None, &[commit(1, 0, Some(10))]);
    world.append_of(slot, Some(open), &[commit(1, 2, Some(10))]);
    world.append_of(slot, Some(aborted), &[commit(1, 1, Some(11))]);
    let marker = EndTxnMarker { outcome: TransactionOutcome::Abort, coordinator_epoch: 3 };
    world.end_transaction(slot, aborted, marker);
    world.turn();
    world.pass(10);
    (world, slot)
}

#[test]
fn the_places_of_transactions_are_those_of_the_log_after_startup() {
    let (mut world, slot) = with_open_and_aborted();
    let expected = (2, vec![(7, 2, NOW)], [Some(0), Some(0)]);
    assert_eq!(seen(&mut world, slot), expected);
    for _ in 0..2 {
        world.restart();
        world.pass(10);
        assert_eq!(seen(&mut world, slot), expected);
    }
    let marker = EndTxnMarker { outcome: TransactionOutcome::Commit, coordinator_epoch: 3 };
    let producer = Producer { id: 7, epoch: 1 };
    world.end_transaction(slot, producer, marker);
    world.turn();
    world.pass(10);
    world.restart();
    world.pass(10);
    assert_eq!(seen(&mut world, slot), (6, Vec::new(), [Some(0), Some(0)]));
}

#[test]
fn the_places_of_transactions_are_in_a_snapshot() {
    let (world, slot) = with_open_and_aborted();
    let expected = (2, vec![(7, 2, NOW)], [Some(0), Some(0)]);
    let mut world = stop(world);
    world.restart();
    world.pass(10);
    assert!(world.unloaded > 0, "there is a snapshot");
    assert_eq!(seen(&mut world, slot), expected);
    let first = world.shard.runtime.log().log_end_offset(slot.log_partition());
    let (now, later) = (world.now, Producer { id: 9, epoch: 1 });
    world.append_of(slot, Some(later), &[commit(1, 3, Some(10))]);
    world.turn();
    world.pass(10);
    let with_later = (2, vec![(7, 2, NOW), (9, first, now)], [Some(0), Some(0)]);
    assert_eq!(seen(&mut world, slot), with_later);
    world.restart();
    world.pass(10);
    assert_eq!(seen(&mut world, slot), with_later, "a snapshot, and the log after it");

    world.shard.upkeep.give_up("a test wants it");
    world.turn();
    world.pass(10);
    assert!(!world.path(SNAPSHOT_FILE_NAME).exists(), "it is put aside");
    for _ in 0..2 {
        world.restart();
        world.pass(10);
        assert_eq!(seen(&mut world, slot), with_later, "the log alone");
    }
}
