//! Compaction of a shard's log: the records that it keeps and drops, and its conditions.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    Disk, Found, Replayed, compact, compacting_config, open, part, records, recover, settle, state,
    values,
};
use muster_codec::Wall;
use muster_codec::record_batch::{Batch, Batches};
use muster_storage::layout::{Block, COMPACTED_VERSION, SegmentHeader};
use muster_storage::shard_log::recovery::segment_file_name;
use muster_storage::{
    CompactionConfig, CompactionNews, FileDone, FileOp, FileToken, LogConfig, ShardLog,
};
use std::path::PathBuf;

/// A log, its disk and its clock.
struct Story {
    log: ShardLog,
    disk: Disk,
    config: LogConfig,
    now: i64,
}

impl Story {
    fn new(config: LogConfig) -> Self {
        let disk = Disk::default();
        let (log, _) = open(&disk, config.clone());
        let mut story = Self { log, disk, config, now: 1_000_000 };
        settle(&mut story.log, &mut story.disk, story.now);
        // The first segment is active, the second ready.
        story.write(9, "filler", None);
        story
    }

    /// A log that is compacted only by [`Story::compact`].
    fn idle() -> Self {
        Self::new(LogConfig { compaction: None, ..compacting_config() })
    }

    fn put(&mut self, partition: i32, key: &str, value: &str) {
        self.write(partition, key, Some(value.as_bytes()));
    }

    fn delete(&mut self, partition: i32, key: &str) {
        self.write(partition, key, None);
    }

    fn write(&mut self, partition: i32, key: &str, value: Option<&[u8]>) {
        self.log.append(part(partition), self.now, [(key.as_bytes(), value)]).unwrap();
        settle(&mut self.log, &mut self.disk, self.now);
    }

    /// Fills the active segment with records that the test does not look at.
    fn roll(&mut self) {
        let before = self.newest();
        while self.newest() == before {
            self.write(9, "filler", Some(&[0; 3_000]));
        }
    }

    /// The file of the newest segment.
    fn newest(&self) -> PathBuf {
        let is_segment = |path: &&PathBuf| path.extension().is_some_and(|it| it == "log");
        self.disk.live.keys().rfind(is_segment).unwrap().clone()
    }

    /// Runs all passes that are due.
    fn compact(&mut self) {
        let config = self.config.compaction.or(compacting_config().compaction);
        self.log.set_compaction(config);
        compact(&mut self.log, &mut self.disk, &mut self.now);
    }

    fn replayed(&self) -> Vec<Replayed> {
        recover(&self.disk, &self.config.dir).unwrap().1
    }

    /// The records of all partitions but the filler's, in order.
    fn texts(&self) -> Vec<String> {
        let found = records(&self.replayed());
        let text = |((partition, offset), it): (&(i32, i64), &Found)| {
            let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
            let value = it.value.as_ref().map_or("-".to_owned(), text);
            format!("{partition}@{offset} {}={value}", text(&it.key))
        };
        found.iter().filter(|((partition, _), _)| *partition != 9).map(text).collect()
    }

    fn batches(&self, partition: i32) -> Vec<Vec<u8>> {
        let of = |it: &Replayed| it.partition == partition;
        self.replayed().into_iter().filter(of).map(|it| it.bytes).collect()
    }

    fn crash(&mut self) {
        self.disk.crash();
        self.log = open(&self.disk, self.config.clone()).0;
        settle(&mut self.log, &mut self.disk, self.now);
    }

    fn path(&self, sequence: u64) -> PathBuf {
        self.config.dir.join(segment_file_name(sequence))
    }
}

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

