//! Compaction of a partition: stories about single records, and what readers see.

#![allow(clippy::unwrap_used)]

mod common;

use common::compacting::{Compacting, Made, value_of};
use common::partition::{World, place, small_config};
use common::texts::{read, records, world};
use muster_codec::record_batch::{Batch, BatchHeader, Batches, Compression};
use muster_storage::partition_log::{CompactionEnd, LastOfProducer};
use muster_storage::{Find, TopicConfig};

const DAY: i64 = 86_400_000;

#[test]
fn the_newest_record_of_each_key_is_left_at_its_offset() {
    let mut world = world();
    for (key, value) in [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2")] {
        world.append(Made::of(&[(key, Some(value))]).batch());
    }
    world.seal();
    let expected = [read(2, "a", "2"), read(3, "c", "1"), read(4, "b", "2")];
    let end = world.log.log_end_offset();
    let before = world.log.size();
    world.compact(0);
    assert_eq!(records(&mut world)[..3], expected);
    assert!(world.log.size() < before);
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (0, end));
    world.reopen_stored().unwrap();
    assert_eq!(records(&mut world)[..3], expected);
    assert_eq!((world.log.log_start_offset(), world.log.log_end_offset()), (0, end));
}

#[test]
fn an_offset_in_a_gap_is_read_from_the_next_batch() {
    let mut world = world();
    for at in 0..30 {
        world.append(Made::of(&[("a", Some(&at.to_string()))]).batch());
    }
    world.seal();
    world.compact(0);
    for offset in 0..30 {
        let bytes = world.read(offset, 4_000);
        let first =
            Batches::new(&bytes).find(|batch| batch.as_ref().unwrap().header.records_count > 0);
        assert_eq!(first.unwrap().unwrap().header.base_offset, 29.max(offset));
        assert!(world.log.readable_bytes(offset) > 0);
    }
}

#[test]
fn small_segments_are_merged_up_to_the_size_of_a_segment() {
    let mut world = world();
    for round in 0..12 {
        world.append(Made::of(&[("a", Some(&round.to_string()))]).batch());
        world.seal();
    }
    assert!(world.segments().len() > 12);
    world.compact(0);
    assert!(world.segments().len() <= 3, "{:?}", world.segments());
    let point = world.stored.unwrap();
    world.reopen_from(Some(point)).unwrap();
}

#[test]
fn a_tombstone_stays_until_its_horizon() {
    let mut world = world();
    for value in [Some("1"), None] {
        world.append(Made::of(&[("a", value), ("b", Some("1"))]).batch());
    }
    world.seal();
    world.compact(1_000);
    let kept = |world: &mut World| records(world).iter().any(|(_, key, _)| key == "a");
    assert!(kept(&mut world));
    let horizons = |world: &mut World| -> Vec<i64> {
        world.headers().iter().filter_map(BatchHeader::delete_horizon).collect()
    };
    assert_eq!(horizons(&mut world), [1_000 + DAY]);
    world.append(Made::of(&[("c", Some("1"))]).batch());
    world.seal();
    world.compact(999 + DAY);
    assert!(kept(&mut world));
    world.append(Made::of(&[("c", Some("1"))]).batch());
    world.seal();
    world.compact(1_000 + DAY);
    assert!(!kept(&mut world));
}

#[test]
fn the_last_batch_of_a_producer_stays_without_records() {
    let mut world = world();
    let made = |sequence: i32, key| Made { producer: Some((7, 1, sequence)), ..Made::of(&[key]) };
    world.append(made(0, ("a", Some("1"))).batch());
    world.append(made(1, ("a", Some("2"))).batch());
    world.append(Made::of(&[("a", Some("3"))]).batch());
    world.seal();
    world.producers.insert(7, LastOfProducer::Data(1));
    world.compact(0);
    let of_producer: Vec<_> =
        world.headers().into_iter().filter(|header| header.producer_id == 7).collect();
    let [header] = of_producer[..] else { panic!("{of_producer:?}") };
    assert_eq!((header.base_offset, header.base_sequence, header.records_count), (1, 1, 0));
    assert_eq!((header.producer_epoch, header.last_offset()), (1, 1));
}

