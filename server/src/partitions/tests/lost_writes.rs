//! Files that lose their names while they are closed. The server must not create them again.

use super::super::{PartitionId, layout};
use super::support::*;
use super::transactions::{ABORT, COMMIT, transactional};
use muster_codec::ErrorCode;
use std::path::PathBuf;

/// The directory of partition 0.
fn directory() -> PathBuf {
    layout::directory(PartitionId { topic: topic_id(), index: 0 })
}

/// A world in which no file is open, and the segment of partition 0 has lost its name. Returns also
/// the path and the content of this segment.
fn bereft(fill: impl FnOnce(&mut World)) -> (World, PathBuf, Vec<u8>) {
    let mut world = World::new();
    fill(&mut world);
    world.append(1, &batch(1));
    world.reopen();
    let path = directory().join(&world.segments(0)[0]);
    let bytes = world.disk.live.remove(&path).unwrap();
    (world, path, bytes)
}

fn appended(world: &mut World, partition: i32) -> (ErrorCode, i64) {
    let answer = world.produce(partition, &batch(1));
    (error(answer.error_code), answer.base_offset)
}

#[test]
fn a_fetch_of_a_file_that_is_gone_fails_until_it_is_back() {
    let (mut world, path, bytes) = bereft(|world| assert_eq!(world.append(0, &batch(3)), 0));
    for _ in 0..2 {
        assert_eq!(error(world.fetch(0, 0).error_code), ErrorCode::KafkaStorageError);
        assert!(!world.disk.live.contains_key(&path));
    }
    assert_eq!(ranges(&world.fetch(1, 0)), [(0, 0)]);
    world.disk.live.insert(path, bytes);
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 2)]);
    assert_eq!(appended(&mut world, 0), (ErrorCode::None, 3));
}

#[test]
fn a_batch_whose_file_is_gone_is_refused_and_so_are_all_before_the_next_start() {
    let (mut world, path, bytes) = bereft(|world| assert_eq!(world.append(0, &batch(3)), 0));
    assert_eq!(appended(&mut world, 0), (ErrorCode::KafkaStorageError, -1));
    assert!(!world.disk.live.contains_key(&path));
    assert!(world.partitions.is_quiet(), "the bytes of the batch are not held any more");
    let trouble = world.partitions.files_trouble().unwrap();
    assert!(trouble.starts_with("1 files of partitions are lost"), "{trouble}");
    assert_eq!(appended(&mut world, 1), (ErrorCode::None, 1));
    // The file is back, but batches are still refused: there would be a gap before them, where the
    // lost batch was.
    world.disk.live.insert(path, bytes);
    assert_eq!(appended(&mut world, 0), (ErrorCode::KafkaStorageError, -1));
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 2)]);
    world.reopen();
    assert_eq!(world.partitions.files_trouble(), None);
    assert_eq!(appended(&mut world, 0), (ErrorCode::None, 3));
}

#[test]
fn a_deletion_of_records_after_a_lost_write_is_refused_before_the_next_start() {
    let (mut world, path, bytes) = bereft(|world| assert_eq!(world.append(0, &batch(3)), 0));
    assert_eq!(appended(&mut world, 0), (ErrorCode::KafkaStorageError, -1));
    world.disk.live.insert(path, bytes);
    assert_eq!(world.delete_before(0, 2), (-1, ErrorCode::KafkaStorageError));
    assert_eq!(world.delete_before(1, 1), (1, ErrorCode::None));
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 2)]);
    world.reopen();
    assert_eq!(world.delete_before(0, 2), (2, ErrorCode::None));
}

/// A look finds that the newest segment is gone, perhaps with the whole directory.
#[test]
fn a_deletion_of_records_from_a_lost_partition_is_refused_until_it_is_back() {
    let (mut world, path, bytes) = bereft(|world| assert_eq!(world.append(0, &batch(3)), 0));
    world.partitions.stop_upkeep();
    world.partitions.table_mut().config_mut().state_check_max_bytes_per_second = 1;
    world.config.state_check_max_bytes_per_second = 1;
    world.pass(2_000);
    assert_eq!(world.delete_before(0, 2), (-1, ErrorCode::KafkaStorageError));
    world.disk.live.insert(path, bytes);
    world.pass(2_000);
    assert_eq!(world.delete_before(0, 2), (2, ErrorCode::None));
    world.reopen();
    assert_eq!(world.list(0, -2).offset, 2);
}