#[test]
fn small_segments_are_merged() {
    let mut story = Story::idle();
    for round in 0..6 {
        story.put(0, &format!("key {round}"), "1");
        story.roll();
    }
    story.compact();
    let bytes = &story.disk.live[&story.path(1)];
    let (header, version) = SegmentHeader::read(bytes).unwrap();
    let compacted = header.compacted.unwrap();
    assert_eq!((version, header.sequence), (COMPACTED_VERSION, 1));
    assert!(compacted.last_sequence >= 6, "{compacted:?}");
    assert_eq!((compacted.first_position, compacted.dropped_position), (1, 0));
    assert_eq!(bytes.len(), header.segment_bytes as usize, "no longer than its blocks");
    assert!(bytes.len() <= 8 << 10, "{}", bytes.len());
    assert_eq!(compacted.dirty_from, header.segment_bytes);
    let block = Block::read(&bytes[header.block_bytes as usize..]).unwrap();
    assert_eq!(block.header.segment, 1);
    let left: Vec<_> = (0..6).map(|round| format!("0@{round} key {round}=1")).collect();
    assert_eq!(story.texts(), left);
}

#[test]
fn a_long_log_is_compacted_to_several_segments() {
    let mut story = Story::idle();
    for key in 0..400 {
        story.put(0, &format!("key {key}"), &"x".repeat(700));
        if key % 3 == 0 {
            story.put(0, "again", "and again");
        }
    }
    story.roll();
    let before = state(&records(&story.replayed()));
    story.compact();
    assert_eq!(state(&records(&story.replayed())), before);
    let is_compacted = |bytes: &Vec<u8>| SegmentHeader::read(bytes).unwrap().1 == COMPACTED_VERSION;
    let compacted = story.disk.live.values().filter(|bytes| is_compacted(bytes));
    let sizes: Vec<_> = compacted.map(Vec::len).collect();
    assert!(sizes.len() > 3, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 64 << 10), "{sizes:?}");
}

#[test]
fn disk_usage_is_bounded_under_endless_commits_to_the_same_keys() {
    let mut story = Story::new(compacting_config());
    let mut most = 0;
    for round in 0..3_000 {
        let (key, value) = (format!("key {}", round % 50), [b'x'; 300]);
        story.log.append(part(round % 5), story.now, [(key.as_bytes(), Some(&value[..]))]).unwrap();
        settle(&mut story.log, &mut story.disk, story.now);
        story.now += 5;
        most = most.max(story.disk.bytes());
    }
    compact(&mut story.log, &mut story.disk, &mut story.now);
    // 16 KB are live. They may be there twice, beside the dirty, active, ready and spare segments.
    assert!(most <= 10 * (32 << 10), "{most}");
    assert_eq!(state(&records(&story.replayed())).len(), 50);
}

#[test]
fn retired_files_are_reused() {
    let mut story = Story::new(compacting_config());
    let (mut zeroed, mut recycled) = (0, 0);
    for round in 0..1_000 {
        let value = [round as u8; 400];
        story.log.append(part(0), story.now, [(&b"key"[..], Some(&value[..]))]).unwrap();
        for _ in 0..4 {
            let mut ops = Vec::new();
            story.log.poll(story.now, &mut ops);
            for op in &ops {
                match op {
                    FileOp::Rename { to, .. } => recycled += usize::from(*to != story.path(1)),
                    FileOp::Write { data, .. } => {
                        zeroed += usize::from(data.iter().all(|byte| *byte == 0));
                    }
                    _ => {}
                }
            }
            for done in story.disk.perform_all(ops) {
                story.log.done(done);
            }
            story.now += 1;
        }
    }
    assert!(recycled > 10 && zeroed < 8, "{recycled} recycled, {zeroed} filled with zeros");
    for _ in 0..3 {
        story.put(0, "key", "the last");
        story.crash();
        assert_eq!(story.texts().last().unwrap().split('=').nth(1), Some("the last"));
    }
}

