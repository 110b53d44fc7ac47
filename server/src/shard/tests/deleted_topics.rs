//! Offsets of a deleted topic are removed, whatever occurs in between.

use super::transactions::{PRODUCER, commit_in_transaction};
use super::world::{FLUSH_MS, World, commit};
use crate::topics;
use muster_codec::Uuid;
use muster_codec::record_batch::{EndTxnMarker, TransactionOutcome};
use muster_codec::records::{
    ClusterRecord, DeletedTopicKey, DeletedTopicValue, GroupRecord, TopicKey, TopicValue,
};
use muster_coordinator::Topics;

#[test]
fn offsets_of_a_deleted_topic_are_removed_and_then_its_record() {
    let mut world = World::new(&[]);
    let id = world.create_topic("t");
    world.append(&commit_to(id, 1, 0, world.now));
    world.append(&commit_to(Uuid::ZERO, 2, 0, world.now));
    delete(&mut world, id, "t");
    world.pass(FLUSH_MS);
    assert_eq!((world.committed(1, 0), world.committed(2, 0)), (None, None));
    assert_eq!(world.shard.broker.image().deleted().len(), 0);
    world.restart();
    assert_eq!(world.shard.broker.image().deleted().len(), 0);
}

#[test]
fn of_several_deleted_topics_only_offsets_by_id_are_removed() {
    let mut world = World::new(&[]);
    let ids = ["t", "u", "v"].map(|name| world.create_topic(name));
    world.append(&commit_to(ids[0], 1, 0, world.now));
    world.append(&commit_to(ids[1], 1, 1, world.now));
    let records = [("u", ids[1]), ("v", ids[2]), ("t", ids[0])]
        .iter()
        .flat_map(|(name, id)| deletion(*id, name, world.now))
        .collect();
    world.shard.write_records(records);
    world.pass(FLUSH_MS);
    assert_eq!(world.committed(1, 0), None);
    assert_eq!(world.committed(1, 1), Some(7), "its name is that of another topic");
    assert_eq!(world.shard.broker.image().deleted().len(), 0);
}

#[test]
fn a_start_removes_offsets_whose_removal_was_interrupted() {
    let mut world = World::new(&[]);
    let id = world.create_topic("t");
    world.append(&commit_to(id, 1, 0, world.now));
    world.append(&commit_to(Uuid::ZERO, 2, 0, world.now));
    let deleted_at = world.now;
    write_deletion(&mut world, id, "t", deleted_at);
    world.restart();
    world.pass(FLUSH_MS);
    assert_eq!((world.committed(1, 0), world.committed(2, 0)), (None, None));
    assert_eq!(world.shard.broker.image().deleted().len(), 0);
}

/// The log has one operation with many topics, so its replay counts more changes than operations.
#[test]
fn a_deletion_is_forgotten_after_the_replay_of_a_short_log() {
    let mut world = World::new(&[]);
    let mut records: Vec<_> = (1..=20).map(topic).collect();
    records.extend(deletion(Uuid([7; 16]), "t7", world.now));
    let log = world.shard.runtime.log_mut();
    log.append(topics::CLUSTER, world.now, &records).unwrap();
    world.turn();
    world.pass(FLUSH_MS);
    world.restart();
    let image = world.shard.broker.image();
    assert_eq!((image.topics().count(), image.deleted().len()), (19, 1));
    assert!(image.deleted().all(|(_, topic)| topic.version <= image.version()));
    assert!(image.version_of_newest() <= image.version());
    world.pass(FLUSH_MS);
    assert_eq!(world.shard.broker.image().deleted().len(), 0);
}

#[test]
fn a_repeated_removal_keeps_offsets_of_a_later_topic_of_the_name() {
    let mut world = World::new(&[]);
    let id = world.create_topic("t");
    world.append(&commit_to(id, 1, 0, world.now));
    let deleted_at = world.now;
    delete(&mut world, id, "t");
    world.pass(FLUSH_MS);
    let later = world.create_topic("t");
    assert_ne!(later, id);
    world.append(&commit_to(later, 1, 1, world.now));
    world.append(&commit_to(Uuid::ZERO, 1, 2, world.now));
    write_deletion(&mut world, id, "t", deleted_at);
    world.restart();
    assert_eq!(world.committed(1, 0), None);
    assert_eq!((world.committed(1, 1), world.committed(1, 2)), (Some(7), Some(7)));
}

