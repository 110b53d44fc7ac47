//! The records that compaction keeps and drops.

use crate::common::{SHARE_STATE, part, records, settle};
use crate::story::Story;
use muster_codec::Wall;
use muster_codec::record_batch::Batch;

#[test]
fn the_newest_record_of_each_key_keeps_its_offset() {
    let mut story = Story::idle();
    story.put(0, "a", "1");
    story.put(0, "b", "1");
    story.put(1, "a", "other partition");
    story.put(0, "a", "2");
    story.put(0, "c", "1");
    story.put(0, "a", "3");
    story.roll();
    story.put(0, "c", "in the active segment");
    let position = story.log.progress().accepted();
    let timestamp = records(&story.replayed())[&(0, 1)].timestamp;
    story.compact();
    let left = ["0@1 b=1", "0@3 c=1", "0@4 a=3", "0@5 c=in the active segment"];
    assert_eq!(story.texts()[..4], left);
    assert_eq!(story.texts()[4..], ["1@0 a=other partition"]);
    assert_eq!(records(&story.replayed())[&(0, 1)].timestamp, timestamp);

    story.crash();
    assert_eq!(story.log.progress().accepted(), position, "positions are kept");
    story.put(0, "a", "4");
    assert_eq!(story.texts()[4], "0@6 a=4");
}

#[test]
fn a_batch_that_loses_no_records_keeps_its_bytes() {
    let mut story = Story::idle();
    let record = |key: &'static [u8]| (key, Some(&b"value"[..]));
    story.log.append(part(3), 5, [record(b"a"), record(b"b")]).unwrap();
    story.log.append(part(3), 7, [record(b"c")]).unwrap();
    settle(&mut story.log, &mut story.disk, 5);
    story.roll();
    let before = story.batches(3);
    story.compact();
    assert_eq!(story.batches(3), before);
}

#[test]
fn records_are_stamped_by_the_wall_clock_whatever_it_is_set_to() {
    let mut story = Story::idle();
    for (now, wall) in [(1_000_000, 7_000_000), (1_000_001, 3_000_000)] {
        story.log.set_wall(now, Wall(wall));
        story.log.append(part(3), now, [(&b"key"[..], Some(&b"value"[..]))]).unwrap();
        settle(&mut story.log, &mut story.disk, now);
    }
    story.roll();
    let stamps = story.batches(3);
    let stamp = |batch: &Vec<u8>| Batch::read(batch).unwrap().header.base_timestamp;
    assert_eq!(stamps.iter().map(stamp).collect::<Vec<_>>(), [7_000_000, 3_000_000]);
}

#[test]
fn a_reading_begins_again_when_the_wall_clock_is_set_back() {
    let mut story = Story::idle();
    story.log.set_wall(story.now, Wall(7_000_000));
    let reading = story.log.begin_reading(story.now);
    story.log.set_wall(story.now, Wall(6_999_500));
    assert!(!story.log.may_have_missed(&reading, story.now), "a clock may go slower");
    story.log.set_wall(story.now, Wall(9_000_000));
    assert!(!story.log.may_have_missed(&reading, story.now), "nothing was compacted");
    story.log.set_wall(story.now, Wall(7_000_000));
    assert!(story.log.may_have_missed(&reading, story.now));
}

#[test]
fn a_batch_that_loses_records_keeps_its_offsets() {
    let mut story = Story::idle();
    let value = Some(&b"value"[..]);
    let keys = [&b"a"[..], b"b", b"c"];
    story.log.append(part(3), 5, keys.map(|key| (key, value))).unwrap();
    settle(&mut story.log, &mut story.disk, 5);
    story.put(3, "a", "2");
    story.put(3, "c", "2");
    story.roll();
    story.compact();
    let batches = story.batches(3);
    let header = Batch::read(&batches[0]).unwrap().header;
    assert_eq!((header.base_offset, header.last_offset_delta, header.records_count), (0, 2, 1));
    assert_eq!(story.texts(), ["3@1 b=value", "3@3 a=2", "3@4 c=2"]);
}

#[test]
fn the_last_batch_of_a_partition_is_kept_even_if_it_is_empty() {
    let mut story = Story::idle();
    story.put(4, "a", "1");
    story.delete(4, "a");
    story.roll();
    story.compact();
    assert_eq!(story.texts(), ["4@1 a=-"]);
    story.now += 1_001;
    story.roll();
    story.compact();
    assert!(story.texts().is_empty());
    let batches = story.batches(4);
    let header = Batch::read(&batches[0]).unwrap().header;
    assert_eq!((batches.len(), header.base_offset, header.records_count), (1, 1, 0));
    assert_eq!((header.base_timestamp, header.delete_horizon()), (-1, None));

    story.crash();
    story.put(4, "a", "3");
    assert_eq!(story.texts(), ["4@2 a=3"], "no offset is assigned twice");
    story.roll();
    story.compact();
    assert_eq!(story.batches(4).len(), 1, "it is no longer the last");
}

