//! Compaction of a partition whose files are removed, by retention or by others.

#![allow(clippy::unwrap_used)]

mod common;

use common::compacting::{Compacting, Made};
use common::partition::{READ, World, place, small_config};
use common::texts::{read, records, world};
use muster_storage::partition_log::{CompactionEnd, Slice};
use muster_storage::{FileOp, FileToken, PartitionLog, TopicConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The name that the first new segment has when it is complete, but has not replaced others yet.
const SWAP: &str = "00000000000000000000.log.swap";

#[test]
fn a_pass_ends_if_its_segments_are_removed() {
    let mut world = world();
    for round in 0..8 {
        world.append(Made::of(&[("a", Some(&round.to_string()))]).batch());
        world.seal();
    }
    let mut pass = world.begin(0).unwrap();
    assert_eq!(world.step(&mut pass), None);
    world.delete_records(3);
    let end = loop {
        if let Some(end) = world.step(&mut pass) {
            break end;
        }
    };
    assert_eq!(end, CompactionEnd::Overtaken);
    assert_eq!(world.log.log_start_offset(), 3);
    world.compact(0);
    assert!(world.all_records().iter().all(|(offset, ..)| *offset >= 3));
}

/// The files of a log after a kill, and those after a power loss.
fn images(world: &World) -> [World; 2] {
    let mut images = [(); 2].map(|()| self::world());
    for image in &mut images {
        (image.disk, image.known) = (world.disk.clone(), world.known.clone());
    }
    images[1].disk.crash();
    images
}

/// Retention drops the first segment, or all segments. This happens before each slice of a pass in
/// turn. The process ends, or the power is lost, before each file operation of the retention, and
/// before each later slice of the pass.
#[test]
fn a_segment_that_is_dropped_during_a_pass_stays_dropped() {
    let mut between = 0;
    for (drops_all, moment) in (0..).flat_map(|moment| [(false, moment), (true, moment)]) {
        let mut world = world();
        for round in 0..3 {
            world.append(Made::of(&[("a", Some(&round.to_string()))]).batch());
            world.seal();
        }
        let mut pass = world.begin(0).unwrap();
        if (0..moment).find_map(|_| world.step(&mut pass)).is_some() {
            break;
        }
        let has_swap = |world: &World| world.disk.live.keys().any(|it| it.ends_with(SWAP));
        between += usize::from(has_swap(&world));
        let before = world.log.log_start_offset();
        let first = world.disk.live[&world.path(0)].len() as u64;
        let retention_bytes = if drops_all { 0 } else { (world.log.size() - first) as i64 };
        world.log.set_config(TopicConfig { retention_bytes, ..small_config() });
        let (mut ops, start) = (Vec::new(), |log: &PartitionLog| log.log_start_offset());
        assert!(world.log.retain(0, &mut world.files, &mut ops) > 0);
        let dropped_to = start(&world.log);
        for op in ops {
            for mut image in images(&world) {
                image.reopen_stored().unwrap();
                assert!((before..=dropped_to).contains(&start(&image.log)), "{moment}");
            }
            world.perform(vec![op]);
        }
        loop {
            for mut image in images(&world) {
                image.reopen_stored().unwrap();
                assert_eq!(start(&image.log), dropped_to, "{drops_all} {moment}");
                assert!(image.log.log_end_offset() >= image.stored.unwrap().end.offset);
            }
            if world.step(&mut pass).is_some() {
                break;
            }
        }
        assert!(!has_swap(&world));
    }
    assert!(between >= 2, "{between}");
}

/// The first segment is being sent while compaction replaces it.
#[test]
fn a_held_segment_that_lost_its_name_is_replaced() {
    let mut world = world();
    for round in 0..3 {
        world.append(Made::of(&[("a", Some(&round.to_string()))]).batch());
        world.seal();
    }
    let range = world.range(0, 1_000).unwrap();
    world.log.hold(&range, &mut world.files);
    let mut pass = world.begin(0).unwrap();
    let path = world.path(0);
    // The segment loses its name after its records were read, and before it is replaced.
    while !world.disk.live.keys().any(|it| it.ends_with("compacted.new")) {
        assert_eq!(world.step(&mut pass), None);
    }
    world.close_files();
    world.disk.live.remove(&path).unwrap();
    world.disk.durable.remove(&path).unwrap();
    let end = loop {
        if let Some(end) = world.step(&mut pass) {
            break end;
        }
    };
    assert!(matches!(end, CompactionEnd::Done(_)), "{end:?}");
    let left = records(&mut world);
    assert!(left.contains(&read(4, "a", "2")) && !left.contains(&read(0, "a", "0")), "{left:?}");
    let mut ops = Vec::new();
    world.files.release(range.file, &mut ops);
    world.perform(ops);
    assert!(world.disk.live.keys().all(|it| !it.to_string_lossy().ends_with(".replaced")));
}

/// Before each slice of a pass in turn, the file of the new segment is closed and then removed.
#[test]
fn a_pass_whose_new_segment_was_removed_ends_and_drops_no_record() {
    let expected = [read(1, "b", "1"), read(2, "a", "2")];
    let mut lost = 0;
    for moment in 0.. {
        let mut world = world();
        for (key, value) in [("a", "1"), ("b", "1"), ("a", "2")] {
            world.append(Made::of(&[(key, Some(value))]).batch());
        }
        world.seal();
        let mut pass = world.begin(0).unwrap();
        let early = (0..moment).find_map(|_| world.step(&mut pass));
        if early.is_some() {
            break;
        }
        world.close_files();
        let path = place().dir.join("compacted.new");
        let was_there = world.disk.live.remove(&path).is_some();
        world.disk.durable.remove(&path);
        let end = loop {
            if let Some(end) = world.step(&mut pass) {
                break end;
            }
        };
        assert_eq!(was_there, matches!(end, CompactionEnd::Gone { .. }), "{moment}: {end:?}");
        lost += usize::from(was_there);
        if was_there {
            world.compact(0);
        }
        world.reopen_stored().unwrap();
        let left = records(&mut world);
        assert!(expected.iter().all(|it| left.contains(it)), "{moment}: {left:?}");
    }
    assert!(lost >= 2, "{lost}");
}

/// Before each slice of a pass in turn, the directory of the log is moved away.
#[test]
fn a_pass_whose_directory_was_moved_away_ends_and_makes_no_other_one() {
    let (dir, elsewhere) = (place().dir, PathBuf::from("elsewhere"));
    let mut ends = BTreeSet::new();
    for moment in 0.. {
        let mut world = world();
        for (key, value) in [("a", "1"), ("b", "1"), ("a", "2")] {
            world.append(Made::of(&[(key, Some(value))]).batch());
        }
        world.seal();
        let expected = [read(1, "b", "1"), read(2, "a", "2")];
        let mut pass = world.begin(0).unwrap();
        let early = (0..moment).find_map(|_| world.step(&mut pass));
        if early.is_some() {
            break;
        }
        world.disk.move_away(&dir, &elsewhere);
        let end = loop {
            if let Some(end) = world.step(&mut pass) {
                break end;
            }
        };
        assert_eq!(world.disk.dir(&dir), BTreeMap::new(), "{moment}: {end:?}");
        ends.insert(format!("{end:?}").chars().take(4).collect::<String>());
        world.disk.move_away(&elsewhere, &dir);
        if let CompactionEnd::Gone { .. } = end {
            world.compact(0);
        }
        world.reopen_stored().unwrap();
        let left = records(&mut world);
        assert!(expected.iter().all(|it| left.contains(it)), "{moment}: {left:?}");
    }
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), ["Done", "Gone", "Lost"]);
}