#[test]
fn aborted_records_go_at_once_and_markers_after_them() {
    let mut world = world();
    world.append(Made::of(&[("a", Some("1"))]).batch());
    let by = |producer| Made { transaction: Some(producer), ..Made::of(&[("a", Some("x"))]) };
    world.append(by(5).batch());
    world.append(by(6).batch());
    world.append(Made::marker(5, false));
    world.append(Made::marker(6, true));
    world.aborted.push((5, 1..3));
    world.seal();
    world.compact(1_000);
    assert_eq!(records(&mut world)[..1], [read(2, "a", "x")]);
    let markers = |world: &mut World| -> Vec<i64> {
        let headers = world.headers().into_iter();
        headers
            .filter(|it| it.is_control() && it.records_count > 0)
            .map(|it| it.base_offset)
            .collect()
    };
    assert_eq!(markers(&mut world), [3, 4], "their records were there when the pass began");
    world.append(Made::of(&[("c", Some("1"))]).batch());
    world.seal();
    world.compact(2_000);
    assert_eq!(markers(&mut world), [3, 4], "the horizon of the first begins");
    world.append(Made::of(&[("c", Some("1"))]).batch());
    world.seal();
    let mut pass = world.begin(2_000 + DAY).unwrap();
    let mut dropped = Vec::new();
    while world.step(&mut pass).is_none() {
        dropped.extend(pass.take_dropped_markers());
    }
    assert_eq!((markers(&mut world), dropped), (vec![4], vec![3]));
}

#[test]
fn what_is_not_stable_or_not_synced_is_left() {
    let mut world = world();
    for _ in 0..3 {
        world.append(Made::of(&[("a", Some("1"))]).batch());
    }
    world.seal();
    world.stable = Some(2);
    assert_eq!(world.try_compact(0), None, "an open transaction");
    world.stable = None;
    let stored = world.stored.take();
    world.reopen_from(None).unwrap();
    assert_eq!(world.try_compact(0), None, "no recovery point");
    world.reopen_from(stored).unwrap();
    assert!(matches!(world.try_compact(0), Some(CompactionEnd::Done(_))));
}

#[test]
fn young_records_wait() {
    let mut world = world();
    world.append(Made { time: 5_000, ..Made::of(&[("a", Some("1")), ("a", Some("2"))]) }.batch());
    world.seal();
    world.rules.min_lag_ms = 1_000;
    assert_eq!(world.try_compact(5_999), None);
    assert!(world.try_compact(6_000).is_some());
}

#[test]
fn compressed_batches_keep_their_codec() {
    for codec in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let mut world = world();
        let made = |value| Made { codec, ..Made::of(&[("a", Some(value)), ("b", None)]) };
        world.append(made("1").batch());
        world.append(Made { codec, ..Made::of(&[("a", Some("2")), ("c", Some("3"))]) }.batch());
        world.append(Made { codec, ..Made::of(&[("c", Some("4"))]) }.batch());
        world.seal();
        world.compact(0);
        let expected = [(1, "b".to_owned(), None), read(2, "a", "2"), read(4, "c", "4")];
        assert_eq!(records(&mut world)[..3], expected, "{codec:?}");
        let first: Vec<_> = world.headers().iter().take(3).map(BatchHeader::compression).collect();
        assert_eq!(first, [Some(codec); 3]);
    }
}

