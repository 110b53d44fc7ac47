//! When a pass of compaction runs, and what ends it.

use crate::common::{State, compact, compacting_config, part, records, settle};
use crate::story::Story;
use muster_storage::{CompactionConfig, CompactionNews, FileDone, FileOp};

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
        let before = State::of(&story.replayed());
        story.compact();
        let after = records(&story.replayed());
        assert_eq!(State::of(&story.replayed()), before);
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