#[test]
fn the_end_of_a_transaction_whose_file_is_gone_is_refused() {
    for outcome in [COMMIT, ABORT] {
        let (mut world, path, bytes) = bereft(|world| {
            assert_eq!(world.transact(transactional(2, 7, 0, 0)), (ErrorCode::None, 0));
        });
        assert_eq!(world.end((7, 0), outcome, 1), ErrorCode::KafkaStorageError);
        assert_eq!(world.end((7, 0), outcome, 1), ErrorCode::KafkaStorageError);
        assert!(!world.disk.live.contains_key(&path));
        world.disk.live.insert(path, bytes);
        world.reopen();
        assert_eq!(world.end((7, 0), outcome, 1), ErrorCode::None);
    }
}

#[test]
fn a_clean_stop_ends_without_the_sync_of_a_file_that_is_gone() {
    let (mut world, path, _) = bereft(|world| assert_eq!(world.append(0, &batch(3)), 0));
    world.sync_all();
    assert!(world.partitions.is_quiet());
    assert!(!world.disk.live.contains_key(&path));
}

/// A batch that begins a new segment.
fn rolled() -> Vec<u8> {
    large_batch(800_000)
}

#[test]
fn a_partition_whose_directory_was_moved_away_takes_no_batch_before_the_next_start() {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    assert_eq!(world.append(0, &rolled()), 0);
    let elsewhere = PathBuf::from("elsewhere");
    world.disk.move_away(&directory(), &elsewhere);
    for _ in 0..2 {
        let answer = world.produce(0, &rolled());
        assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
        assert_eq!(world.segments(0), [""; 0], "the directory is not made again");
        assert!(world.partitions.is_quiet());
    }
    let trouble = world.partitions.files_trouble().unwrap();
    assert!(trouble.starts_with("1 files of partitions are lost"), "{trouble}");
    world.disk.move_away(&elsewhere, &directory());
    assert_eq!(ranges(&world.fetch(0, 0)), [(0, 0)]);
    assert_eq!(appended(&mut world, 0), (ErrorCode::KafkaStorageError, -1));
    world.reopen();
    assert_eq!(appended(&mut world, 0), (ErrorCode::None, 1));
}

#[test]
fn a_batch_that_is_written_wakes_its_readers_while_a_later_one_is_lost() {
    let mut world = World::new();
    world.set("segment.bytes", "1048576");
    assert_eq!(world.append(0, &rolled()), 0);
    let fetch = world.start_fetch(&fetch_request(10_000, &[(0, 1)]));
    world.settle();
    let written = world.start_produce(0, &batch(1));
    let elsewhere = PathBuf::from("elsewhere");
    world.disk.move_away(&directory(), &elsewhere);
    let lost = world.start_produce(0, &rolled());
    // The write of the first batch ends only after it was found that the file of the second one is
    // lost.
    assert_eq!(world.done.len(), 2);
    world.done.swap(0, 1);
    world.settle();
    assert_eq!(world.produced(lost).unwrap().error_code, ErrorCode::KafkaStorageError.code());
    let answer = world.produced(written).unwrap();
    assert_eq!((error(answer.error_code), answer.base_offset), (ErrorCode::None, 1));
    // The directory is moved back, because the file is opened by its name to send its records.
    world.disk.move_away(&elsewhere, &directory());
    let answer = world.fetched(fetch).expect("it waited for this batch");
    assert_eq!(ranges(&only(answer)), [(1, 1)]);
    assert!(world.partitions.is_quiet());
}

/// A look has found the lost file first.
#[test]
fn a_lost_file_is_counted_once() {
    let (mut world, _, _) = bereft(|world| assert_eq!(world.append(0, &batch(3)), 0));
    world.partitions.stop_upkeep();
    world.partitions.table_mut().config_mut().state_check_max_bytes_per_second = 1;
    world.config.state_check_max_bytes_per_second = 1;
    world.pass(2_000);
    assert_eq!(world.partitions.disk().counters.files_lost, 1);
    world.sync_all();
    world.pass(2_000);
    assert_eq!(world.partitions.disk().counters.files_lost, 1);
    let trouble = world.partitions.files_trouble().unwrap();
    assert!(trouble.starts_with("1 files of partitions are lost"), "{trouble}");
    assert_eq!(world.partitions.upkeep().lost_files(), 1);
    assert_eq!(appended(&mut world, 0), (ErrorCode::KafkaStorageError, -1));
}
