//! Partitions with an unreadable batch: all other batches are served.

use super::super::{Effects, PartitionId, Reader, RecordRead, RecordReadEnd};
use super::support::*;
use muster_codec::ErrorCode;
use muster_codec::record_batch::Batches;

/// A partition with ten batches of one record; the batch at offset 4 is damaged.
fn damaged() -> World {
    let mut world = World::new();
    for offset in 0..10 {
        world.append(0, &timed_batch(&[1_000 + offset]));
    }
    world.sync_all();
    let len = world.segment(0).len() / 10;
    world.segment(0)[5 * len - 1] ^= 1;
    world.reopen();
    assert_eq!((world.partitions.offline(), world.partitions.damaged_parts()), (0, 1));
    world
}

/// The offsets of the records that a share partition gets, from an offset on.
fn shared(world: &mut World, offset: i64) -> Vec<i64> {
    let id = PartitionId { topic: topic_id(), index: 0 };
    let mut out = Effects::default();
    let read = RecordRead {
        reader: Reader::Share(1),
        id,
        offset,
        reads_committed: false,
        max_bytes: 1 << 20,
        first_whole: true,
    };
    world.partitions.read_records(read, &mut out);
    let mut ended = std::mem::take(&mut out.record_reads);
    world.perform(out);
    while ended.is_empty()
        && let Some(done) = world.done.pop_front()
    {
        let mut out = Effects::default();
        world.partitions.file_done(done, &mut out);
        ended = std::mem::take(&mut out.record_reads);
        world.perform(out);
    }
    match ended.pop() {
        Some((Reader::Share(1), RecordReadEnd::Records { data, .. })) => {
            Batches::new(&data).map(|it| it.unwrap().header.base_offset).collect()
        }
        Some((Reader::Share(1), RecordReadEnd::Nothing)) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fetch_of_a_damaged_batch_is_refused_and_all_others_are_answered() {
    let mut world = damaged();
    assert_eq!(ranges(&world.fetch(0, 1)), [(1, 1), (2, 2), (3, 3)], "it ends before the batch");
    let refused = world.fetch(0, 4);
    assert_eq!(error(refused.error_code), ErrorCode::CorruptMessage);
    assert_eq!(ranges(&world.fetch(0, 5)), [(5, 5), (6, 6), (7, 7), (8, 8), (9, 9)]);
    // The fetch would wait for records of the other partition. It is answered immediately, because
    // one partition is damaged.
    let request = world.start_fetch(&fetch_request(1_000, &[(0, 4), (1, 0)]));
    world.settle();
    let answer = world.fetched(request).unwrap();
    let codes = answer.responses[0].partitions.iter().map(|it| error(it.error_code));
    assert_eq!(codes.collect::<Vec<_>>(), [ErrorCode::CorruptMessage, ErrorCode::None]);
}

#[test]
fn a_partition_with_a_damaged_batch_takes_produces_look_ups_and_deletions() {
    let mut world = damaged();
    assert_eq!(world.list(0, 1_004).offset, 5, "the first that can be read");
    assert_eq!(world.list(0, 1_003).offset, 3);
    assert_eq!(world.delete_before(0, 5), (5, ErrorCode::None));
    assert_eq!(ranges(&world.fetch(0, 5)).len(), 5);
    // The batch begins a new segment, because the records are old.
    assert_eq!(world.append(0, &batch(1)), 10);
    assert_eq!(ranges(&world.fetch(0, 10)), [(10, 10)]);
    assert_eq!(world.delete_before(0, 10), (10, ErrorCode::None));
    world.pass(300_000);
    assert_eq!(world.partitions.damaged_parts(), 0, "its segment is gone");
}

#[test]
fn a_share_partition_skips_a_damaged_batch() {
    let mut world = damaged();
    assert_eq!(shared(&mut world, 2), [2, 3]);
    assert_eq!(shared(&mut world, 4), [5, 6, 7, 8, 9]);
    let id = PartitionId { topic: topic_id(), index: 0 };
    assert!(world.partitions.share_bytes(id, 4, false).unwrap() > 0);
}

#[test]
fn a_share_partition_waits_behind_a_damaged_batch_at_the_end() {
    let mut world = World::new();
    world.append(0, &batch(1));
    world.append(0, &batch(1));
    world.sync_all();
    let mut out = Effects::default();
    world.partitions.last_checkpoint(&mut out);
    world.perform(out);
    world.settle();
    *world.segment(0).last_mut().unwrap() ^= 1;
    world.reopen();
    assert_eq!(world.partitions.damaged_parts(), 1);
    let id = PartitionId { topic: topic_id(), index: 0 };
    assert_eq!(world.partitions.share_bytes(id, 1, false), Some(0), "nothing to read");
    assert!(shared(&mut world, 1).is_empty());
    world.append(0, &batch(1));
    assert_eq!(shared(&mut world, 1), [2]);
}

#[test]
fn a_producer_whose_last_batch_is_damaged_learns_that_records_are_lost() {
    let mut world = World::new();
    for sequence in 0..3 {
        world.append(0, &sequenced(1, 7, 0, sequence));
    }
    world.append(0, &sequenced(1, 8, 0, 0));
    let len = world.segment(0).len() / 4;
    world.segment(0)[3 * len - 1] ^= 1;
    world.reopen();
    let next = world.produce(0, &sequenced(1, 7, 0, 3));
    assert_eq!(error(next.error_code), ErrorCode::OutOfOrderSequenceNumber);
    let again = world.produce(0, &sequenced(1, 7, 0, 2));
    assert_eq!((error(again.error_code), again.base_offset), (ErrorCode::None, 4), "sent again");
    let other = world.produce(0, &sequenced(1, 8, 0, 1));
    assert_eq!((error(other.error_code), other.base_offset), (ErrorCode::None, 5));
}