/// The first segment is being sent while compaction replaces it. The process ends before each
/// operation in turn.
#[test]
fn a_held_segment_is_replaced_with_and_without_hard_links() {
    for lacks_links in [false, true] {
        let mut world = world();
        world.disk.lacks_links = lacks_links;
        for round in 0..3 {
            world.append(Made::of(&[("a", Some(&round.to_string()))]).batch());
            world.seal();
        }
        let range = world.range(0, 1_000).unwrap();
        world.log.hold(&range, &mut world.files);
        let before = world.read(0, 1_000);
        let mut pass = world.begin(0).unwrap();
        let end = loop {
            let mut ops = Vec::new();
            let slice = world.log.compact(&mut pass, FileToken(3), &mut world.files, &mut ops);
            for op in ops {
                for mut image in images(&world) {
                    image.reopen_stored().unwrap();
                    assert!(records(&mut image).contains(&read(4, "a", "2")), "{op:?}");
                }
                world.disk.perform(op).into_iter().for_each(|done| pass.done(done));
            }
            if let Slice::End(end) = slice {
                break end;
            }
        };
        assert!(matches!(end, CompactionEnd::Done(_)), "{end:?}");
        let mut ops = Vec::new();
        let file = world.files.open_held(&[range.file], &mut ops)[0];
        let (token, offset, len) = (READ, range.offset, range.len);
        ops.push(FileOp::Read { token, file, offset, len });
        assert_eq!(world.read_bytes(ops), before, "without links: {lacks_links}");
        let mut ops = Vec::new();
        world.files.release(range.file, &mut ops);
        world.perform(ops);
        let names: Vec<_> = world.disk.dir(&place().dir).into_keys().collect();
        assert!(names.iter().all(|name| name.ends_with(".log")), "{names:?}");
    }
}
