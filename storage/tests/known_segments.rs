//! The segment index of a snapshot may only be used while it is valid.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    Disk, Replayed, TOPICS, compact, compacting_config, open, part, recover, recover_by, settle,
};
use muster_storage::layout::{Compacted, SegmentHeader};
use muster_storage::{KnownSegments, LogConfig, Recovered, Recovery, SegmentWalk, ShardLog};

/// A recovery that knows the segments in a snapshot.
fn knowing(known: &[u8]) -> Recovery {
    Recovery::new(TOPICS).knowing(KnownSegments::read(known, TOPICS).unwrap())
}

struct Story {
    log: ShardLog,
    disk: Disk,
    now: i64,
}

impl Story {
    /// A compacted log with records of many keys, and a single small record in a partition of its
    /// own.
    fn compacted() -> Self {
        let disk = Disk::default();
        let log = open(&disk, compacting_config()).0;
        let mut story = Self { log, disk, now: 1_000_000 };
        settle(&mut story.log, &mut story.disk, story.now);
        story.put(5, "small", 1);
        (0..120).for_each(|key| story.put(0, &format!("key {key}"), 700));
        story.roll();
        story
    }

    fn put(&mut self, partition: i32, key: &str, len: usize) {
        let record = [(key.as_bytes(), Some(vec![7; len]))];
        let record = record.iter().map(|(key, value)| (*key, value.as_deref()));
        self.log.append(part(partition), self.now, record).unwrap();
        settle(&mut self.log, &mut self.disk, self.now);
    }

    /// Fills segments with filler records, which the test ignores, and compacts the earlier
    /// segments.
    fn roll(&mut self) {
        (0..30).for_each(|_| self.put(9, "filler", 3_000));
        compact(&mut self.log, &mut self.disk, &mut self.now);
    }

    fn restart(&mut self, config: LogConfig) {
        self.disk.crash();
        self.log = open(&self.disk, config).0;
        settle(&mut self.log, &mut self.disk, self.now);
    }

    /// The segment index for a snapshot.
    fn know(&self) -> Vec<u8> {
        let mut walk = SegmentWalk::new(0, self.log.progress().accepted());
        let mut known = Vec::new();
        while self.log.write_segments(&mut walk, &mut known).is_none() {}
        known
    }

    fn first_header(&self) -> SegmentHeader {
        SegmentHeader::read(self.disk.live.values().next().unwrap()).unwrap().0
    }

    /// Checks that recovery with and without the index has the same result. Returns the batches
    /// that each of them read.
    fn start(&self, known: &[u8]) -> [Vec<Replayed>; 2] {
        let knowing = knowing(known);
        let dir = compacting_config().dir;
        let (recovered, read) = recover_by(knowing, &self.disk, &dir).unwrap();
        let (all, read_all) = recover(&self.disk, &dir).unwrap();
        assert_eq!(found(&recovered), found(&all));
        [read, read_all]
    }
}

/// The result of recovery, except how the segments end.
fn found(recovered: &Recovered) -> String {
    format!("{recovered:?}").split(" ends: ").next().unwrap().to_owned()
}

#[test]
fn known_segments_are_not_read() {
    let story = Story::compacted();
    let [read, read_all] = story.start(&story.know());
    assert!(!read.iter().any(|batch| batch.partition == 0));
    assert!(read_all.iter().any(|batch| batch.partition == 0));
}

/// The second pass drops the only record of a partition. The segment's header then differs only in
/// the number of the pass.
#[test]
fn a_segment_that_another_pass_wrote_is_read() {
    let mut story = Story::compacted();
    let (known, before) = (story.know(), story.first_header());
    story.put(5, "small", 1);
    story.roll();
    let after = story.first_header();
    let as_before = Compacted { pass: before.compacted.unwrap().pass, ..after.compacted.unwrap() };
    assert_ne!(after, before);
    assert_eq!(SegmentHeader { compacted: Some(as_before), ..after }, before);
    story.start(&known);
}

/// The last segment with blocks takes no more blocks while the log has another block size. After a
/// later restart it may take blocks again, and its header does not show this.
#[test]
fn the_last_segment_with_blocks_is_always_read() {
    let mut story = Story::compacted();
    story.put(1, "last", 10);
    let other_blocks = LogConfig { block_bytes: 4096, ..compacting_config() };
    story.restart(other_blocks);
    let known = story.know();
    story.restart(compacting_config());
    story.put(1, "after it", 10);
    story.start(&known);
}

