//! Recovery of a partition's segments. If a crash can explain a loss, the log is cut there, or the
//! loss is skipped. Any other loss counts as damage.

#![allow(clippy::unwrap_used)]

mod common;

use common::partition::{World, batch, place, small_config};
use muster_codec::record_batch::{Batches, validate};
use muster_storage::partition_log::START_OFFSET_FILE;
use muster_storage::{FileOp, PartitionError, RecoveryPoint, TornEnd};
use proptest::prelude::*;

/// A fully synced log of several segments, its recovery point, and the base offsets of the
/// segments.
fn filled() -> (World, RecoveryPoint, Vec<i64>) {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 900));
    }
    let point = world.sync();
    let segments = world.segments();
    assert!(segments.len() > 4);
    (world, point, segments)
}

/// The damage that a recovery from this point reports: the segment, the position and the text.
fn refusal(world: &mut World, point: RecoveryPoint) -> (i64, u64, String) {
    match world.reopen_from(Some(point)) {
        Err(PartitionError::Damaged { base_offset, at, what }) => (base_offset, at, what),
        other => panic!("{other:?}"),
    }
}

impl World {
    fn bytes(&mut self, base_offset: i64) -> &mut Vec<u8> {
        let path = self.path(base_offset);
        self.disk.live.get_mut(&path).unwrap()
    }
}

#[test]
fn a_torn_end_is_cut_off_at_any_byte() {
    let mut world = World::new(small_config());
    for i in 0..3 {
        world.append(batch(&[i], 30));
    }
    let path = world.path(0);
    let whole = world.disk.live[&path].clone();
    let two = whole.len() * 2 / 3;
    for len in two..whole.len() {
        world.disk.live.insert(path.clone(), whole[..len].to_vec());
        assert_eq!(world.reopen().unwrap(), [0, 1], "{len} bytes");
        assert_eq!(world.disk.live[&path].len(), two);
        assert_eq!(world.log.high_watermark(), 2);
        let appended = world.append(batch(&[2], 30));
        assert_eq!((appended.base_offset, appended.next_offset), (2, 3));
        assert_eq!(world.disk.live[&path], whole);
    }
    for at in two + 17..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        world.disk.live.insert(path.clone(), damaged);
        assert_eq!(world.reopen().unwrap(), [0, 1], "byte {at}");
    }
}