/// Reads a partition as a consumer does: from each batch to the next.
fn fetch(story: &mut Story, partition: i32) -> Vec<(i64, i32)> {
    let (mut offset, mut found) = (0, Vec::new());
    let end = story.log.high_watermark(part(partition));
    while offset < end {
        let (mut ops, token) = (Vec::new(), FileToken(1));
        let plan = story.log.read_plan(part(partition), offset, 2_000, token, &mut ops).unwrap();
        let done = story.disk.perform_all(ops);
        let [FileDone::Read { data, .. }] = done.as_slice() else { panic!("{done:?}") };
        story.log.end_read(&plan);
        let mut bytes = Vec::new();
        plan.extract(data, &mut bytes).unwrap();
        assert!(!bytes.is_empty(), "offset {offset} of {end}");
        for batch in Batches::new(&bytes) {
            let header = batch.unwrap().header;
            assert!(header.next_offset() > offset);
            offset = header.next_offset();
            found.push((header.base_offset, header.records_count));
        }
    }
    found
}

#[test]
fn a_partition_is_fetched_before_during_and_after_compaction() {
    let mut story = Story::idle();
    for round in 0..120 {
        story.put(2, &format!("key {}", round % 7), &"x".repeat(500));
        story.put(3, &format!("key {round}"), &"x".repeat(200));
    }
    story.roll();
    assert_eq!(fetch(&mut story, 2).len(), 120);
    story.log.set_compaction(compacting_config().compaction);
    let mut was_less = false;
    for _ in 0..3_000 {
        story.now += 1;
        let mut ops = Vec::new();
        story.log.poll(story.now, &mut ops);
        for done in story.disk.perform_all(ops) {
            story.log.done(done);
        }
        let found = fetch(&mut story, 2);
        assert_eq!(found.last(), Some(&(119, 1)));
        assert_eq!(fetch(&mut story, 3).len(), 120);
        was_less |= found.len() < 120;
        if found.len() == 7 {
            break;
        }
    }
    assert!(was_less);
    assert_eq!(fetch(&mut story, 2).len(), 7);
    story.crash();
    assert_eq!(fetch(&mut story, 2).len(), 7);
}

#[test]
fn a_file_that_is_being_read_is_not_reused() {
    let mut story = Story::idle();
    story.roll();
    story.put(0, "key", "1");
    story.roll();
    let (mut ops, token) = (Vec::new(), FileToken(1));
    let plan = story.log.read_plan(part(0), 0, 2_000, token, &mut ops).unwrap();
    let done = story.disk.perform_all(ops);
    story.compact();
    for _ in 0..4 {
        story.roll();
    }
    let kept = story.path(2);
    assert!(story.disk.live.contains_key(&kept), "it is spare, and kept");
    let [FileDone::Read { data, .. }] = done.as_slice() else { panic!("{done:?}") };
    let mut bytes = Vec::new();
    plan.extract(data, &mut bytes).unwrap();
    assert_eq!(values(&bytes), [b"1"]);
    story.log.end_read(&plan);
    for _ in 0..4 {
        story.roll();
    }
    assert!(!story.disk.live.contains_key(&kept));
}

#[test]
fn a_table_that_is_too_small_needs_several_passes() {
    for keys in [200u32, 4_000] {
        let compaction = CompactionConfig {
            map_bytes: 1,
            min_dirty_ratio: 0.0,
            ..compacting_config().compaction.unwrap()
        };
        let mut story = Story::idle();
        story.config.compaction = Some(compaction);
        for round in 0..3u8 {
            for first in (0..keys).step_by(100) {
                let keys = (first..first + 100).map(u32::to_be_bytes);
                let keys: Vec<_> = keys.collect();
                let records = keys.iter().map(|key| (&key[..], Some(std::slice::from_ref(&round))));
                story.log.append(part(0), story.now, records).unwrap();
                settle(&mut story.log, &mut story.disk, story.now);
            }
        }
        story.roll();
        let before = state(&records(&story.replayed()));
        story.compact();
        let after = records(&story.replayed());
        assert_eq!(state(&after), before);
        let left = after.keys().filter(|(partition, _)| *partition == 0).count();
        assert_eq!(left, keys as usize, "the newest of each key");
    }
}

