//! Records of transactions, and the markers that end them.

use crate::common::{compacting_config, part, settle};
use crate::story::Story;
use muster_codec::record_batch::{Batch, EndTxnMarker, Producer, TransactionOutcome};
use muster_storage::CompactionConfig;
use muster_storage::layout::SegmentHeader;

const MARKED: &str = "\0\0\0\u{1}=\0\0\0\0\0\0";
const ABORTED: &str = "\0\0\0\0=\0\0\0\0\0\0";

impl Story {
    fn put_in(&mut self, producer: i64, key: &str, value: &str) {
        let record = [(key.as_bytes(), Some(value.as_bytes()))];
        let by = Producer { id: producer, epoch: 5 };
        self.log.append_in_transaction(part(0), self.now, by, record).unwrap();
        settle(&mut self.log, &mut self.disk, self.now);
    }

    fn end(&mut self, producer: i64, outcome: TransactionOutcome) {
        let marker = EndTxnMarker { outcome, coordinator_epoch: 0 };
        self.log.append_marker(part(0), self.now, Producer { id: producer, epoch: 5 }, marker);
        settle(&mut self.log, &mut self.disk, self.now);
    }

    fn commit(&mut self, producer: i64) {
        self.end(producer, TransactionOutcome::Commit);
    }

    /// For each batch, whether it belongs to a transaction.
    fn of_transactions(&self) -> Vec<bool> {
        let batches = self.batches(0);
        let header = |bytes: &Vec<u8>| Batch::read(bytes).unwrap().header;
        batches.iter().map(|bytes| header(bytes).is_transactional()).collect()
    }
}

fn marker(offset: i64, text: &str) -> String {
    format!("0@{offset} {text}")
}

#[test]
fn of_two_commits_the_later_record_stays_whichever_marker_came_first() {
    let mut story = Story::idle();
    story.put_in(1, "a", "first");
    story.put(0, "a", "plain");
    story.put_in(2, "a", "last");
    story.commit(2);
    story.commit(1);
    story.put_in(1, "b", "old");
    story.put(0, "b", "new");
    story.commit(1);
    story.roll();
    story.compact();
    let left = [
        marker(2, "a=last"),
        marker(3, MARKED),
        marker(4, MARKED),
        marker(6, "b=new"),
        marker(7, MARKED),
    ];
    assert_eq!(story.texts(), left);
    assert_eq!(story.of_transactions(), [false, true, true, false, true], "rewritten as plain");
}

#[test]
fn aborted_records_go_and_displace_nothing() {
    let mut story = Story::idle();
    story.put(0, "a", "committed");
    story.put_in(1, "a", "aborted");
    story.end(1, TransactionOutcome::Abort);
    story.roll();
    story.compact();
    assert_eq!(story.texts(), [marker(0, "a=committed"), marker(2, ABORTED)]);
}

#[test]
fn markers_go_when_a_snapshot_has_what_they_ended() {
    let mut story = Story::idle();
    story.put_in(1, "a", "1");
    story.commit(1);
    story.put(0, "b", "1");
    story.roll();
    story.compact();
    assert_eq!(story.texts(), [marker(0, "a=1"), marker(1, MARKED), marker(2, "b=1")]);
    // The marker stays: a snapshot might still have a pending record that it commits.
    story.compact_again();
    assert_eq!(story.texts(), [marker(0, "a=1"), marker(1, MARKED), marker(2, "b=1")]);
    story.log.keep_markers_after(story.log.progress().flushed());
    story.compact_again();
    assert_eq!(story.texts(), [marker(0, "a=1"), marker(2, "b=1")]);
}

#[test]
fn nothing_is_compacted_from_the_first_record_of_an_open_transaction_on() {
    let mut story = Story::idle();
    story.put(0, "a", "1");
    story.put(0, "a", "2");
    story.put_in(1, "b", "open");
    story.put(0, "a", "3");
    story.put(0, "a", "4");
    story.roll();
    story.compact();
    let left = [marker(2, "b=open"), marker(3, "a=3"), marker(4, "a=4")];
    assert_eq!(story.texts(), left);
    story.compact_again();
    assert_eq!(story.texts(), left);
    story.commit(1);
    story.roll();
    story.compact();
    assert_eq!(story.texts(), [marker(2, "b=open"), marker(4, "a=4"), marker(5, MARKED)]);
    assert_eq!(story.of_transactions(), [false, false, true]);
}

#[test]
fn a_reading_begins_again_if_a_marker_was_dropped_that_it_may_lack() {
    let mut story = Story::idle();
    story.put_in(1, "a", "1");
    story.commit(1);
    story.roll();
    let rules = compacting_config().compaction.unwrap();
    // With this retention no tombstone reaches its delete horizon.
    story.config.compaction = Some(CompactionConfig { delete_retention_ms: 1_000_000, ..rules });
    story.log.set_compaction(story.config.compaction);
    let early = story.log.begin_reading(story.now);
    story.log.keep_markers_after(story.log.progress().flushed());
    story.compact();
    assert_eq!(story.texts(), [marker(0, "a=1"), marker(1, MARKED)], "not in the same pass");
    let late = story.log.begin_reading(story.now);
    assert!(!story.log.may_have_missed(&early, story.now));
    story.compact_again();
    assert!(story.log.may_have_missed(&early, story.now));
    assert!(!story.log.may_have_missed(&late, story.now));
}

#[test]
fn a_pass_may_read_a_marker_in_a_segment_that_was_too_young_for_the_last() {
    let mut story = Story::idle();
    let rules = compacting_config().compaction.unwrap();
    let rules = CompactionConfig { min_dirty_ratio: 0.0, min_lag_ms: 10_000_000, ..rules };
    story.put_in(1, "a", "1");
    story.roll();
    story.now += 20_000_000;
    story.commit(1);
    story.roll();
    story.config.compaction = Some(rules);
    // The record is now in the first dirty block. Its marker is in a segment that is too young for
    // the pass.
    story.compact();
    assert_eq!(story.of_transactions(), [true, true]);
    story.now += 20_000_000;
    story.compact();
    assert_eq!(story.of_transactions(), [false, true]);
}

#[test]
fn blocks_of_transactions_do_not_grow_where_the_block_size_has() {
    let mut story = Story::idle();
    for round in 0..20 {
        story.put_in(1, &format!("key {round}"), "value");
        story.commit(1);
    }
    story.roll();
    (story.config.block_bytes, story.disk.block_bytes) = (4096, 4096);
    story.crash();
    let before = (story.texts(), story.disk.live[&story.path(1)].len());
    story.compact();
    let bytes = &story.disk.live[&story.path(1)];
    let (header, _) = SegmentHeader::read(bytes).unwrap();
    assert!(header.compacted.is_some());
    assert_eq!(header.block_bytes, 512);
    assert_eq!(bytes.len(), header.segment_bytes.next_multiple_of(4096) as usize);
    // Each operation of a transaction stays in a block of its own; the filler's blocks are merged.
    assert!(bytes.len() <= before.1, "{} after {}", bytes.len(), before.1);
    assert_eq!(story.texts(), before.0);
    story.compact_again();
    let left: Vec<_> = (0..20).map(|it| marker(2 * it, &format!("key {it}=value"))).collect();
    let has = |text: &String| story.texts().contains(text);
    assert!(left.iter().all(has), "{:?}", story.texts());
    let size = story.disk.live[&story.path(1)].len();
    assert!(size <= before.1, "{size}");
}
