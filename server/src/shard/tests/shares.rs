//! Share state in the shard's log.

use super::deleted_topics::{delete, topic, write_deletion};
use super::world::{FLUSH_MS, Random, World, commit};
use crate::cluster::state_slot;
use crate::mailbox::ToShares;
use crate::placement::Slot;
use crate::shard::{Event, Message, StateQuestion};
use crate::shares::SLICE_PARTITIONS;
use muster_codec::records::{
    ClusterRecord, ShareRecord, ShareSnapshotValue, ShareUpdateValue, ShareValue, TopicKey,
    TopicValue,
};
use muster_codec::{Uuid, Wall};
use muster_coordinator::{Start, StateRequest};
use muster_shares::state::{Initialize, Topics, Write};
use muster_shares::{SharePartitionKey, State, StateBatch, States};
use muster_storage::snapshot::SNAPSHOT_FILE_NAME;
use std::collections::BTreeMap;

const SLOTS: u32 = 4;
const KEYS: u64 = 40;
const TOPICS: u8 = 3;

/// An image in which all partitions exist.
struct Everything;

impl Topics for Everything {
    fn has(&self, _topic_id: Uuid, _partition: i32) -> bool {
        true
    }
}

/// A share partition, and the slot of its topic partition.
fn key(number: u64) -> (Slot, SharePartitionKey) {
    let topic_id = Uuid([1 + number as u8 % TOPICS; 16]);
    let key = SharePartitionKey::new(format!("g{}", number % 7), topic_id, number as i32);
    (Slot(number as u32 % SLOTS), key)
}

/// A record that changes the state of a share partition: it initializes a partition without state,
/// and otherwise mostly writes to its state.
fn change(
    states: &States,
    key: &SharePartitionKey,
    now: i64,
    random: &mut Random,
) -> Vec<ShareRecord<'static>> {
    let start = states.get(key).map_or(0, |state| state.start_offset);
    let (first, now) = (start + random.below(100) as i64, Wall(now));
    let batches = [StateBatch { first, last: first + 9, delivery_count: 1, delivery_state: 2 }];
    let record = match random.below(20) {
        0 => states.delete(key, &Everything).unwrap(),
        1 => {
            let request = Initialize { state_epoch: i32::MAX, start_offset: first };
            states.initialize(key, request, &Everything, now).unwrap()
        }
        _ if states.get(key).is_none() => {
            let request = Initialize { state_epoch: 1, start_offset: 0 };
            states.initialize(key, request, &Everything, now).unwrap()
        }
        _ => {
            let write = Write {
                leader_epoch: 0,
                state_epoch: -1,
                start_offset: if random.below(2) == 0 { start + 1 } else { -1 },
                delivery_complete_count: random.below(10) as i32,
                batches: &batches,
            };
            states.change(key, &write, now)
        }
    };
    record.into_iter().collect()
}

impl World {
    /// Creates the topics of share partitions. Without its topic a share state would be removed.
    pub(super) fn create_share_topics(&mut self) {
        self.shard.write_records((1..=TOPICS).map(topic).collect());
        self.pass(FLUSH_MS);
    }

    /// Changes the state of a random share partition.
    pub(super) fn change_share(&mut self, random: &mut Random) {
        let (slot, key) = key(random.below(KEYS));
        let states = self.shard.shares.states().of(slot).unwrap();
        let records = change(states, &key, self.now, random);
        if !records.is_empty() && !self.shard.runtime.is_closed() {
            let (shares, runtime) = (&mut self.shard.shares, &mut self.shard.runtime);
            shares.states_mut().write(runtime, slot, self.now, &records).unwrap();
        }
        self.turn();
    }

    /// Changes a share partition by a record that the log does not have: an update, or a tombstone.
    pub(super) fn replay_share(&mut self, number: u64, start_offset: Option<i64>) {
        let (slot, key) = key(number);
        let value = start_offset.map_or(ShareValue::Deleted, |start_offset| {
            ShareValue::Update(ShareUpdateValue { start_offset, ..Default::default() })
        });
        let record = ShareRecord { key: key.to_record(), value };
        self.shard.shares.states_mut().apply(slot, &record);
    }