#[test]
fn more_offsets_than_one_operation_holds_are_removed() {
    const OFFSETS: u64 = 2_000;
    let mut world = World::new(&[]);
    let id = world.create_topic("t");
    for partition in 0..OFFSETS {
        world.append(&commit_to(id, 1, partition, world.now));
        world.pass(1);
    }
    world.append(&commit_to(Uuid([9; 16]), 1, OFFSETS, world.now));
    delete(&mut world, id, "t");
    world.pass(FLUSH_MS);
    assert_eq!((0..OFFSETS).find(|partition| world.committed(1, *partition).is_some()), None);
    assert_eq!(world.committed(1, OFFSETS), Some(7), "the offset of another topic");
    assert_eq!(world.shard.broker.image().deleted().len(), 0);
}

#[test]
fn a_transaction_keeps_the_offsets_of_a_topic_that_is_created_again() {
    const OFFSETS: u64 = 2_000;
    let mut world = World::new(&["num.partitions=4"]);
    let id = world.create_topic("t");
    for partition in 0..OFFSETS {
        world.append(&commit_to(id, 1, partition, world.now));
        world.pass(1);
    }
    let deleted = deletion(id, "t", world.now);
    world.shard.write_records(deleted);
    let later = world.create_topic("t");
    assert_ne!(later, id);
    assert_eq!(commit_in_transaction(&mut world, "").0, [0]);
    assert_eq!((0..OFFSETS).find(|partition| world.committed(1, *partition).is_some()), None);
    let slot = world.common.placement.group_slot("g1");
    let marker = EndTxnMarker { outcome: TransactionOutcome::Commit, coordinator_epoch: 2 };
    world.end_transaction(slot, PRODUCER, marker);
    world.pass(FLUSH_MS);
    assert_eq!(world.committed(1, 3), Some(70));
    world.restart();
    world.pass(FLUSH_MS);
    assert_eq!(world.committed(1, 3), Some(70));
}

/// Deletes a topic as DeleteTopics does.
pub(super) fn delete(world: &mut World, id: Uuid, name: &str) {
    let records = deletion(id, name, world.now);
    world.shard.write_records(records);
    world.turn();
}

/// Writes the records of a deletion, but no shard gets the image.
pub(super) fn write_deletion(world: &mut World, id: Uuid, name: &str, deleted_at: i64) {
    let records = deletion(id, name, deleted_at);
    let log = world.shard.runtime.log_mut();
    log.append(topics::CLUSTER, world.now, &records).unwrap();
    world.turn();
    world.pass(FLUSH_MS);
}

pub(super) fn topic(number: u8) -> ClusterRecord<'static> {
    let name = format!("t{number}").into();
    let value = TopicValue { name, partitions: 1, ..Default::default() };
    ClusterRecord::Topic(TopicKey { topic_id: Uuid([number; 16]) }, Some(value))
}

fn deletion(topic_id: Uuid, name: &str, deleted_at: i64) -> Vec<ClusterRecord<'static>> {
    let value = DeletedTopicValue { name: name.to_owned().into(), deleted_at };
    vec![
        ClusterRecord::Topic(TopicKey { topic_id }, None),
        ClusterRecord::DeletedTopic(DeletedTopicKey { topic_id }, Some(value)),
    ]
}

fn commit_to(topic_id: Uuid, group: u64, partition: u64, now: i64) -> GroupRecord<'static> {
    match commit(group, partition, Some(7)) {
        GroupRecord::OffsetCommit(key, Some(mut value)) => {
            (value.topic_id, value.commit_timestamp) = (topic_id, now);
            GroupRecord::OffsetCommit(key, Some(value))
        }
        other => other,
    }
}
