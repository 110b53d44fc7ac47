//! The files of a compacted log, and reads of them during compaction.

use crate::common::{State, compact, compacting_config, part, settle, values};
use crate::story::Story;
use muster_codec::record_batch::Batches;
use muster_storage::layout::{Block, COMPACTED_VERSION, SegmentHeader};
use muster_storage::{CompactionNews, FileDone, FileOp, FileToken};
use std::collections::BTreeMap;

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
    let before = State::of(&story.replayed());
    story.compact();
    assert_eq!(State::of(&story.replayed()), before);
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
    // The newest values take 16 KB. They may be on the disk twice, in addition to the segments that
    // are dirty, active, prepared for the next blocks, or kept for reuse.
    assert!(most <= 10 * (32 << 10), "{most}");
    assert_eq!(State::of(&story.replayed()).len(), 50);
}

/// Appends a long value for the same key each time.
fn append_again(story: &mut Story, round: i32) {
    let value = [round as u8; 400];
    story.log.append(part(0), story.now, [(&b"key"[..], Some(&value[..]))]).unwrap();
}

/// Performs the operations of the next millisecond, and returns them.
fn polled(story: &mut Story) -> Vec<FileOp> {
    let mut ops = Vec::new();
    story.log.poll(story.now, &mut ops);
    let done = story.disk.perform_all(ops.clone());
    done.into_iter().for_each(|done| story.log.done(done));
    story.now += 1;
    ops
}

#[test]
fn retired_files_are_reused() {
    let mut story = Story::new(compacting_config());
    let (mut zeroed, mut recycled) = (0, 0);
    for round in 0..1_000 {
        append_again(&mut story, round);
        for _ in 0..4 {
            for op in polled(&mut story) {
                match op {
                    FileOp::Rename { to, .. } => recycled += usize::from(to != story.path(1)),
                    FileOp::Write { data, .. } => {
                        zeroed += usize::from(data.iter().all(|byte| *byte == 0));
                    }
                    _ => {}
                }
            }
        }
    }
    assert!(recycled > 10 && zeroed < 8, "{recycled} recycled, {zeroed} filled with zeros");
    for _ in 0..3 {
        story.put(0, "key", "the last");
        story.crash();
        assert_eq!(story.texts().last().unwrap().split('=').nth(1), Some("the last"));
    }
}

/// Reads a partition as a consumer does, batch by batch.
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
fn files_of_a_backup_are_not_reused() {
    let mut story = Story::new(compacting_config());
    let (mut of_backup, mut is_backed_up) = (BTreeMap::new(), false);
    let (mut reused, mut removed) = (0, 0);
    for round in 0..1_000 {
        if round >= 500 && !is_backed_up {
            let extent = story.log.begin_backup();
            is_backed_up = extent.segments.len() > 2;
            let taken = extent.segments.into_iter().map(|it| {
                let path = extent.directory.join(it.name);
                let bytes = story.disk.live[&path][..it.bytes as usize].to_vec();
                (path, bytes)
            });
            of_backup = taken.collect();
        }
        append_again(&mut story, round);
        for _ in 0..4 {
            for op in polled(&mut story) {
                match op {
                    FileOp::Rename { from, to, .. } if to != story.path(1) => {
                        assert!(!of_backup.contains_key(&from), "{}", from.display());
                        reused += usize::from(is_backed_up);
                    }
                    FileOp::Rename { to, .. } => drop(of_backup.remove(&to)),
                    FileOp::RemoveFile { path } => {
                        removed += usize::from(of_backup.remove(&path).is_some());
                    }
                    _ => {}
                }
            }
            for (path, bytes) in &of_backup {
                assert!(story.disk.live[path].starts_with(bytes), "{}", path.display());
            }
        }
    }
    assert!(removed > 0 && reused > 10, "{removed} removed; {reused} later files reused");
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

/// In the middle of a pass, the file of the new segment is removed while the log has it closed.
#[test]
fn a_new_segment_that_is_gone_in_the_middle_is_not_made_again() {
    let mut story = Story::idle();
    for round in 0..700 {
        story.put(2, &format!("key {}", round % 300), &"x".repeat(700));
    }
    story.roll();
    let before = State::of(&story.replayed());
    story.log.set_compaction(compacting_config().compaction);
    let aside = story.config.dir.join("compacted.new");
    while !story.disk.live.contains_key(&aside) {
        polled(&mut story);
    }
    // Reads of many segments close the file.
    fetch(&mut story, 2);
    fetch(&mut story, 2);
    story.disk.live.remove(&aside).unwrap();
    story.disk.durable.remove(&aside).unwrap();
    let news = loop {
        polled(&mut story);
        if let Some(news) = story.log.take_compaction_news() {
            break news;
        }
    };
    assert!(matches!(news, CompactionNews::Gone { .. }), "{news:?}");
    assert_eq!(State::of(&story.replayed()), before);
    polled(&mut story);
    story.now += 20_000;
    story.compact();
    assert!(matches!(story.log.take_compaction_news(), Some(CompactionNews::Done { .. })));
    assert_eq!(State::of(&story.replayed()), before);
}

#[test]
fn a_new_segment_that_is_gone_when_it_gets_its_name_changes_nothing() {
    let mut story = Story::idle();
    for round in 0..120 {
        story.put(2, &format!("key {}", round % 7), &"x".repeat(500));
    }
    story.roll();
    let before = fetch(&mut story, 2);
    story.log.set_compaction(compacting_config().compaction);
    let aside = story.config.dir.join("compacted.new");
    let is_swap = |op: &FileOp| matches!(op, FileOp::Rename { from, .. } if *from == aside);
    let done = loop {
        let mut ops = Vec::new();
        story.log.poll(story.now, &mut ops);
        story.now += 1;
        if ops.iter().any(is_swap) {
            story.disk.live.remove(&aside).unwrap();
            story.disk.durable.remove(&aside).unwrap();
            break story.disk.perform_all(ops);
        }
        for done in story.disk.perform_all(ops) {
            story.log.done(done);
        }
    };
    // This read expects the new segment.
    let mut ops = Vec::new();
    let plan = story.log.read_plan(part(2), 0, 2_000, FileToken(1), &mut ops).unwrap();
    story.disk.perform_all(ops);
    done.into_iter().for_each(|done| story.log.done(done));
    assert!(!story.log.end_read(&plan));
    assert!(matches!(story.log.take_compaction_news(), Some(CompactionNews::Gone { .. })));
    assert_eq!(fetch(&mut story, 2), before);
    story.crash();
    assert_eq!(fetch(&mut story, 2), before);
    story.compact();
    assert_eq!(fetch(&mut story, 2).len(), 7);
}