    /// Replaces the durable state of a share partition.
    pub(super) fn write_share_state(&mut self, key: &SharePartitionKey, value: ShareSnapshotValue) {
        let record = ShareRecord { key: key.to_record(), value: ShareValue::Snapshot(value) };
        let topic = self.shard.broker.image().topic_by_id(key.topic_id).unwrap();
        let slot = state_slot(topic, key.partition, self.common.placement).unwrap();
        let (shares, runtime) = (&mut self.shard.shares, &mut self.shard.runtime);
        shares.states_mut().write(runtime, slot, self.now, &[record]).unwrap();
        self.turn();
        self.pass(FLUSH_MS);
    }

    /// The share states as snapshots would have them.
    pub(super) fn share_snapshots(&self) -> Vec<(SharePartitionKey, ShareSnapshotValue)> {
        let all = self.shard.inspect().share_states();
        all.map(|(key, state)| (key.clone(), state.snapshot())).collect()
    }

    fn share_states(&self) -> Vec<(SharePartitionKey, State)> {
        let all = self.shard.inspect().share_states();
        all.map(|(key, state)| (key.clone(), state.clone())).collect()
    }
}

#[test]
fn share_state_survives_a_kill() {
    let (mut world, mut random) = (World::new(&[]), Random(1));
    world.create_share_topics();
    for _ in 0..100 {
        world.change_share(&mut random);
    }
    world.pass(FLUSH_MS);
    let before = world.share_states();
    assert!(before.len() > 20, "{}", before.len());
    world.hold_log(true);
    world.change_share(&mut random);
    assert_ne!(world.share_states(), before);
    world.restart();
    assert_eq!(world.share_states(), before, "what was not flushed is lost");
}

#[test]
fn compaction_snapshots_and_kills_leave_share_state_as_it_was() {
    let mut with_snapshot = 0;
    for seed in 1..9 {
        let retention = "log.cleaner.delete.retention.ms=50";
        let (mut world, mut random) = (World::new(&[retention]), Random(seed));
        world.create_share_topics();
        for number in 0..4_000 {
            world.change_share(&mut random);
            world.pass(random.below(2) as i64);
            if number % 800 == 799 {
                world.pass(FLUSH_MS);
                let before = world.share_snapshots();
                world.restart();
                assert_eq!(world.share_snapshots(), before, "seed {seed}, change {number}");
                with_snapshot += u64::from(world.path(SNAPSHOT_FILE_NAME).exists());
            }
        }
        assert!(world.swaps > 0, "nothing was compacted");
    }
    assert!(with_snapshot > 10, "{with_snapshot}");
}

impl World {
    /// Initializes share partitions of a topic, as many as there are groups.
    fn initialize(&mut self, topic_id: Uuid, groups: u64) {
        for group in 0..groups {
            let key = SharePartitionKey::new(format!("g{group}"), topic_id, 0);
            let slot = state_slot(
                self.shard.broker.image().topic_by_id(topic_id).unwrap(),
                0,
                self.common.placement,
            );
            let (slot, request) = (slot.unwrap(), Initialize { state_epoch: 1, start_offset: 0 });
            let states = self.shard.shares.states().of(slot).unwrap();
            let record = states.initialize(&key, request, &Everything, Wall(self.now)).unwrap();
            let (shares, runtime) = (&mut self.shard.shares, &mut self.shard.runtime);
            shares.states_mut().write(runtime, slot, self.now, record.as_slice()).unwrap();
            self.turn();
            self.pass(1);
        }
        self.pass(FLUSH_MS);
    }

    fn share_topics(&self) -> BTreeMap<Uuid, usize> {
        let mut topics = BTreeMap::new();
        for (key, _) in self.shard.inspect().share_states() {
            *topics.entry(key.topic_id).or_default() += 1;
        }
        topics
    }
}

#[test]
fn share_state_of_a_deleted_topic_goes_in_slices() {
    let mut world = World::new(&[]);
    let [kept, gone] = ["kept", "gone"].map(|name| world.create_topic(name));
    [kept, gone].iter().for_each(|id| world.initialize(*id, 300));
    assert_eq!(world.share_topics(), [(kept, 300), (gone, 300)].into());
    delete(&mut world, gone, "gone");
    world.pass(FLUSH_MS);
    assert_eq!(world.share_topics(), [(kept, 300)].into());
    world.restart();
    assert_eq!(world.share_topics(), [(kept, 300)].into());
}

#[test]
fn share_state_of_a_topic_that_was_deleted_while_the_shard_was_down_goes() {
    // No snapshot is written, as it would contain the shard's image with the deleted topic.
    let mut world = World::new(&["metadata.log.max.record.bytes.between.snapshots=10000000"]);
    let gone = world.create_topic("gone");
    world.initialize(gone, 200);
    let deleted_at = world.now;
    write_deletion(&mut world, gone, "gone", deleted_at);
    assert_eq!(world.share_topics(), [(gone, 200)].into());
    world.restart();
    world.pass(FLUSH_MS);
    assert_eq!(world.share_topics(), [].into());
}

