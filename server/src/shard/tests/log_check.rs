//! The running check on a shard with small segments: the faults that it finds, and no false
//! findings.

use super::world::{GROUPS, PARTITIONS, Random, World, commit};
use muster_storage::snapshot::{SNAPSHOT_DAMAGED_FILE_NAME, SNAPSHOT_FILE_NAME};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

/// Longer than a round.
const LONG_MS: i64 = 20_000;

/// Transactional ids.
const IDS: u64 = 12;

/// Share partitions.
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
    *world.shard.groups.is_log_broken() = true;
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
fn a_damaged_log_is_reported_and_the_server_continues() {
    let mut world = World::new(&[]);
    world.fill();
    let name = fs::read_dir(world.path("")).unwrap().map(|entry| entry.unwrap().path());
    let first = name.filter(|path| path.extension().is_some_and(|it| it == "log")).min().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(first).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5_000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 5_000).unwrap();
    world.pass(LONG_MS);
    assert!(*world.shard.groups.is_log_broken() && !world.is_failed());
}

/// Injects a fault into a correct shard; the check must find it, and a restart must have the state
/// of the log.
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
