//! The loss caused by a single damaged byte of a partition, before a repair and after it.

#![allow(clippy::unwrap_used)]

mod common;

use common::partition::{World, batch, small_config};
use muster_codec::record_batch::{BatchHeader, Batches, validate};
use muster_storage::partition_log::{SegmentRepair, segment_file_name};
use muster_storage::{
    DamagedPart, LogEnd, PartitionError, PartitionRecovery, RecoveryPoint, SegmentSource,
};
use std::collections::BTreeMap;

const BATCHES: i64 = 6;

/// A synced log of one small segment whose batches have one to three records, with the positions of
/// these batches.
fn small() -> (World, RecoveryPoint, Vec<usize>) {
    let mut world = World::new(small_config());
    let mut starts = Vec::new();
    for i in 0..BATCHES {
        starts.push(world.log.size() as usize);
        world.append(batch(&vec![1_000 + i; 1 + i as usize % 3], 5));
    }
    let point = world.sync();
    (world, point, starts)
}

fn bytes(world: &mut World, base_offset: i64) -> &mut Vec<u8> {
    let path = world.path(base_offset);
    world.disk.live.get_mut(&path).unwrap()
}

/// For each offset of the log, the base offset of the batch that a fetch from there returns, or -1
/// if the fetch is refused. The returned batch must match its checksum.
fn served(world: &mut World) -> Vec<i64> {
    let end = world.log.high_watermark();
    let fetched = |offset| {
        if world.log.damage_at(offset).is_some() {
            return -1;
        }
        let records = world.read(offset, 1);
        validate(&records).unwrap().base_offset
    };
    (0..end).map(fetched).collect()
}

/// The index of the batch that contains a byte.
fn batch_at(starts: &[usize], at: usize) -> usize {
    starts.partition_point(|start| *start <= at) - 1
}