/// Damage before the position of a snapshot is skipped, because the snapshot has all operations up
/// to there. If damage is skipped, a recovery without the snapshot must fail.
#[test]
fn damage_that_is_older_than_a_snapshot_is_skipped() {
    let mut story = Story::compacted();
    (0..20).for_each(|key| story.put(1, &format!("late {key}"), 400));
    let (known, saved_to) = (story.know(), story.log.progress().flushed());
    (0..8).for_each(|key| story.put(2, &format!("new {key}"), 400));
    let dir = compacting_config().dir;
    let newest = |story: &Story, partition| story.log.log_end_offset(part(partition));
    let paths: Vec<_> = story.disk.live.keys().cloned().collect();
    let (mut spared, mut refused) = (0, 0);
    for path in &paths {
        let length = story.disk.live[path].len();
        let changes = (0..length).step_by(499).map(Some).chain([None]);
        for at in changes {
            let mut disk = story.disk.clone();
            match at {
                Some(at) => disk.live.get_mut(path).unwrap()[at] ^= 0x10,
                None => drop(disk.live.remove(path)),
            }
            let knowing = knowing(&known);
            let found = recover_by(knowing.sparing(saved_to), &disk, &dir);
            let Ok((mut recovered, read)) = found else {
                refused += 1;
                continue;
            };
            let is_damaged = recover(&disk, &dir).is_err();
            if recovered.position() < story.log.progress().flushed() {
                continue;
            }
            // All operations after the snapshot are read, and no offset is assigned again.
            let late = read.iter().filter(|it| it.partition == 2 && it.position > saved_to);
            assert_eq!(late.count(), 8, "{path:?}, {at:?}");
            recovered.skip_offsets([0, 1, 2, 5, 9].map(part));
            spared += usize::from(recovered.spared().is_some());
            assert!(is_damaged || recovered.spared().is_none(), "{path:?}, {at:?}");
            let log = ShardLog::new(compacting_config(), recovered);
            for partition in [0, 1, 2, 5, 9] {
                let end = log.log_end_offset(part(partition));
                assert!(end >= newest(&story, partition), "{path:?}, {at:?}: {partition}");
            }
        }
    }
    println!("{spared} spared, {refused} refused");
    assert!(spared > 20 && refused > 0);
}

impl Story {
    /// Damages the last block of the first segment, and starts without it.
    fn damaged() -> Self {
        let mut story = Self::compacted();
        let saved_to = story.log.progress().flushed();
        story.disk.crash();
        let first = story.disk.live.values_mut().next().unwrap();
        let last = first.iter().rposition(|byte| *byte == 7).unwrap();
        first[last] ^= 1;
        assert!(recover(&story.disk, &compacting_config().dir).is_err());
        story.restart_by(Recovery::new(TOPICS).sparing(saved_to));
        story
    }

    /// Returns the batches that were read.
    fn restart_by(&mut self, recovery: Recovery) -> Vec<Replayed> {
        let (recovered, read) = recover_by(recovery, &self.disk, &compacting_config().dir).unwrap();
        self.log = ShardLog::new(compacting_config(), recovered);
        settle(&mut self.log, &mut self.disk, self.now);
        read
    }

    fn rewrite(&mut self) {
        let saved_to = self.log.progress().flushed();
        let superseded = self.log.begin_rewrite().unwrap();
        self.put(0, "key 0", 700);
        self.log.end_rewrite(superseded, "kept".into());
        compact(&mut self.log, &mut self.disk, &mut self.now);
        assert_eq!(self.log.dropped_position(), saved_to);
    }
}

/// Compaction wrote the segment after the snapshot, so recovery reads it. Nothing is left of its
/// last block.
#[test]
fn a_compacted_segment_with_a_damaged_last_block_is_replaced_by_a_rewrite() {
    Story::damaged().rewrite();
}

/// Older builds took the end of the block before for the end of such a segment, and wrote it to
/// their next snapshot.
#[test]
fn a_segment_that_ends_before_its_first_dirty_block_is_read() {
    let mut story = Story::damaged();
    let saved_to = story.log.progress().flushed();
    let mut known = story.know();
    let number = |at: usize| u32::from_be_bytes(*known[at..].first_chunk().unwrap());
    let (block_bytes, end, dirty_from) = (number(64), number(72), number(76));
    assert_eq!(dirty_from, end);
    known[72..76].copy_from_slice(&(end - block_bytes).to_be_bytes());
    story.disk.crash();
    let read = story.restart_by(knowing(&known).sparing(saved_to));
    assert!(read.iter().any(|batch| batch.partition == 0), "its segment is read");
    story.rewrite();
}

#[test]
fn passes_are_counted_over_restarts() {
    let mut story = Story::compacted();
    let mut last = 0;
    for _ in 0..3 {
        story.disk.crash();
        story.log = open(&story.disk, compacting_config()).0;
        (0..3).for_each(|_| story.roll());
        let Compacted { pass, .. } = story.first_header().compacted.unwrap();
        assert!(pass > last, "{pass} after {last}");
        last = pass;
    }
}
