//! Compares pending offsets with a model of Kafka: when a transaction commits, an offset counts
//! only if no later record has the same key. Covers normal work, recovery, and snapshots during
//! changes.
#![allow(clippy::unwrap_used)]

use common::call;
use muster_codec::messages::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use muster_codec::record_batch::{Batch, BatchBuilder, EndTxnMarker, TransactionOutcome};
use muster_codec::records::{
    GroupMetadataKey, GroupMetadataValue, GroupRecord, OffsetCommitKey, OffsetCommitValue,
};
use muster_codec::{ErrorCode, Response, Uuid, Wall};
use muster_coordinator::{
    Budget, Caller, Config, Context, Coordinator, DeletedTopic, Held, NoTopics, Output, Producer,
    RequestId,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

mod common;
mod snapshots;

use snapshots::Writing;

const GROUPS: [&str; 2] = ["a", "group"];
const TOPIC: &str = "t";
const PARTITIONS: i32 = 3;

/// A group and a partition.
type Slot = (usize, i32);

/// An entry of the log.
#[derive(Debug, Clone)]
enum Entry {
    Commit { slot: Slot, metadata: bool },
    Pending { producer: i64, slot: Slot, metadata: bool },
    Tombstone { slot: Slot },
    Marker { producer: i64, outcome: TransactionOutcome },
    Group { group: usize, is_tombstone: bool },
}

fn entry() -> impl Strategy<Value = Entry> {
    let (slot, producer) = ((0..GROUPS.len(), 0..PARTITIONS), 1..4i64);
    let outcome = prop_oneof![
        2 => Just(TransactionOutcome::Commit),
        1 => Just(TransactionOutcome::Abort),
    ];
    prop_oneof![
        3 => (slot.clone(), any::<bool>()).prop_map(|(slot, metadata)| {
            Entry::Commit { slot, metadata }
        }),
        8 => (producer.clone(), slot.clone(), any::<bool>()).prop_map(
            |(producer, slot, metadata)| Entry::Pending { producer, slot, metadata }
        ),
        1 => slot.prop_map(|slot| Entry::Tombstone { slot }),
        4 => (producer, outcome).prop_map(|(producer, outcome)| {
            Entry::Marker { producer, outcome }
        }),
        1 => (0..GROUPS.len(), any::<bool>()).prop_map(|(group, is_tombstone)| {
            Entry::Group { group, is_tombstone }
        }),
    ]
}

fn log() -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec(entry(), 1..60)
}

fn offset_record(slot: Slot, value: Option<OffsetCommitValue<'static>>) -> GroupRecord<'static> {
    let (group, partition) = slot;
    let key = OffsetCommitKey { group: GROUPS[group].into(), topic: TOPIC.into(), partition };
    GroupRecord::OffsetCommit(key, value)
}

/// The value that the entry at index `at` commits: its offset is `at`.
fn offset(at: usize, metadata: bool) -> Option<OffsetCommitValue<'static>> {
    let metadata = if metadata { "some".into() } else { "".into() };
    Some(OffsetCommitValue { offset: at as i64, metadata, ..Default::default() })
}

impl Entry {
    fn producer(&self) -> Option<Producer> {
        match self {
            Self::Pending { producer, .. } => Some(Producer { id: *producer, epoch: 7 }),
            _ => None,
        }
    }

    /// The record of an entry at index `at`; None for a marker.
    fn record(&self, at: usize) -> Option<GroupRecord<'static>> {
        Some(match *self {
            Self::Commit { slot, metadata } | Self::Pending { slot, metadata, .. } => {
                offset_record(slot, offset(at, metadata))
            }
            Self::Tombstone { slot } => offset_record(slot, None),
            Self::Group { group, is_tombstone } => {
                let value = GroupMetadataValue { generation: at as i32, ..Default::default() };
                let key = GroupMetadataKey { group: GROUPS[group].into() };
                GroupRecord::GroupMetadata(key, (!is_tombstone).then_some(value))
            }
            Self::Marker { .. } => return None,
        })
    }

    /// Applies the entry, with position `at + 1`.
    fn apply(&self, coordinator: &mut Coordinator, at: usize) {
        let position = at as u64 + 1;
        match (self, self.record(at), self.producer()) {
            (Self::Marker { producer, outcome }, ..) => {
                coordinator.replay_end_transaction(*producer, *outcome, position);
            }
            (_, Some(record), Some(producer)) => {
                coordinator.replay_in_transaction(producer, &record, position);
            }
            (_, Some(record), None) => coordinator.replay(&record, position),
            (_, None, _) => unreachable!("only a marker has no record"),
        }
    }

    /// Applies the entry as recovery does: as a batch that was read from the log.
    fn recover(&self, coordinator: &mut Coordinator, at: usize) {
        let mut recover = |batch: &[u8]| {
            let batch = Batch::read(batch).unwrap();
            let records = batch.records().unwrap();
            coordinator.replay_batch(&batch.header, records, at as u64 + 1).unwrap();
        };
        match (self, self.record(at)) {
            (Self::Marker { producer, outcome }, _) => {
                let marker = EndTxnMarker { outcome: *outcome, coordinator_epoch: 0 };
                recover(&marker.batch(*producer, 7, 0));
            }
            (_, record) => {
                let mut builder = BatchBuilder::default();
                builder.append(0, &record.unwrap());
                let mut bytes = builder.seal(0, 0).to_vec();
                if let Some(Producer { id, epoch }) = self.producer() {
                    let mut header = Batch::read(&bytes).unwrap().header;
                    header.set_transaction(id, epoch);
                    header.write(&mut bytes);
                }
                recover(&bytes);
            }
        }
    }
}