#[test]
fn a_compressed_batch_that_cannot_be_read_stays_as_it_is() {
    let mut world = world();
    world.append(Made::of(&[("a", Some("1"))]).batch());
    let mut broken = Made { codec: Compression::Lz4, ..Made::of(&[("a", Some("2"))]) }.batch();
    let header = Batch::read(&broken).unwrap().header;
    broken[70] ^= 0x55;
    header.write(&mut broken);
    world.append(broken.clone());
    world.append(Made::of(&[("b", Some("1"))]).batch());
    world.seal();
    world.compact(0);
    let headers = world.headers();
    assert_eq!(headers[..2].iter().map(|it| it.base_offset).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(headers[1].total_len(), broken.len());
}

#[test]
fn a_full_table_takes_several_passes() {
    let mut world = World::new(TopicConfig { segment_bytes: 400_000, ..small_config() });
    for round in 0..2 {
        for at in 0..6_000 {
            world.append(Made::of(&[(&format!("{at}"), Some(&format!("{round}")))]).batch());
        }
    }
    world.seal();
    let mut passes = 0;
    while world.try_compact(0).is_some() {
        passes += 1;
        let all = world.all_records();
        assert_eq!(all.iter().rfind(|it| it.1 == b"0").unwrap().0, 6_000);
    }
    assert!(passes > 3, "{passes}");
    assert!(world.all_records().iter().all(|it| value_of(it) != "0"));
}

#[test]
fn a_full_disk_ends_the_pass_and_loses_nothing() {
    let mut world = world();
    for (key, value) in [("a", "1"), ("a", "2")] {
        world.append(Made::of(&[(key, Some(value))]).batch());
    }
    world.seal();
    let before = world.disk.live.clone();
    world.disk.is_full = true;
    assert_eq!(world.try_compact(0), Some(CompactionEnd::NoSpace));
    assert_eq!(world.disk.live, before);
    world.disk.is_full = false;
    world.compact(0);
    assert_eq!(records(&mut world)[..1], [read(1, "a", "2")]);
}

#[test]
fn damage_ends_the_pass_and_changes_nothing() {
    let mut world = world();
    for at in 0..4 {
        world.append(Made::of(&[("a", Some(&at.to_string()))]).batch());
    }
    world.seal();
    let path = world.path(0);
    world.disk.live.get_mut(&path).unwrap()[70] ^= 1;
    let before = world.disk.live.clone();
    assert!(matches!(world.try_compact(0), Some(CompactionEnd::Damaged { .. })));
    assert_eq!(world.disk.live, before);
    world.disk.live.get_mut(&path).unwrap()[70] ^= 1;
    // Cuts the file at the end of a batch.
    let len = world.headers()[0].total_len();
    world.disk.live.get_mut(&path).unwrap().truncate(len);
    assert!(matches!(world.try_compact(0), Some(CompactionEnd::Damaged { .. })));
}

#[test]
fn readers_of_a_replaced_segment_see_its_old_bytes_or_begin_again() {
    let mut world = world();
    for round in 0..6 {
        world.append(Made::of(&[("a", Some(&round.to_string()))]).batch());
        world.seal();
    }
    // Holds a range as if it were being sent.
    let range = world.range(2, 4_000).unwrap();
    world.log.hold(&range, &mut world.files);
    let before = world.read(2, 4_000);
    // Begins a search, and finds the position of a batch.
    let mut ops = Vec::new();
    let token = common::partition::READ;
    let Some(Find::Read(search)) = world.log.find(2, token, &mut world.files, &mut ops) else {
        panic!("it is not among the last batches")
    };
    let data = world.read_bytes(ops);
    world.compact(0);

    let mut ops = Vec::new();
    let file = world.files.open_held(&[range.file], &mut ops)[0];
    let (offset, len) = (range.offset, range.len);
    ops.push(muster_storage::FileOp::Read { token, file, offset, len });
    assert_eq!(world.read_bytes(ops), before);
    let mut ops = Vec::new();
    world.files.release(range.file, &mut ops);
    world.perform(ops);
    let names: Vec<_> = world.disk.dir(&place().dir).into_keys().collect();
    assert!(names.iter().all(|name| name.ends_with(".log")), "{names:?}");

    let muster_storage::Found::Batch(place) = search.look(&data).unwrap() else { panic!() };
    assert_eq!(world.log.range(place, None, 4_000, true), Ok(None), "it is stale");
    let mut ops = Vec::new();
    let on = world.log.find_on(search, token, &mut world.files, &mut ops).unwrap();
    let data = world.read_bytes(ops);
    let muster_storage::Found::Batch(place) = on.look(&data).unwrap() else { panic!() };
    assert!(world.log.range(place, None, 4_000, true).unwrap().is_some());
}

#[test]
fn a_search_by_time_continues_in_the_compacted_segment() {
    let mut world = world();
    for round in 0..20 {
        let key = ["a", "b"][usize::from(round == 7)];
        let made = Made { time: 100 + round, ..Made::of(&[(key, Some(&round.to_string()))]) };
        world.append(made.batch());
    }
    world.seal();
    assert_eq!(world.offset_for(103), Some((3, 103)));
    let mut search = world.log.search(103);
    let mut ops = Vec::new();
    assert!(world.log.search_read(
        &mut search,
        common::partition::READ,
        &mut world.files,
        &mut ops
    ));
    world.read_bytes(ops);
    world.compact(0);
    assert_eq!(world.offset_for(103), Some((7, 107)));
    assert_eq!(world.search_on(search).0, Some((7, 107)));
    assert_eq!(world.offset_for(108), Some((19, 119)));
}
