//! Reads of a partition's log: positions of batches, ranges of files, and searches by timestamp.

#![allow(clippy::unwrap_used)]

mod common;

use common::partition::{READ, World, batch, small_config};
use muster_storage::{BatchPlace, FileOp, Find, Searched, TopicConfig};

#[test]
fn a_search_reads_only_parts_of_batches() {
    let mut world = World::new(TopicConfig { segment_bytes: 1 << 20, ..small_config() });
    world.append(batch(&[10, 20], 400_000));
    world.append(batch(&(100..900).collect::<Vec<_>>(), 200));
    world.append(batch(&[1_000], 10));
    let (found, read) = world.search(10);
    assert_eq!((found, read < 5_000), (Some((0, 10)), true), "{read} bytes");
    let (found, read) = world.search(20);
    assert_eq!((found, read < 50_000), (Some((1, 20)), true), "{read} bytes");
    for target in [21, 100, 101, 250, 899] {
        let expected = (target.max(100) - 98, target.max(100));
        assert_eq!(world.offset_for(target), Some(expected), "time {target}");
    }
    let (found, read) = world.search(900);
    assert_eq!((found, read < 15_000), (Some((802, 1_000)), true), "{read} bytes");
}

#[test]
fn a_search_continues_after_segments_that_were_dropped_meanwhile() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i * 10, i * 10 + 5], 900));
    }
    let mut search = world.log.search(3);
    let mut ops = Vec::new();
    assert!(world.log.search_read(&mut search, READ, &mut world.files, &mut ops));
    world.read_bytes(ops);
    world.delete_records(151);
    assert_eq!(world.search_on(search).0, Some((151, 755)));
    world.delete_records(200);
    assert!(!world.log.search_read(&mut search, READ, &mut world.files, &mut Vec::new()));
}

#[test]
fn a_search_through_damage_is_an_error_or_ends() {
    let mut world = World::new(TopicConfig { segment_bytes: 1 << 20, ..small_config() });
    world.append(batch(&(0..40).collect::<Vec<_>>(), 2_000));
    let path = world.path(0);
    let whole = world.disk.live[&path].clone();
    for at in (0..whole.len()).step_by(23) {
        let mut damaged = whole.clone();
        damaged[at..whole.len().min(at + 12)].fill(0xff);
        world.disk.live.insert(path.clone(), damaged);
        let mut search = world.log.search(39);
        for reads in 0.. {
            assert!(reads < 100, "byte {at}: it does not end");
            let mut ops = Vec::new();
            if !world.log.search_read(&mut search, READ, &mut world.files, &mut ops) {
                break;
            }
            let data = world.read_bytes(ops);
            if !matches!(search.look(&data), Ok(Searched::ReadOn)) {
                break;
            }
        }
    }
}

#[test]
fn batches_that_were_appended_last_are_found_without_a_read() {
    let mut world = World::new(small_config());
    for _ in 0..30 {
        world.append(batch(&[0, 0], 100));
    }
    let mut finds = |offset: i64| {
        let mut ops = Vec::new();
        let find = world.log.find(offset, READ, &mut world.files, &mut ops).unwrap();
        assert_eq!(ops.is_empty(), matches!(find, Find::At(_)));
        ops.is_empty()
    };
    assert!((44..60).all(&mut finds));
    assert!(!(0..44).any(finds));
}

#[test]
fn a_range_is_cut_at_its_limit_and_begins_with_a_whole_batch_or_is_empty() {
    let mut world = World::new(TopicConfig { segment_bytes: 100_000, ..small_config() });
    let len = batch(&[0], 10_000).len() as u32;
    for _ in 0..5 {
        world.append(batch(&[0], 10_000));
    }
    let mut ops = Vec::new();
    let find = world.log.find(1, READ, &mut world.files, &mut ops);
    let Some(Find::At(place)) = find else { panic!("{find:?}") };
    let range = |max_bytes, first_whole| {
        let range = world.log.range(place, None, max_bytes, first_whole).unwrap();
        range.map_or((0, 0), |range| (range.offset, range.len))
    };
    assert_eq!(range(0, false), (0, 0));
    assert_eq!(range(len - 1, false), (0, 0));
    assert_eq!(range(len - 1, true), (u64::from(len), len));
    assert_eq!(range(len, false), (u64::from(len), len));
    assert_eq!(range(len + 5, false), (u64::from(len), len + 5));
    assert_eq!(range(u32::MAX, false), (u64::from(len), 4 * len));
}

#[test]
fn a_range_may_end_at_a_batch() {
    let mut world = World::new(small_config());
    let places: Vec<_> = (0..4).map(|_| world.append(batch(&[0], 9_000)).place).collect();
    assert_eq!(world.segments().len(), 2, "of two batches each");
    let len = batch(&[0], 9_000).len() as u64;
    let from_first = |end: Option<usize>| {
        let end = end.map(|end| places[end]);
        let range = world.log.range(places[0], end, u32::MAX, true).unwrap();
        range.map_or(0, |range| u64::from(range.len) / len)
    };
    assert_eq!([Some(0), Some(1), Some(2), Some(3), None].map(from_first), [0, 1, 2, 2, 2]);
    let readable = |place: &BatchPlace| world.log.readable_bytes_from(*place) / len;
    assert_eq!(places.iter().map(readable).collect::<Vec<_>>(), [4, 3, 2, 1]);
    let end = |place: usize, len: u64| world.log.end_offset_of(places[place], len as u32);
    assert_eq!([end(0, len), end(0, 2 * len), end(2, len - 1), end(3, len)], [1, 2, 3, 4]);
}

#[test]
fn a_file_that_is_being_sent_is_removed_afterwards() {
    let mut world = World::new(small_config());
    for i in 0..100 {
        world.append(batch(&[i], 900));
    }
    let before = world.segments();
    let range = world.range(5, 10_000).unwrap();
    world.log.hold(&range, &mut world.files);
    world.delete_records(100);
    assert_eq!(world.segments(), before, "later ones are kept as well, so that there is no gap");
    assert_eq!(world.log.log_start_offset(), 100);
    let mut ops = Vec::new();
    let file = world.files.open_held(&[range.file], &mut ops)[0];
    ops.push(FileOp::Read { token: READ, file, offset: range.offset, len: range.len });
    assert_eq!(world.read_bytes(ops).len(), range.len as usize);
    let mut ops = Vec::new();
    world.files.release(range.file, &mut ops);
    world.perform(ops);
    assert_eq!(world.segments(), before[before.len() - 1..]);
    assert_eq!((world.files.len(), world.files.holds()), (2, 0), "with that of the start offset");
}