/// Kafka's state. Each offset is represented by the index of the entry that committed it.
#[derive(Debug, Default)]
struct Model {
    committed: BTreeMap<Slot, usize>,
    pending: BTreeMap<i64, BTreeMap<Slot, usize>>,
}

impl Model {
    fn apply(&mut self, entry: &Entry, at: usize) {
        match *entry {
            Entry::Commit { slot, .. } => {
                self.committed.insert(slot, at);
            }
            Entry::Pending { producer, slot, .. } => {
                self.pending.entry(producer).or_default().insert(slot, at);
            }
            Entry::Tombstone { slot } => {
                self.committed.remove(&slot);
                self.pending.values_mut().for_each(|of_producer| {
                    of_producer.remove(&slot);
                });
            }
            Entry::Marker { producer, outcome } => self.end(producer, outcome),
            Entry::Group { .. } => {}
        }
    }

    fn end(&mut self, producer: i64, outcome: TransactionOutcome) {
        let ended = self.pending.remove(&producer).unwrap_or_default();
        for (slot, at) in ended.into_iter().filter(|_| outcome == TransactionOutcome::Commit) {
            let committed = self.committed.entry(slot).or_insert(at);
            *committed = at.max(*committed);
        }
    }

    fn open(&self) -> BTreeSet<(i64, &'static str)> {
        let pending = self.pending.iter();
        pending.flat_map(|(id, slots)| slots.keys().map(|slot| (*id, GROUPS[slot.0]))).collect()
    }

    fn is_pending(&self, slot: Slot) -> bool {
        self.pending.values().any(|of_producer| of_producer.contains_key(&slot))
    }
}

