//! The running check on a shard with small segments: the faults that it finds, and no false
//! findings.

use super::world::{GROUPS, PARTITIONS, Random, World, commit};
use muster_storage::snapshot::{SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A round of the running check takes less than this time.
const LONG_MS: i64 = 20_000;

/// The number of transactional ids.
const IDS: u64 = 12;

/// The number of share partitions.
const SHARES: usize = 30;

#[test]
fn no_fault_is_found_without_one() {
    for (seed, retention_ms) in [(1, 0), (2, 50), (3, 5_000), (4, 86_400_000)] {
        let retention = format!("log.cleaner.delete.retention.ms={retention_ms}");
        let mut world = World::new(&[&retention]);
        world.create_share_topics();
        let mut random = Random(seed);
        let mut compared = 0;
        for _ in 0..5 {
            for _ in 0..600 {
                if random.below(50) == 0 {
                    world.set_retention(random.below(3) * retention_ms);
                }
                world.change(&mut random);
                let epoch = (random.below(3) > 0).then(|| random.below(1_000) as i16);
                world.append_id(random.below(IDS), epoch);
                world.change_share(&mut random);
                world.pass(random.below(3) as i64);
            }
            world.pass(LONG_MS);
            assert!(!world.is_failed(), "seed {seed}");
            compared += world.shard.inspect().groups_checked();
            world.restart();
        }
        assert!(compared > 2 * GROUPS, "seed {seed}: {compared} groups were compared");
        assert!(world.swaps > 0 && world.unloaded > 0, "seed {seed} saw too little");
    }
}

#[test]
fn nothing_is_checked_at_a_rate_of_zero() {
    let mut world = World::new(&["state.check.max.bytes.per.second=0"]);
    world.fill();
    world.replay(&commit(7, 3, Some(4_711)));
    world.pass(LONG_MS);
    assert!(!world.is_failed() && world.shard.inspect().groups_checked() == 0);
}

#[test]
fn a_group_changed_without_a_record_is_found() {
    assert_found(|world| world.replay(&commit(7, 3, Some(4_711))));
}

#[test]
fn a_group_without_records_is_found() {
    assert_found(|world| world.replay(&commit(1_000, 0, Some(1))));
}

#[test]
fn a_transactional_id_changed_without_a_record_is_found() {
    assert_found(|world| world.replay_id(3, Some(4_711)));
}

#[test]
fn a_transactional_id_without_records_is_found() {
    assert_found(|world| world.replay_id(1_000, Some(1)));
}

#[test]
fn a_transactional_id_that_is_missing_is_found() {
    assert_found(|world| world.replay_id(3, None));
}

#[test]
fn share_state_that_differs_from_its_records_is_found() {
    for (number, start_offset) in [(3, Some(4_711)), (1_000, Some(1)), (3, None)] {
        assert_found(|world| world.replay_share(number, start_offset));
    }
}

#[test]
fn a_group_that_lost_its_offsets_is_found() {
    assert_found(|world| {
        for partition in 0..PARTITIONS {
            world.replay(&commit(7, partition, None));
        }
    });
}

#[test]
fn a_snapshot_that_differs_from_the_log_is_found() {
    let mut world = World::new(&[]);
    world.fill();
    world.replay(&commit(7, 3, Some(4_711)));
    world.shard.check_later(10);
    world.pass(10);
    fs::remove_file(world.path(SNAPSHOT_FILE_NAME)).unwrap();
    while !world.path(SNAPSHOT_FILE_NAME).exists() {
        world.append(&commit(1, 1, Some(5)));
        world.pass(1);
    }
    world.pass(10);
    world.restart();
    assert!(world.shard.inspect().is_unloaded("g7"));
    world.pass(LONG_MS);
    assert!(world.is_failed());
    assert!(world.shard.inspect().is_unloaded("g8"), "compared groups stay unloaded");
    world.restart();
    assert_eq!(world.committed(7, 3), Some(703));
}

#[test]
fn a_damaged_log_is_rewritten_from_memory() {
    for seed in 1..=4 {
        let (mut world, mut random) = mixed(seed);
        damage_first_segment(&world);
        world.pass(LONG_MS);
        for _ in 0..200 {
            change_anything(&mut world, &mut random);
            world.pass(1);
        }
        world.pass(LONG_MS);
        let totals = world.totals();
        assert_eq!((totals.of("log_rewritten"), totals.of("log_damaged")), (1, 0), "seed {seed}");
        assert!(!world.shard.upkeep.is_log_broken() && !world.is_failed(), "seed {seed}");
        assert!(
            world.shard.troubles()[0].contains("found 1 times; the log was rewritten from memory")
        );
        let kept = fs::read_dir(world.path("../../trash")).unwrap();
        let kept: Vec<_> = kept.map(|it| it.unwrap().path()).collect();
        assert_eq!(kept.len(), 1, "seed {seed}: {kept:?}");
        assert!(kept[0].join("00000000000000000001.log").exists(), "seed {seed}: {kept:?}");
        let before = state(&mut world);
        world.restart();
        assert!(state(&mut world) == before, "seed {seed}");
        // The log replays to the same state without the snapshot.
        fs::remove_file(world.path(SNAPSHOT_FILE_NAME)).unwrap();
        world.restart();
        assert!(state(&mut world) == before, "seed {seed}");
        world.pass(LONG_MS);
        assert!(!world.is_failed(), "seed {seed}");
    }
}

#[test]
fn a_file_of_the_log_that_is_lost_or_cut_is_found() {
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let cut =
        |path: &Path| File::options().write(true).open(path).unwrap().set_len(20_000).unwrap();
    let no_header = |path: &Path| {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(&[0; 512], 0).unwrap();
    };
    let ways: [&dyn Fn(&Path); 3] = [&remove, &cut, &no_header];
    for (seed, way) in (1..).zip(ways) {
        for newest in [false, true] {
            let (mut world, mut random) = mixed(seed);
            world.pass(LONG_MS);
            assert_eq!(world.totals().of("log_damage_found"), 0, "seed {seed}");
            let segments = segments(&world);
            way(&segments[if newest { segments.len() - 1 } else { 0 }]);
            for _ in 0..100 {
                change_anything(&mut world, &mut random);
                world.pass(LONG_MS / 100);
            }
            world.pass(LONG_MS);
            let totals = world.totals();
            assert!(totals.of("log_rewritten") > 0, "seed {seed}");
            assert!(totals.of("log_damaged") == 0 && !world.is_failed(), "seed {seed}");
            let before = state(&mut world);
            world.restart();
            assert!(state(&mut world) == before, "seed {seed}");
        }
    }
}

#[test]
fn damage_among_the_records_of_the_cluster_is_found() {
    let mut world = World::new(&[]);
    for number in 0..40 {
        world.create_topic(&format!("topic-{number}"));
    }
    world.pass(LONG_MS);
    assert_eq!(world.totals().of("log_damage_found"), 0);
    let before = state(&mut world);
    // The first block has only one topic, so it is short, and this byte is in its header.
    damage_first_segment_at(&world, 512 + 30);
    world.pass(LONG_MS);
    let totals = world.totals();
    assert_eq!((totals.of("log_rewritten"), totals.of("log_damaged")), (1, 0));
    world.restart();
    assert!(state(&mut world) == before);
}

/// The log is damaged. Then a snapshot is written, and the shard is killed before it has rewritten
/// the log.
#[test]
fn a_kill_after_damage_needs_no_more_than_the_next_snapshot() {
    let mut needed = 0;
    for seed in 1..=8 {
        let (mut world, mut random) = mixed(seed);
        world.pass(LONG_MS);
        damage_first_segment(&world);
        let mut until = |world: &mut World, name: &str, least: u64| {
            while world.totals().of(name) < least && world.totals().of("log_rewritten") == 0 {
                change_anything(world, &mut random);
                world.pass(1);
            }
        };
        until(&mut world, "log_damage_found", 1);
        let written = world.totals().of("snapshots_written");
        until(&mut world, "snapshots_written", written + 1);
        needed += usize::from(world.totals().of("log_rewritten") == 0);
        let before = state(&mut world);
        world.restart();
        assert!(state(&mut world) == before, "seed {seed}");
        world.pass(LONG_MS);
        assert!(!world.is_failed() && state(&mut world) == before, "seed {seed}");
        assert_eq!(world.totals().of("log_damaged"), 0, "seed {seed}");
    }
    assert!(needed > 0, "no log was still damaged");
}

#[test]
fn a_kill_during_a_rewrite_loses_nothing() {
    for (seed, ms) in (1..).zip([0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]) {
        let (mut world, mut random) = mixed(seed);
        world.pass(LONG_MS);
        world.shard.upkeep.rewrite("a test");
        for _ in 0..ms {
            change_anything(&mut world, &mut random);
            world.pass(1);
        }
        world.pass(3);
        let before = state(&mut world);
        world.restart();
        assert!(state(&mut world) == before, "seed {seed}, after {ms} ms");
        world.pass(LONG_MS);
        assert!(!world.is_failed() && state(&mut world) == before, "seed {seed}");
    }
}

/// A shard with state of every kind, but without open transactions.
fn mixed(seed: u64) -> (World, Random) {
    let (mut world, mut random) = (World::new(&[]), Random(seed));
    world.create_share_topics();
    world.fill();
    for _ in 0..300 {
        change_anything(&mut world, &mut random);
        world.pass(1);
    }
    (world, random)
}

fn change_anything(world: &mut World, random: &mut Random) {
    world.change(random);
    let epoch = (random.below(3) > 0).then(|| random.below(1_000) as i16);
    world.append_id(random.below(IDS), epoch);
    world.change_share(random);
}

/// All durable state, as text.
fn state(world: &mut World) -> Vec<String> {
    world.shard.groups.slots_mut().load_all();
    let groups = world.shard.groups.slots().durable_state();
    let mut state: Vec<_> = groups.iter().map(|it| format!("{it:?}")).collect();
    state.extend(world.shard.inspect().transactional_ids().iter().map(|it| format!("{it:?}")));
    state.extend(world.share_snapshots().iter().map(|it| format!("{it:?}")));
    let image = world.shard.broker.image().records(&world.common.config);
    state.extend(image.iter().map(|it| format!("{it:?}")));
    state
}

/// The files of the log, in order.
fn segments(world: &World) -> Vec<PathBuf> {
    let paths = fs::read_dir(world.path("")).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "log")).collect();
    segments.sort();
    segments
}