/// A topic with some partitions.
const WIDE: Uuid = Uuid([9; 16]);

fn create_wide_topic(world: &mut World, partitions: usize) {
    let partitions = partitions as i32;
    let value = TopicValue { name: "wide".into(), partitions, ..Default::default() };
    let topic = ClusterRecord::Topic(TopicKey { topic_id: WIDE }, Some(value));
    world.shard.write_records(vec![topic]);
    world.pass(FLUSH_MS);
}

/// Sends a request about share state, as from the coordinator of a group on shard 1.
fn ask(world: &mut World, group: &str, number: u64, request: StateRequest) {
    let question = StateQuestion { from: 1, number, group_id: group.into(), request };
    world.step(Event::Mail(ToShares::StateQuestion(question).into()));
}

fn all_of(partitions: usize) -> StateRequest {
    let topics = vec![(WIDE, (0..partitions as i32).map(|it| (it, Start::Unknown)).collect())];
    StateRequest::Initialize { state_epoch: 1, topics }
}

#[test]
fn share_state_of_many_partitions_is_written_in_slices_that_wait_for_the_log() {
    let (mut world, partitions) = (World::new(&[]), 4 * SLICE_PARTITIONS + 1);
    create_wide_topic(&mut world, partitions);
    world.hold_log(true);
    ask(&mut world, "g", 1, all_of(partitions));
    ask(&mut world, "g", 2, StateRequest::Delete(vec![(WIDE, vec![0])]));
    ask(&mut world, "h", 3, all_of(1));
    world.pass(1_000);
    let written = SLICE_PARTITIONS + 1;
    assert_eq!(world.share_topics(), [(WIDE, written)].into(), "the log takes no more");
    world.hold_log(false);
    world.pass(1_000);
    assert_eq!(world.share_topics(), [(WIDE, partitions)].into(), "one is deleted, one is of h");
    let mut answered = Vec::new();
    let mut results = Vec::new();
    for (_, message) in std::mem::take(&mut world.mailed) {
        let Message::Shares(ToShares::StateAnswer(answer)) = message else { panic!("{message:?}") };
        answered.push((answer.number, answer.results.len(), answer.is_last));
        results.extend(answer.results.into_iter().filter(|_| answer.number == 1));
    }
    let slice = (1, SLICE_PARTITIONS, false);
    assert_eq!(answered[..3], [slice, (3, 1, true), slice], "others are answered in between");
    assert_eq!(answered[3..], [slice, slice, (1, 1, true), (2, 1, true)]);
    assert!(results.iter().all(|it| it.result.is_ok()));
    let indexes = results.iter().map(|it| it.partition);
    assert!(indexes.eq(0..partitions as i32), "in order");
    world.restart();
    assert_eq!(world.share_topics(), [(WIDE, partitions)].into());
}

#[test]
fn an_answer_without_a_record_does_not_wait_for_a_commit_that_lingers() {
    let mut world = World::new(&["group.coordinator.append.linger.ms=500"]);
    create_wide_topic(&mut world, 1);
    (0..20).for_each(|group| world.append(&commit(group, 0, Some(1))));
    ask(&mut world, "g", 1, StateRequest::Delete(vec![(WIDE, vec![0])]));
    assert_eq!(world.mailed.len(), 1, "there is nothing to delete");
    assert!(!world.shard.runtime.is_flushed(), "the commits linger");
}

#[test]
fn cold_share_partitions_get_a_snapshot() {
    let mut world = World::new(&["share.coordinator.cold.partition.snapshot.interval.ms=60000"]);
    let topic_id = world.create_topic("t");
    world.initialize(topic_id, 300);
    let epochs = |world: &World| -> BTreeMap<i32, usize> {
        let mut epochs = BTreeMap::new();
        for (_, state) in world.shard.inspect().share_states() {
            *epochs.entry(state.snapshot_epoch).or_default() += 1;
        }
        epochs
    };
    assert_eq!(epochs(&world), [(0, 300)].into());
    world.pass(125_000);
    assert_eq!(epochs(&world), [(1, 300)].into(), "once: then the cluster is quiet");
    let before = world.share_snapshots();
    world.restart();
    assert_eq!(world.share_snapshots(), before);
}