/// Fetches the offsets of all partitions. Returns the error and the offset of each.
fn fetched(coordinator: &mut Coordinator, require_stable: bool) -> BTreeMap<Slot, (i16, i64)> {
    let all = |group: &&'static str| OffsetFetchRequestGroup {
        group_id: (*group).into(),
        topics: Some(vec![OffsetFetchRequestTopics {
            name: TOPIC.into(),
            partition_indexes: (0..PARTITIONS).collect(),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let groups = GROUPS.iter().map(all).collect();
    let request = OffsetFetchRequest { groups, require_stable, ..Default::default() };
    let id = RequestId { connection: 1, sequence: 1 };
    let caller =
        Caller { request: id, api_version: 9, client_id: "", client_host: "", describes: None };
    let ids = &mut common::NoIds;
    let output = call(coordinator, (0, 1_000), ids, &NoTopics, |coordinator, context| {
        coordinator.handle(context, caller, request.into())
    });
    let Response::OffsetFetch(response) = &output.answers[0].response else { panic!() };
    let groups = response.groups.iter().enumerate();
    let partitions = groups.flat_map(|(number, group)| {
        group.topics[0]
            .partitions
            .iter()
            .map(move |it| ((number, it.partition_index), (it.error_code, it.committed_offset)))
    });
    partitions.collect()
}

fn assert_as_in_kafka(coordinator: &mut Coordinator, model: &Model) {
    let slots = (0..GROUPS.len()).flat_map(|group| (0..PARTITIONS).map(move |it| (group, it)));
    let (committed, stable) = (fetched(coordinator, false), fetched(coordinator, true));
    for slot in slots {
        let expected = model.committed.get(&slot).map_or(-1, |at| *at as i64);
        assert_eq!(committed[&slot], (0, expected), "{slot:?}");
        let unstable = (ErrorCode::UnstableOffsetCommit as i16, -1);
        let expected = if model.is_pending(slot) { unstable } else { (0, expected) };
        assert_eq!(stable[&slot], expected, "stable {slot:?}");
    }
    let open = coordinator.open_transactions().map(|it| (it.producer.id, it.group_id));
    assert_eq!(open.collect::<BTreeSet<_>>(), model.open());
    let pending: usize = model.pending.values().map(BTreeMap::len).sum();
    assert_eq!(coordinator.counts().recounted.pending_offsets, pending as u64);
    assert_eq!(coordinator.held().pending_bytes > 0, pending > 0);
}

fn assert_alike(a: &mut Coordinator, b: &mut Coordinator) {
    for group in GROUPS {
        assert_eq!(a.fingerprint(group), b.fingerprint(group), "{group}");
    }
    assert!(a.open_transactions().eq(b.open_transactions()));
    assert_eq!(snapshots::durable(a), snapshots::durable(b));
    let held = [a.held(), b.held()].map(|held| held.pending_bytes);
    assert_eq!(held[0], held[1]);
    assert_eq!(b.damage(), None);
    for group in [None, Some(GROUPS[0])] {
        let audited = a.audit_after(group);
        assert!(audited.iter().all(|(_, audited)| audited.is_ok()), "{audited:?}");
        assert_eq!(b.audit_after(group), audited);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn offsets_are_those_of_kafka_after_each_entry(log in log()) {
        let (mut coordinator, mut model) = (Coordinator::new(Config::default()), Model::default());
        // Tombstones of groups are left out: a removed group would show none of its offsets. In a
        // real log, the tombstones of all its offsets come first.
        let is_deletion = |it: &Entry| matches!(it, Entry::Group { is_tombstone: true, .. });
        for (at, entry) in log.iter().filter(|it| !is_deletion(it)).enumerate() {
            entry.apply(&mut coordinator, at);
            model.apply(entry, at);
            assert_as_in_kafka(&mut coordinator, &model);
        }
    }

    #[test]
    fn the_durable_state_is_that_of_its_records(log in log()) {
        let (mut coordinator, mut again) =
            (Coordinator::new(Config::default()), Coordinator::new(Config::default()));
        let is_deletion = |it: &Entry| matches!(it, Entry::Group { is_tombstone: true, .. });
        for (at, entry) in log.iter().filter(|it| !is_deletion(it)).enumerate() {
            entry.apply(&mut coordinator, at);
        }
        for (producer, record) in coordinator.durable_state() {
            match producer {
                None => again.replay(&record, 1),
                Some(producer) => again.replay_in_transaction(producer, &record, 1),
            }
        }
        for group in GROUPS {
            prop_assert_eq!(coordinator.fingerprint(group), again.fingerprint(group), "{}", group);
        }
        prop_assert!(coordinator.open_transactions().eq(again.open_transactions()));
    }

    #[test]
    fn a_recovery_of_any_prefix_equals_normal_work(log in log(), snapshot_at in 0..60usize) {
        let mut live = Coordinator::new(Config::default());
        let mut recovered = Coordinator::new(Config::default());
        for (at, entry) in log.iter().enumerate() {
            if at == snapshot_at {
                let file = snapshots::snapshot(&mut recovered, at as u64);
                recovered = snapshots::open(Config::default(), &file).unwrap();
                prop_assert!(live.open_transactions().eq(recovered.open_transactions()));
            }
            entry.apply(&mut live, at);
            entry.recover(&mut recovered, at);
        }
        assert_alike(&mut live, &mut recovered);
    }

    #[test]
    fn a_snapshot_that_is_written_meanwhile_is_complete(
        log in log(),
        begin in 0..40usize,
        step in 1..4usize,
    ) {
        let mut live = Coordinator::new(Config::default());
        let (mut writing, mut file) = (Writing::begin(begin as u64), None);
        for (at, entry) in log.iter().enumerate() {
            if at >= begin && at.is_multiple_of(step) && file.is_none() {
                file = writing.write(&mut live, at as u64, 1).unwrap();
            }
            entry.apply(&mut live, at);
        }
        let last = log.len().max(begin) as u64;
        while file.is_none() {
            file = writing.write(&mut live, last, 1).unwrap();
        }
        let mut rest = snapshots::open(Config::default(), &file.unwrap()).unwrap();
        for (at, entry) in log.iter().enumerate().skip(begin) {
            entry.recover(&mut rest, at);
        }
        assert_alike(&mut live, &mut rest);
    }
}

/// A coordinator, and the budget that it shares with others.
struct Shard {
    coordinator: Coordinator,
    budget: Budget,
}

impl Shard {
    fn with(config: Config) -> Self {
        let mut coordinator = Coordinator::new(config);
        coordinator.loaded(0, Wall(0), &NoTopics);
        Self { coordinator, budget: Budget::default() }
    }

    fn call<T>(&mut self, act: impl FnOnce(&mut Coordinator, &mut Context<'_>) -> T) -> T {
        let (ids, topics, budget) = (&mut common::NoIds, &NoTopics, &mut self.budget);
        let context = &mut Context { now: 0, wall: Wall(0), position: 1, ids, topics, budget };
        act(&mut self.coordinator, context)
    }

    /// Sends a TxnOffsetCommit for the first `partitions`, without a member.
    fn commit(&mut self, group: &'static str, partitions: i32) -> Output<'static> {
        let partitions = (0..partitions).map(|partition_index| TxnOffsetCommitRequestPartition {
            partition_index,
            ..Default::default()
        });
        let topic = TxnOffsetCommitRequestTopic {
            name: TOPIC.into(),
            partitions: partitions.collect(),
            ..Default::default()
        };
        let request = TxnOffsetCommitRequest {
            group_id: group.into(),
            producer_id: 1,
            topics: vec![topic],
            ..Default::default()
        };
        let id = RequestId { connection: 1, sequence: 1 };
        let caller =
            Caller { request: id, api_version: 5, client_id: "", client_host: "", describes: None };
        self.call(|coordinator, context| coordinator.handle(context, caller, request.into()))
    }

    /// Commits offsets, and replays the records. Returns the errors.
    fn committed(&mut self, group: &'static str, partitions: i32) -> Vec<i16> {
        let output = self.commit(group, partitions);
        let producer = output.producer.unwrap();
        for record in &output.records {
            self.coordinator.replay_in_transaction(producer, record, 1);
        }
        let Response::TxnOffsetCommit(response) = &output.answers[0].response else { panic!() };
        response.topics[0].partitions.iter().map(|it| it.error_code).collect()
    }
}

#[test]
fn the_memory_of_pending_offsets_has_a_limit() {
    const FULL: i16 = ErrorCode::CoordinatorNotAvailable as i16;
    let mut shard = Shard::with(Config { pending_bytes_max: 1_000, ..Config::default() });
    assert_eq!(shard.committed("a", 5), [0, 0, 0, FULL, FULL]);
    assert_eq!(shard.committed("group", 1), [FULL]);
    assert!((700..=1_000).contains(&shard.coordinator.held().pending_bytes));
    assert_eq!(shard.coordinator.counters().gauges.pending_offsets, 3);

    shard.coordinator.replay_end_transaction(1, TransactionOutcome::Commit, 2);
    assert_eq!(shard.coordinator.held().pending_bytes, 0);
    assert_eq!(shard.coordinator.counters().gauges.pending_offsets, 0);
    assert_eq!(shard.coordinator.counters().gauges.offsets, 3);
    shard.budget.others = Held { pending_bytes: 900, ..Held::default() };
    assert_eq!(shard.committed("group", 1), [FULL], "those of other coordinators count");
    shard.budget.others = Held::default();
    assert_eq!(shard.committed("group", 1), [0]);
}

#[test]
fn a_commit_that_is_not_written_leaves_what_was_there() {
    let mut shard = Shard::with(Config::default());
    let refuse = |shard: &mut Shard, group| {
        let records = shard.commit(group, 1).records;
        let output = shard.call(|it, context| it.not_written(context, &records));
        assert!(output.answers.is_empty());
    };
    refuse(&mut shard, "a");
    assert_eq!(shard.coordinator.groups(), 0, "the group was made for the commit");

    assert_eq!(shard.committed("a", 2), [0, 0]);
    let before = shard.coordinator.fingerprint("a");
    refuse(&mut shard, "a");
    assert_eq!((shard.coordinator.groups(), shard.coordinator.fingerprint("a")), (1, before));
    shard.coordinator.replay_end_transaction(1, TransactionOutcome::Commit, 2);
    assert_eq!(shard.coordinator.durable_records().len(), 2);
}

#[test]
fn a_deleted_topic_takes_the_pending_offsets_of_unloaded_groups() {
    let mut shard = Shard::with(Config::default());
    assert_eq!(shard.committed("a", 2), [0, 0]);
    let file = snapshots::snapshot(&mut shard.coordinator, 1);
    shard.coordinator = snapshots::open(Config::default(), &file).unwrap();
    shard.coordinator.loaded(0, Wall(0), &NoTopics);
    assert_eq!(shard.coordinator.unloaded_groups(), 1);
    let deleted = [DeletedTopic { name: TOPIC, id: Uuid::ZERO, deleted_at: i64::MAX }];
    let output = shard.call(|it, context| it.topics_deleted(context, &deleted));
    assert_eq!(output.records.len(), 2);
    output.records.iter().for_each(|record| shard.coordinator.replay(record, 2));
    assert_eq!(shard.coordinator.open_transactions().count(), 0);
}