#[test]
fn a_tombstone_is_kept_until_its_delete_horizon() {
    let mut story = Story::idle();
    story.put(0, "a", "1");
    story.delete(0, "a");
    story.put(0, "b", "1");
    story.roll();
    story.compact();
    let horizon = |story: &Story| {
        let batches = story.batches(0);
        let headers = batches.iter().map(|batch| Batch::read(batch).unwrap().header);
        headers.map(|header| header.delete_horizon()).collect::<Vec<_>>()
    };
    let [Some(until), None] = horizon(&story)[..] else { panic!("{:?}", horizon(&story)) };
    assert!((story.now - 100 + 1_000..=story.now + 1_000).contains(&until), "{until}");
    assert_eq!(story.log.dropped_position(), 0);

    story.now = until - 100;
    story.roll();
    story.compact();
    assert_eq!(story.texts(), ["0@1 a=-", "0@2 b=1"]);
    assert_eq!(horizon(&story), [Some(until), None], "the horizon does not change");

    story.now = until;
    story.roll();
    story.compact();
    assert_eq!(story.texts(), ["0@2 b=1"]);
    let dropped = story.log.dropped_position();
    assert!((2..story.log.progress().accepted()).contains(&dropped), "{dropped}");
    story.crash();
    assert_eq!(story.log.dropped_position(), dropped, "it is in the header of the segment");
}

#[test]
fn timestamps_of_records_do_not_change_with_a_delete_horizon() {
    let mut story = Story::idle();
    let operation = [(&b"a"[..], None), (b"b", Some(&b"1"[..]))];
    story.log.append(part(0), 500, operation).unwrap();
    story.log.append(part(0), 777, [(&b"c"[..], Some(&b"1"[..]))]).unwrap();
    settle(&mut story.log, &mut story.disk, 0);
    story.roll();
    let before = records(&story.replayed());
    story.compact();
    let after = records(&story.replayed());
    for offset in 0..3 {
        assert_eq!(after[&(0, offset)], before[&(0, offset)]);
    }
    let batches = story.batches(0);
    let header = Batch::read(&batches[0]).unwrap().header;
    assert_eq!(header.attributes, 0x40, "Kafka's bit");
    assert_eq!(header.base_timestamp, header.delete_horizon().unwrap());
    assert_eq!(header.max_timestamp, 777);
}

/// Writes a snapshot or an update of a share partition.
fn share(story: &mut Story, key: &str, value: &str) {
    story.put(SHARE_STATE, key, value);
}

const SNAPSHOT: [&str; 2] = ["\0\0a", "\0\0b"];
const UPDATE: [&str; 2] = ["\0\x01a", "\0\x01b"];

#[test]
fn a_snapshot_displaces_older_snapshots_and_updates_of_its_share_partition() {
    let mut story = Story::idle();
    share(&mut story, SNAPSHOT[0], "1");
    share(&mut story, UPDATE[0], "2");
    share(&mut story, UPDATE[1], "3");
    share(&mut story, SNAPSHOT[0], "4");
    share(&mut story, UPDATE[0], "5");
    share(&mut story, UPDATE[0], "6");
    story.roll();
    story.compact();
    let left = ["100@2 \0\x01b=3", "100@3 \0\0a=4", "100@4 \0\x01a=5", "100@5 \0\x01a=6"];
    assert_eq!(story.texts(), left, "an update displaces nothing, not even of its own key");
    share(&mut story, UPDATE[0], "7");
    story.compact_again();
    assert_eq!(story.texts().len(), 5, "updates stay over passes");
    share(&mut story, SNAPSHOT[0], "8");
    story.compact_again();
    assert_eq!(story.texts(), ["100@2 \0\x01b=3", "100@7 \0\0a=8"]);
}

#[test]
fn the_tombstone_of_a_share_partition_goes_after_its_updates() {
    let mut story = Story::idle();
    share(&mut story, SNAPSHOT[0], "1");
    share(&mut story, UPDATE[0], "2");
    story.delete(SHARE_STATE, SNAPSHOT[0]);
    story.delete(SHARE_STATE, UPDATE[1]);
    share(&mut story, SNAPSHOT[1], "3");
    story.roll();
    story.compact();
    let left = ["100@2 \0\0a=-", "100@4 \0\0b=3"];
    assert_eq!(story.texts(), left, "an update without a value means nothing");
    story.now += 1_001;
    story.compact_again();
    assert_eq!(story.texts(), left[1..]);
}