/// Flips a bit of a block.
fn damage_first_segment(world: &World) {
    damage_first_segment_at(world, 5_000);
}

fn damage_first_segment_at(world: &World, at: u64) {
    let file = File::options().read(true).write(true).open(&segments(world)[0]).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

/// Injects a fault into a correct shard. The check must find the fault, and after a restart the
/// shard must have the state of the log.
fn assert_found(inject: impl FnOnce(&mut World)) {
    let mut world = World::new(&[]);
    world.create_share_topics();
    world.fill();
    (0..IDS).for_each(|number| world.append_id(number, Some(1)));
    let mut random = Random(1);
    while world.share_snapshots().len() < SHARES {
        world.change_share(&mut random);
    }
    let shares = world.share_snapshots();
    world.pass(LONG_MS);
    assert!(!world.is_failed() && world.shard.inspect().groups_checked() >= GROUPS);
    let ids = world.shard.inspect().transactional_ids();
    let had_snapshot = world.path(SNAPSHOT_FILE_NAME).exists();
    inject(&mut world);
    world.pass(LONG_MS);
    assert!(world.is_failed());
    assert!(!world.path(SNAPSHOT_FILE_NAME).exists());
    assert_eq!(world.path(SNAPSHOT_DAMAGED_FILE_NAME).exists(), had_snapshot);
    world.restart();
    assert_eq!((world.committed(7, 3), world.committed(1_000, 0)), (Some(703), None));
    assert_eq!(world.shard.inspect().transactional_ids(), ids);
    assert_eq!(world.share_snapshots(), shares);
    world.pass(LONG_MS);
    assert!(!world.is_failed());
}