/// Repairs the only segment as `muster log recover` does. Returns the number of lost records.
fn repair(world: &mut World, point: RecoveryPoint) -> i64 {
    let file = bytes(world, 0).clone();
    let mut repair = SegmentRepair::new(0, file.len() as u64);
    let mut known = point;
    let lost = loop {
        let view = repair.of(&file[..]);
        let mut recovery = PartitionRecovery::thorough(vec![0], Some(known));
        known = accepted(point);
        let parts: Vec<DamagedPart> = match recovery.segment(&view, 0, |_| {}) {
            Ok(()) => recovery.finish().unwrap().damaged().cloned().collect(),
            Err(PartitionError::Damaged { at, .. }) => {
                repair.unframed(&file[..], at, Some(point.end.offset)).unwrap();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let Some(last) = parts.last() else {
            break repair.cuts().iter().map(|cut| cut.lost.end - cut.lost.start).sum();
        };
        repair.part(&file[..], last).unwrap();
    };
    let view = repair.of(&file[..]);
    let mut repaired = vec![0; view.len() as usize];
    view.read_at(0, &mut repaired).unwrap();
    *bytes(world, 0) = repaired;
    lost
}

/// Changes a recovery point so that recovery accepts no torn end, but accepts a segment whose
/// length has changed.
fn accepted(point: RecoveryPoint) -> RecoveryPoint {
    let end = LogEnd { segment: i64::MAX, bytes: 0, ..point.end };
    RecoveryPoint { end, whole_from: i64::MAX, log_start: 0 }
}

/// The header fields that a reader needs to find the next batch.
const LENGTH: std::ops::Range<usize> = 8..12;
const MAGIC: usize = 16;
/// The fields that the checksum does not cover.
const FRAMING: [std::ops::Range<usize>; 3] = [0..8, LENGTH, MAGIC..MAGIC + 1];
const LEADER_EPOCH: std::ops::Range<usize> = 12..16;

#[test]
fn a_damaged_byte_costs_at_most_one_batch_where_lengths_survive() {
    let (mut world, point, starts) = small();
    let (whole, expected) = (bytes(&mut world, 0).clone(), served(&mut world));
    let mut counts = BTreeMap::new();
    for at in 0..whole.len() {
        for flip in [1u8, 0x10, 0x80, 0xff] {
            bytes(&mut world, 0)[at] ^= flip;
            let (hit, in_batch) = (batch_at(&starts, at), at - starts[batch_at(&starts, at)]);
            let case = format!("byte {at}, {in_batch} of batch {hit}, with {flip:#x}");
            let opened = world.reopen_from(Some(point));
            let is_framed = !LENGTH.contains(&in_batch) && in_batch != MAGIC;
            assert_eq!(opened.is_ok(), is_framed, "{case}: {opened:?}");
            if is_framed {
                let base = |offset: usize| expected[offset];
                let of_hit = |offset: usize| starts_before(&expected, base(offset)) == hit;
                let left: Vec<i64> =
                    (0..expected.len()).map(|it| if of_hit(it) { -1 } else { base(it) }).collect();
                let found = served(&mut world);
                let is_same = LEADER_EPOCH.contains(&in_batch);
                assert_eq!(found, if is_same { expected.clone() } else { left }, "{case}");
                assert_eq!(world.append(batch(&[9], 5)).base_offset, point.end.offset, "{case}");
                bytes(&mut world, 0).truncate(whole.len());
            }
            let lost = repair(&mut world, point);
            let is_restored = FRAMING.iter().any(|field| field.contains(&in_batch))
                || LEADER_EPOCH.contains(&in_batch);
            let records = if is_restored { 0 } else { 1 + hit as i64 % 3 };
            assert_eq!(lost, records, "{case}");
            world.reopen().unwrap();
            assert_eq!(world.log.log_end_offset(), point.end.offset, "{case}");
            assert_eq!(world.log.damaged().count(), 0, "{case}");
            *counts.entry(lost).or_insert(0) += 1;
            *bytes(&mut world, 0) = whole.clone();
        }
    }
    assert_eq!(counts.len(), 4, "batches of one to three records, and restored ones: {counts:?}");
}

/// The number of batches before the batch with this base offset.
fn starts_before(expected: &[i64], base: i64) -> usize {
    let mut bases: Vec<i64> = expected.to_vec();
    bases.dedup();
    bases.iter().position(|it| *it == base).unwrap()
}

#[test]
fn a_log_with_damaged_parts_serves_what_is_before_between_and_behind_them() {
    let mut world = World::new(small_config());
    for i in 0..60 {
        world.append(batch(&[i], 900));
    }
    let point = world.sync();
    let len = batch(&[0], 900).len();
    let last = *world.segments().last().unwrap();
    // Damages two consecutive batches, and the last batch of the segment before.
    let before = world.segments()[world.segments().len() - 2];
    for hit in [1, 2, 5] {
        bytes(&mut world, last)[hit * len + 300] ^= 1;
    }
    let end = bytes(&mut world, before).len();
    bytes(&mut world, before)[end - 1] ^= 1;
    world.reopen_from(Some(point)).unwrap();
    let damaged: Vec<_> = world.log.damaged().map(|it| it.offsets.clone()).collect();
    assert_eq!(damaged, [last - 1..last, last + 1..last + 3, last + 5..last + 6]);
    // A read ends before a damaged part, even if it may take more.
    for (from, to) in [(last - 3, last - 1), (last, last + 1), (last + 3, last + 5)] {
        let records = world.read(from, 1 << 20);
        let bases: Vec<_> =
            Batches::new(&records).map(|it| it.unwrap().header.base_offset).collect();
        assert_eq!(bases, (from..to).collect::<Vec<_>>());
    }
    for offset in [last - 1, last + 1, last + 2, last + 5] {
        assert!(world.log.damage_at(offset).is_some(), "{offset}");
        assert!(world.read(offset, 100).is_empty());
    }
    // A search by timestamp skips the damaged parts.
    for (time, found) in [(last - 1, last), (last + 1, last + 3), (last + 4, last + 4)] {
        assert_eq!(world.offset_for(time), Some((found, found)), "{time}");
    }
    assert_eq!(world.offset_for(last + 5), Some((last + 6, last + 6)));
}

/// Recovery checks the batches before and after the recovery point in different ways. Adjacent
/// damage that it finds in both ways is joined to one part.
#[test]
fn damage_on_both_sides_of_the_recovery_point_is_one_part() {
    let mut world = World::new(small_config());
    for i in 0..3 {
        world.append(batch(&[i], 900));
    }
    let point = world.sync();
    for i in 3..6 {
        world.append(batch(&[i], 900));
    }
    let len = batch(&[0], 900).len();
    for hit in [2, 3] {
        bytes(&mut world, 0)[hit * len + 300] ^= 1;
    }
    world.reopen_from(Some(point)).unwrap();
    let damaged: Vec<_> = world.log.damaged().flat_map(|it| it.offsets.clone()).collect();
    assert_eq!((world.log.damaged().count(), damaged), (1, vec![2, 3]));
    assert_eq!(served(&mut world), [0, 1, -1, -1, 4, 5]);
    assert_eq!(world.offset_for(2), Some((4, 4)));
}

#[test]
fn batches_behind_a_damaged_one_are_kept_behind_the_recovery_point_too() {
    let mut world = World::new(small_config());
    world.append(batch(&[0], 900));
    let point = world.sync();
    for i in 1..40 {
        world.append(batch(&[i], 900));
    }
    let path = world.path(0);
    world.disk.live.get_mut(&path).unwrap()[1_500] ^= 1;
    world.reopen_from(Some(point)).unwrap();
    assert_eq!((world.log.log_end_offset(), world.log.damaged().count()), (40, 1));
    // If a damaged batch is the last one, the damage may come from a crash during its write.
    let mut torn = World::new(small_config());
    torn.append(batch(&[0], 900));
    let point = torn.sync();
    torn.append(batch(&[1], 900));
    let path = torn.path(0);
    torn.disk.live.get_mut(&path).unwrap()[1_500] ^= 1;
    torn.reopen_from(Some(point)).unwrap();
    assert_eq!((torn.log.log_end_offset(), torn.log.damaged().count()), (1, 0));
}

#[test]
fn segments_with_damaged_parts_are_not_compacted_and_earlier_ones_are() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 900));
    }
    let point = world.sync();
    let hit = world.segments()[world.segments().len() - 2];
    bytes(&mut world, hit)[100] ^= 1;
    world.reopen_from(Some(point)).unwrap();
    world.log.point_stored(&point);
    let config = muster_storage::CompactionConfig::default();
    let cleanable = world.log.cleanable(100, i64::MAX, &config).unwrap();
    let rules =
        muster_storage::partition_log::CompactionRules { map_bytes: 1 << 20, ..Default::default() };
    let pass = world.log.begin_compaction(&cleanable, rules);
    let before = world.segments().iter().filter(|it| **it < hit).count();
    assert!(format!("{pass:?}").matches("Source {").count() == before, "{pass:?}");
}