#[test]
fn a_full_disk_ends_only_the_pass() {
    let mut story = Story::idle();
    for round in 0..100 {
        story.put(0, &format!("key {round}"), &"x".repeat(700));
    }
    story.roll();
    let before = story.texts();
    story.disk.is_full = true;
    story.compact();
    assert_eq!(story.log.take_compaction_news(), Some(CompactionNews::NoSpace));
    assert_eq!(story.log.take_compaction_news(), None);
    assert_eq!(story.texts(), before);
    assert!(!story.disk.live.contains_key(&story.config.dir.join("compacted.new")));
    story.put(0, "still accepted", "1");

    story.disk.is_full = false;
    story.now += 14_000;
    compact(&mut story.log, &mut story.disk, &mut story.now);
    assert_eq!(story.log.take_compaction_news(), None, "not yet");
    story.now += 2_000;
    compact(&mut story.log, &mut story.disk, &mut story.now);
    let news = story.log.take_compaction_news();
    assert!(matches!(news, Some(CompactionNews::Done { .. })), "{news:?}");
}

#[test]
fn a_new_config_does_not_shorten_the_wait_after_a_full_disk() {
    let mut story = Story::idle();
    for round in 0..100 {
        story.put(0, &format!("key {round}"), &"x".repeat(700));
    }
    story.roll();
    story.disk.is_full = true;
    story.compact();
    story.log.set_compaction(compacting_config().compaction);
    story.log.poll(story.now, &mut Vec::new());
    assert!(story.log.next_deadline().is_some_and(|at| at > story.now), "it would never sleep");
}

#[test]
fn a_damaged_segment_is_reported_and_ends_compaction() {
    let mut story = Story::idle();
    story.put(0, "key", "1");
    story.roll();
    story.roll();
    let before = story.disk.live[&story.path(1)].clone();
    let second = story.path(2);
    story.disk.live.get_mut(&second).unwrap()[5_000] ^= 1;
    story.compact();
    let news = story.log.take_compaction_news();
    assert!(matches!(news, Some(CompactionNews::Damaged { segment: 2, .. })), "{news:?}");
    story.put(0, "key", "still accepted");
    story.compact();
    assert_eq!(story.log.take_compaction_news(), None, "no further pass");
    assert_eq!(story.disk.live[&story.path(1)], before);
    assert_eq!(story.log.next_deadline(), None);
}

#[test]
fn a_read_that_fails_counts_as_damage() {
    let mut story = Story::idle();
    story.roll();
    story.log.set_compaction(compacting_config().compaction);
    let mut ops = Vec::new();
    story.log.poll(story.now, &mut ops);
    story.log.poll(story.now + 1, &mut ops);
    let read = ops.iter().find_map(|op| match op {
        FileOp::Read { token, .. } => Some(*token),
        _ => None,
    });
    story.log.done(FileDone::ReadFailed { token: read.unwrap(), reason: "EIO".into() });
    let news = story.log.take_compaction_news();
    assert!(matches!(news, Some(CompactionNews::Damaged { .. })), "{news:?}");
}

#[test]
fn flushes_come_before_compaction_and_are_not_delayed_by_it() {
    let mut story = Story::idle();
    for round in 0..60 {
        story.put(0, &format!("key {round}"), &"x".repeat(700));
    }
    story.roll();
    story.log.set_compaction(compacting_config().compaction);
    let mut compactions = 0;
    for _ in 0..400 {
        story.now += 1;
        story.log.append(part(1), story.now, [(&b"key"[..], Some(&b"value"[..]))]).unwrap();
        let mut ops = Vec::new();
        story.log.poll(story.now, &mut ops);
        let kind = |op: &FileOp| match op {
            FileOp::Write { token, .. } | FileOp::Read { token, .. } => token.0 & 3,
            _ => u64::MAX,
        };
        let first = |wanted| ops.iter().position(|op| kind(op) == wanted);
        let flush = first(0).expect("each millisecond has its flush");
        assert!(first(2).is_none_or(|compaction| compaction > flush));
        compactions += usize::from(first(2).is_some());
        for op in &ops {
            match op {
                FileOp::Write { data, .. } => assert!(data.len() <= 256 << 10),
                FileOp::Read { len, .. } => assert!(*len <= 256 << 10),
                _ => {}
            }
        }
        for done in story.disk.perform_all(ops) {
            story.log.done(done);
        }
    }
    assert!(compactions > 3, "{compactions}");
    let news = story.log.take_compaction_news();
    assert!(matches!(news, Some(CompactionNews::Done { .. })), "{news:?}");
}