#[test]
fn segments_after_a_torn_one_are_dropped_and_older_damage_is_refused() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 900));
    }
    let segments = world.segments();
    let visited = world.reopen().unwrap();
    assert_eq!(visited, (0..100).collect::<Vec<_>>());
    assert_eq!(world.segments(), segments);

    let (third_last, second_last) = (segments[segments.len() - 3], segments[segments.len() - 2]);
    let path = world.path(second_last);
    // Damages the magic of a batch. Recovery then does not know the position of the next batch.
    world.disk.live.get_mut(&path).unwrap()[16] ^= 1;
    world.reopen().unwrap();
    assert_eq!(world.log.log_end_offset(), second_last);
    assert_eq!(*world.segments().last().unwrap(), second_last);
    assert_eq!(world.append(batch(&[1], 5)).base_offset, second_last);

    world.append(batch(&[1], 19_900));
    world.append(batch(&[1], 19_900));
    let path = world.path(third_last);
    world.disk.live.get_mut(&path).unwrap()[16] = 1;
    let refused = world.reopen().unwrap_err().to_string();
    assert!(refused.contains("is damaged at byte 0"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_in_a_segment_are_cut_off_refused_or_kept_whole(
        seed in prop::collection::vec((0..1_500usize, any::<u8>()), 1..6),
    ) {
        let mut world = World::new(small_config());
        for i in 0..12 {
            world.append(batch(&[i, i], 20));
        }
        let path = world.path(0);
        let whole = world.disk.live[&path].clone();
        for (at, byte) in seed {
            let at = at % whole.len();
            world.disk.live.get_mut(&path).unwrap()[at] = byte;
        }
        world.reopen().unwrap();
        let kept = world.disk.live[&path].clone();
        prop_assert!(kept.len() <= whole.len());
        prop_assert_eq!(world.log.size(), kept.len() as u64);
        for offset in 0..world.log.high_watermark().min(100) {
            let records = world.read(offset, 1 << 20);
            let mut batches = Batches::new(&records).map(Result::unwrap);
            let checked = batches.all(|batch| validate(batch.bytes).is_ok());
            prop_assert!(checked);
            prop_assert_eq!(records.is_empty(), world.log.damage_at(offset).is_some());
        }
    }
}

#[test]
fn the_recovery_point_is_the_end_of_the_last_sync() {
    let mut world = World::new(small_config());
    assert_eq!(world.log.recovery_point(), None);
    world.append(batch(&[1, 2], 900));
    let point = world.sync();
    assert_eq!((point.end.offset, point.end.segment, point.whole_from), (2, 0, 0));
    assert_eq!(point.end.bytes, world.log.size());
    world.append(batch(&[3], 900));
    assert_eq!(world.log.recovery_point(), Some(point), "later writes are not synced");
    // The next append rolls the log: the first segment is closed and synced.
    world.append(batch(&[3], 19_000));
    world.retain(0);
    let point = world.log.recovery_point().unwrap();
    assert_eq!((point.end.offset, point.end.segment, point.end.bytes), (3, 3, 0));
    world.reopen_from(Some(point)).unwrap();
    assert_eq!(world.log.recovery_point(), Some(point));
    assert_eq!(world.sync().end.offset, 4);
}

#[test]
fn a_log_that_has_lost_bytes_since_a_clean_stop_is_damaged() {
    let mut world = World::new(small_config());
    for i in 0..3 {
        world.append(batch(&[i], 30));
    }
    let point = world.sync();
    let whole = world.bytes(0).clone();
    for len in 0..whole.len() {
        world.bytes(0).truncate(len);
        refusal(&mut world, point);
        *world.bytes(0) = whole.clone();
    }
    world.reopen_from(Some(point)).unwrap();
    assert_eq!(world.log.log_end_offset(), 3);
}

#[test]
fn only_bytes_that_were_not_synced_are_cut() {
    let mut world = World::new(small_config());
    world.append(batch(&[1], 30));
    let point = world.sync();
    let synced = world.log.size();
    world.append(batch(&[2], 30));
    let whole = world.bytes(0).clone();
    for at in synced as usize + 17..whole.len() {
        world.bytes(0)[at] ^= 1;
        let torn = world.recover(Some(point), &mut Vec::new()).unwrap().torn().unwrap();
        let TornEnd { base_offset, at: from, bytes, next_offset, .. } = torn;
        assert_eq!((base_offset, from, bytes), (0, synced, whole.len() as u64 - synced));
        assert_eq!(next_offset, 1);
        *world.bytes(0) = whole.clone();
    }
    // Damages a byte of the synced batch, then a byte of its length.
    world.bytes(0)[100] ^= 1;
    assert!(world.recover(Some(point), &mut Vec::new()).unwrap().torn().is_none());
    world.bytes(0)[11] ^= 1;
    refusal(&mut world, point);
}

#[test]
fn all_segments_after_the_point_are_checked_and_may_be_torn() {
    let (mut world, _, segments) = filled();
    let mut early = World::new(small_config());
    early.append(batch(&[0], 900));
    let point = early.sync();
    // Damages the magic of the first batch in a segment long before the last.
    world.bytes(segments[1])[16] ^= 1;
    world.reopen_from(Some(point)).unwrap();
    assert_eq!(world.log.log_end_offset(), segments[1]);
    assert_eq!(world.segments(), segments[..2], "later segments are removed");
}

#[test]
fn a_segment_that_a_killed_process_did_not_sync_is_synced_by_the_next() {
    let mut world = World::new(small_config());
    world.append(batch(&[0], 900));
    let point = world.sync();
    world.append(batch(&[1], 19_000));
    world.append(batch(&[1], 19_000));
    world.disk.durable.values_mut().for_each(Vec::clear);
    world.reopen_from(Some(point)).unwrap();
    assert!(world.log.is_sync_behind());
    world.retain(0);
    let path = world.path(1);
    assert_eq!(world.disk.durable[&path], world.disk.live[&path]);
    assert_eq!(world.log.recovery_point().unwrap().end.offset, 2);
}

#[test]
fn a_log_that_ends_before_its_point_is_damaged() {
    let (mut world, point, segments) = filled();
    let last = *segments.last().unwrap();
    let path = world.path(last);
    world.disk.live.remove(&path);
    let (segment, _, what) = refusal(&mut world, point);
    assert_eq!(segment, segments[segments.len() - 2]);
    assert!(what.contains(&format!("the log ends at offset {last}")), "{what}");
    assert!(what.contains("everything before offset 100 was on the disk"), "{what}");
    for base_offset in world.segments() {
        let path = world.path(base_offset);
        world.disk.live.remove(&path);
    }
    refusal(&mut world, point);
}

#[test]
fn records_that_are_missing_between_synced_segments_are_damage() {
    let (mut world, point, segments) = filled();
    let whole = world.disk.live.clone();
    let missing = format!("offset {} to {} are missing", segments[2], segments[3] - 1);
    world.bytes(segments[2]).clear();
    let (segment, at, what) = refusal(&mut world, point);
    assert_eq!((segment, at), (segments[2], 0));
    assert!(what.contains(&missing), "{what}");

    let path = world.path(segments[2]);
    world.disk.live.remove(&path);
    let (segment, _, what) = refusal(&mut world, point);
    assert_eq!(segment, segments[1]);
    assert!(what.contains(&missing), "{what}");

    // Cuts the file at the end of a batch, so that only the gap in the offsets shows the loss.
    world.disk.live = whole;
    let batches = world.bytes(segments[2]).len() / batch(&[1], 900).len();
    let half = batches / 2 * batch(&[1], 900).len();
    world.bytes(segments[2]).truncate(half);
    assert_eq!(refusal(&mut world, point).0, segments[2]);
}

#[test]
fn without_a_point_a_gap_is_skipped_and_recorded() {
    for is_empty in [false, true] {
        let (mut world, _, segments) = filled();
        let (from, to) = (segments[2], segments[3]);
        if is_empty {
            world.bytes(from).clear();
        } else {
            let path = world.path(from);
            world.disk.live.remove(&path);
        }
        let recovered = world.recover(None, &mut Vec::new()).unwrap();
        assert_eq!(recovered.gaps(), std::slice::from_ref(&(from..to)));
        world.reopen().unwrap();
        assert!(!world.segments().contains(&from), "an empty file is removed");
        for offset in [from, from + 1, to - 1] {
            let bytes = world.read(offset, 100);
            assert_eq!(Batches::new(&bytes).next().unwrap().unwrap().header.base_offset, to);
            assert!(world.log.readable_bytes(offset) > 900);
        }
        assert_eq!(world.offset_for(from), Some((to, to)));
        let point = world.sync();
        assert_eq!(point.whole_from, to);
        world.reopen_from(Some(point)).unwrap();
        assert_eq!(world.log.recovery_point(), Some(point));
        let path = world.path(segments[4]);
        world.disk.live.remove(&path);
        refusal(&mut world, point);
    }
}

#[test]
fn an_offset_in_a_gap_at_the_end_has_nothing_to_read_before_the_next_append() {
    let (mut world, _, segments) = filled();
    let (from, to) = (*segments.last().unwrap(), 100);
    let path = world.path(from);
    world.disk.live.remove(&path);
    let path = world.path(to);
    world.disk.live.insert(path, Vec::new());
    world.reopen().unwrap();
    assert_eq!((world.log.high_watermark(), world.log.log_end_offset()), (to, to));
    assert_eq!(world.log.readable_bytes(from), 0);
    assert!(world.read(from, 100).is_empty());
    assert_eq!(world.offset_for(from), None);
    assert_eq!(world.append(batch(&[1], 9)).base_offset, to);
    assert!(world.log.readable_bytes(from) > 0);
    assert_eq!(Batches::new(&world.read(from, 100)).count(), 1);
}

#[test]
fn segments_that_are_swapped_are_damage() {
    let (mut world, point, segments) = filled();
    let first = world.bytes(segments[1]).clone();
    let second = std::mem::replace(world.bytes(segments[2]), first);
    *world.bytes(segments[1]) = second;
    refusal(&mut world, point);
    assert!(world.reopen().is_err());
}

#[test]
fn a_point_stays_valid_when_old_segments_are_dropped() {
    let (mut world, point, _) = filled();
    world.delete_records(95);
    world.reopen_from(Some(point)).unwrap();
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (95, 100));
    world.delete_records(100);
    world.append(batch(&[1], 9));
    world.reopen_from(Some(point)).unwrap();
    assert_eq!(world.log.log_end_offset(), 101);
}

#[test]
fn deleted_records_stay_deleted_without_the_file_of_the_log_start() {
    let (mut world, before, _) = filled();
    world.delete_records(51);
    let point = world.sync();
    assert_eq!((before.log_start, point.log_start), (0, 51));
    remove_start_offset(&mut world);
    world.reopen_from(Some(point)).unwrap();
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (51, 100));

    // The next append writes the file of the log start offset again. With this file the log starts
    // at 51 even if the recovery point has an older log start offset.
    world.append(batch(&[1], 9));
    world.reopen_from(Some(before)).unwrap();
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (51, 101));
}

fn remove_start_offset(world: &mut World) {
    let mut ops = Vec::new();
    world.log.close(&mut world.files, &mut ops);
    ops.push(FileOp::RemoveFile { path: place().dir.join(START_OFFSET_FILE) });
    world.perform(ops);
}