#[test]
fn four_kilobytes_of_zeros_cost_the_batches_in_which_they_are() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 100));
    }
    let point = world.sync();
    let len = batch(&[0], 100).len();
    bytes(&mut world, 0)[4_000..8_096].fill(0);
    assert!(world.reopen_from(Some(point)).is_err(), "lengths are lost");
    let (first, last) = (4_000 / len, 8_095 / len);
    assert_eq!(repair(&mut world, point), (last - first + 1) as i64);
    world.reopen().unwrap();
    let lost = first as i64..last as i64 + 1;
    for offset in 0..100 {
        let records = world.read(offset, 1);
        let BatchHeader { base_offset, records_count, .. } = validate(&records).unwrap();
        let expected = if lost.contains(&offset) { (lost.end - 1, 0) } else { (offset, 1) };
        assert_eq!((base_offset, records_count), expected, "{offset}");
    }
    assert_eq!(world.log.log_end_offset(), 100);
}

#[test]
fn a_segment_in_the_place_of_another_is_no_damaged_part() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 900));
    }
    let point = world.sync();
    let [.., before, last] = world.segments()[..] else { panic!() };
    let swapped = bytes(&mut world, last).clone();
    *bytes(&mut world, before) = swapped;
    let refused = world.reopen_from(Some(point)).unwrap_err().to_string();
    assert!(refused.contains(&segment_file_name(before)), "{refused}");
}