#[test]
fn a_limit_on_reads_and_writes_is_obeyed() {
    let passes_in = |io_bytes_per_second| {
        let mut story = Story::idle();
        for round in 0..200 {
            story.put(0, &format!("key {round}"), &"x".repeat(700));
        }
        story.roll();
        let compaction = compacting_config().compaction.unwrap();
        story.config.compaction = Some(CompactionConfig { io_bytes_per_second, ..compaction });
        let before = story.now;
        story.log.set_compaction(story.config.compaction);
        while story.log.take_compaction_news().is_none() {
            let mut ops = Vec::new();
            story.log.poll(story.now, &mut ops);
            for done in story.disk.perform_all(ops) {
                story.log.done(done);
            }
            story.now += 1;
        }
        story.now - before
    };
    let (free, limited) = (passes_in(u64::MAX), passes_in(1_000_000));
    assert!(free < 100 && (300..1_500).contains(&limited), "{free} ms, {limited} ms");
}

#[test]
fn a_pass_is_due_according_to_the_config() {
    let rules = compacting_config().compaction.unwrap();
    let passes = |compaction: CompactionConfig, now_after: i64| {
        let mut story = Story::idle();
        story.config.compaction = Some(compaction);
        for _ in 0..2 {
            story.roll();
        }
        story.now += now_after;
        story.compact();
        matches!(story.log.take_compaction_news(), Some(CompactionNews::Done { .. }))
    };
    assert!(passes(rules, 0));
    assert!(!passes(CompactionConfig { min_dirty_ratio: 1.0, ..rules }, 0));
    let lag = CompactionConfig { min_lag_ms: 5_000, ..rules };
    assert!(!passes(lag, 4_000));
    assert!(passes(lag, 6_000));
    let lag = CompactionConfig { min_dirty_ratio: 1.0, max_lag_ms: 5_000, ..rules };
    assert!(!passes(lag, 4_000));
    assert!(passes(lag, 6_000));
}

#[test]
fn max_lag_holds_for_the_active_segment() {
    let mut story = Story::idle();
    let compaction = compacting_config().compaction.unwrap();
    story.config.compaction = Some(CompactionConfig { max_lag_ms: 5_000, ..compaction });
    story.put(0, "key", "1");
    story.put(0, "key", "2");
    story.log.set_compaction(story.config.compaction);
    compact(&mut story.log, &mut story.disk, &mut story.now);
    assert_eq!(story.texts().len(), 2);
    story.now += 20_001;
    compact(&mut story.log, &mut story.disk, &mut story.now);
    assert_eq!(story.texts(), ["0@1 key=2"]);
    story.put(0, "key", "3");
    assert_eq!(story.texts(), ["0@1 key=2", "0@2 key=3"]);
}

#[test]
fn the_file_of_an_interrupted_pass_is_removed() {
    let mut story = Story::idle();
    story.put(0, "key", "1");
    let aside = story.config.dir.join("compacted.new");
    story.disk.live.insert(aside.clone(), vec![7; 5_000]);
    story.disk.durable.insert(aside.clone(), vec![7; 5_000]);
    story.config.compaction = compacting_config().compaction;
    story.crash();
    assert!(!story.disk.live.contains_key(&aside));
    assert_eq!(story.texts(), ["0@0 key=1"]);
}

#[test]
fn without_work_there_is_no_deadline() {
    let mut story = Story::new(compacting_config());
    story.put(0, "key", "1");
    assert_eq!(story.log.next_deadline(), None);
    story.roll();
    story.compact();
    assert_eq!(story.log.next_deadline(), None);
}
