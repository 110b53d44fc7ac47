//! Damage that appears while partitions are served. The scrub finds it, and only the damaged
//! records are lost.

use super::super::{Effects, PartitionId, layout};
use super::support::*;
use muster_codec::ErrorCode;
use muster_storage::{FileDone, FileOp, Suspect};
use std::path::{Path, PathBuf};

/// A world that scrubs its partitions at this rate.
fn scrubbed(bytes_per_second: i64) -> World {
    let mut world = World::new();
    world.partitions.table_mut().config_mut().state_check_max_bytes_per_second = bytes_per_second;
    world.config.state_check_max_bytes_per_second = bytes_per_second;
    for offset in 0..20 {
        world.append(0, &timed_batch(&[1_000 + offset]));
        world.append(1, &batch(1));
    }
    world
}

/// Lets time pass for some passes over a few small segments.
fn pass(world: &mut World) {
    for _ in 0..10 {
        world.pass(500);
    }
}

fn found(world: &World) -> u64 {
    world.partitions.disk().counters.damage_found
}

#[test]
fn damage_is_found_while_the_partition_is_served_and_costs_one_batch() {
    let mut world = scrubbed(1 << 20);
    pass(&mut world);
    let passes = world.partitions.disk().counters.scrubs;
    assert!(passes > 1 && found(&world) == 0, "{passes} passes");
    let len = world.segment(0).len() / 20;
    world.segment(0)[5 * len - 1] ^= 1;
    pass(&mut world);
    assert_eq!((found(&world), world.partitions.damaged_parts()), (1, 1));
    assert_eq!(error(world.fetch(0, 4).error_code), ErrorCode::CorruptMessage);
    assert_eq!(ranges(&world.fetch(0, 1)), [(1, 1), (2, 2), (3, 3)], "it ends before the batch");
    assert_eq!(ranges(&world.fetch(0, 5)), (5..20).map(|it| (it, it)).collect::<Vec<_>>());
    assert_eq!(world.list(0, 1_004).offset, 5, "the first that can be read");
    assert_eq!(world.append(0, &batch(1)), 20);
    assert_eq!(ranges(&world.fetch(1, 0)).len(), 20);
    // The damaged part is counted once.
    pass(&mut world);
    assert_eq!((found(&world), world.partitions.damaged_parts()), (1, 1));
}

#[test]
fn damage_that_a_fetch_meets_does_not_wait_for_a_pass() {
    // At this rate (one byte per second) the pass reads only once in a day and a half.
    let mut world = scrubbed(1);
    pass(&mut world);
    let len = world.segment(0).len() / 20;
    // The magic byte of a batch is damaged: its header cannot be read.
    world.segment(0)[4 * len + 16] ^= 1;
    assert_eq!(error(world.fetch(0, 6).error_code), ErrorCode::CorruptMessage);
    world.pass(1);
    assert_eq!(found(&world), 1);
    // The batches that follow cannot be found either, because these few kilobytes do not suffice to
    // recognise where they begin.
    assert_eq!(error(world.fetch(0, 6).error_code), ErrorCode::CorruptMessage);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    assert_eq!(world.append(0, &batch(1)), 20);
    assert_eq!(ranges(&world.fetch(0, 20)), [(20, 20)]);
}

#[test]
fn suspects_do_not_change_the_rate_of_the_pass() {
    // The pass has read the first partition. At this rate it reads the second one many seconds
    // later.
    let mut world = scrubbed(100);
    pass(&mut world);
    let first = world.segment(0).len() as u64;
    assert_eq!(world.partitions.disk().counters.scrubbed_bytes, first);
    // The damaged byte makes all batches unreadable, because their lengths no longer lead to the
    // next one.
    world.segment(0)[16] ^= 1;
    let id = PartitionId { topic: topic_id(), index: 0 };
    world.partitions.upkeep_mut().suspect(id, Suspect { segment: 0, position: 0 });
    world.pass(1);
    assert_eq!((found(&world), world.partitions.disk().counters.scrubbed_bytes), (1, 2 * first));
    // The place is in a damaged part now, so nothing is left to read there.
    for _ in 0..100 {
        world.partitions.upkeep_mut().suspect(id, Suspect { segment: 0, position: 0 });
        world.pass(1);
    }
    assert_eq!(world.partitions.disk().counters.scrubbed_bytes, 2 * first);
    let due = first as i64 * 1_000 / 100;
    assert!(due > 10_000, "{due} ms");
    world.pass(due);
    let second = world.segment(1).len() as u64;
    assert_eq!(world.partitions.disk().counters.scrubbed_bytes, 2 * first + second);
}

#[test]
fn a_scrub_opens_only_files_that_are_there() {
    for by_suspect in [false, true] {
        // After startup no file is open.
        let mut world = scrubbed(1 << 20);
        world.reopen();
        let id = PartitionId { topic: topic_id(), index: 0 };
        let directory = layout::directory(id);
        let is_lost = |path: &Path| path.starts_with(&directory) && path.extension().is_some();
        let lost = world.disk.live.extract_if(.., |path, _| is_lost(path)).collect::<Vec<_>>();
        assert!(!lost.is_empty());
        if by_suspect {
            world.partitions.upkeep_mut().suspect(id, Suspect { segment: 0, position: 0 });
        }
        pass(&mut world);
        let names: Vec<_> = world.disk.live.keys().filter(|path| is_lost(path)).collect();
        assert_eq!(names, [] as [&PathBuf; 0], "by a suspect: {by_suspect}");
        assert!(world.partitions.files_trouble().is_some_and(|it| it.contains("is gone")));
        // Meanwhile the other partition is scrubbed. This one is scrubbed when its files are back.
        let (passes, second) = (world.partitions.disk().counters.scrubs, world.segment(1).len());
        assert!(passes > 1 && world.partitions.disk().counters.scrubbed_bytes >= second as u64);
        world.disk.live.extend(lost);
        world.segment(0)[100] ^= 1;
        pass(&mut world);
        assert_eq!((found(&world), world.partitions.files_trouble()), (1, None));
    }
}

#[test]
fn a_scrub_whose_look_fails_opens_nothing() {
    let mut world = scrubbed(1 << 20);
    world.reopen();
    world.now += 1;
    let mut out = Effects::default();
    world.partitions.scrub(world.now, &mut out);
    let [FileOp::Look { token, .. }] = out.ops[..] else { panic!("{:?}", out.ops) };
    let mut out = Effects::default();
    let reason = "EACCES".to_owned();
    world.partitions.file_done(FileDone::ReadFailed { token, reason }, &mut out);
    world.perform(out);
    assert!(world.partitions.disk().files.is_empty());
    // The scrub continues with the next file.
    pass(&mut world);
    let all = (world.segment(0).len() + world.segment(1).len()) as u64;
    assert!(world.partitions.disk().counters.scrubbed_bytes >= all);
}

#[test]
fn nothing_is_read_at_a_rate_of_zero_or_once_the_server_stops() {
    for (rate, stops) in [(0, false), (1 << 20, true)] {
        let mut world = scrubbed(rate);
        pass(&mut world);
        let before = world.partitions.disk().counters.scrubbed_bytes;
        assert_eq!(before > 0, stops);
        if stops {
            world.partitions.stop_upkeep();
        }
        world.segment(0)[100] ^= 1;
        pass(&mut world);
        assert_eq!((world.partitions.disk().counters.scrubbed_bytes, found(&world)), (before, 0));
    }
}
